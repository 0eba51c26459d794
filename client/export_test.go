package client

import (
	"fmt"
	"time"
)

// exampleReporter stands in for a test where there is none.
type exampleReporter struct{ cleanup []func() }

func (r *exampleReporter) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (r *exampleReporter) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (r *exampleReporter) Cleanup(f func())                  { r.cleanup = append(r.cleanup, f) }

var served *fakeBroker // by ServeFake

// AwaitCommit returns when a group has committed an offset at the broker of ServeFake.
func AwaitCommit(group, topic string, partition int, next int64) {
	for served.committed(group, topic, partition) != next {
		time.Sleep(time.Millisecond) // the group is at work
	}
}

// ServeFake runs the fake broker on a loopback port, for examples.
func ServeFake() (addr string, stop func()) {
	r := &exampleReporter{}
	b := newFakeBroker(r)
	b.listen()
	served = b
	return b.listener.Addr().String(), func() {
		for _, f := range r.cleanup {
			f()
		}
	}
}
