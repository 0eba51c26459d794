package client_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/client/mqdtest"
)

// An example has no testing.T. exampleT is what mqdtest needs of one.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (e *exampleT) Helper()                  {}
func (e *exampleT) Context() context.Context { return context.Background() }
func (e *exampleT) Output() io.Writer        { return os.Stderr }
func (e *exampleT) Cleanup(f func())         { e.cleanups = append(e.cleanups, f) }
func (e *exampleT) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }
func (e *exampleT) Fatalf(f string, a ...any) {
	panic(fmt.Sprintf(f, a...))
}
func (e *exampleT) Errorf(f string, a ...any) { e.Fatalf(f, a...) }

func (e *exampleT) TempDir() string {
	dir := must(os.MkdirTemp("", "mqd-example-"))
	e.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (e *exampleT) end() {
	for len(e.cleanups) > 0 {
		last := len(e.cleanups) - 1
		e.cleanups[last]()
		e.cleanups = e.cleanups[:last]
	}
}

// serve runs a broker with a topic, and connects a client.
func serve(topic string, partitions int) (b *mqdtest.Broker, c *client.Client, stop func()) {
	t := &exampleT{}
	b = mqdtest.New(t)
	b.CreateTopic(topic, partitions)
	return b, b.Client(), t.end
}
