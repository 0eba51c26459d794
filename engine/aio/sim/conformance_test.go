package sim_test

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/aiotest"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

func TestVirtualDriverConforms(t *testing.T) {
	aiotest.Run(t, conformance(sim.Options{Seed: 7}, aiotest.Virtual))
}

func TestRealTimeDriverConforms(t *testing.T) {
	aiotest.Run(t, conformance(sim.Options{Seed: 7, Mode: sim.RealTime}, aiotest.Real))
}

func TestDriverOfADeviceWithoutFUAConforms(t *testing.T) {
	aiotest.Run(t, conformance(sim.Options{Seed: 8, DSYNC: sim.DSYNCFlushes}, aiotest.Virtual))
}

func conformance(o sim.Options, time aiotest.Time) aiotest.Factory {
	return func(t *testing.T) aiotest.Env {
		w := sim.New(o)
		if err := aio.MkdirAll(w.FS(), "/data"); err != nil {
			t.Fatal(err)
		}
		return aiotest.Env{Dir: "/data", Time: time, Open: func(o aio.Options) (aio.Driver, error) {
			return w.Driver(o), nil
		}}
	}
}
