package uring

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/aiotest"
	"github.com/mqd-broker/mqd/engine/aio/hostfs"
)

func TestConformance(t *testing.T) { conform(t, Config{}) }

// A driver whose memory is not registered yet does the same.
func TestConformanceBeforeWarm(t *testing.T) { conform(t, Config{Warm: true}) }

func conform(t *testing.T, c Config) {
	aiotest.Run(t, func(t *testing.T) aiotest.Env {
		flushes := &aiotest.Flushes{FS: c.FS}
		if c.FS == nil {
			flushes.FS = hostfs.New()
		}
		c := c
		c.FS = flushes
		return aiotest.Env{
			Dir:  t.TempDir(),
			Time: aiotest.Real,
			Open: func(o aio.Options) (aio.Driver, error) { return New(o, c) },

			FailFlushes: flushes.Fail,
		}
	})
}
