package sim_test

import (
	"syscall"
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
		env := aiotest.Env{Dir: "/data", Time: time}
		env.Open = func(o aio.Options) (aio.Driver, error) { return w.Driver(o), nil }
		var fault *sim.Injection
		env.FailFlushes = func(err syscall.Errno) {
			if fault != nil {
				fault.End()
			}
			if fault = nil; err != 0 {
				fault = w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Flushes | sim.DirSyncs}, Times: sim.Always, Err: err})
			}
		}
		return env
	}
}
