package mqdtest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
)

// An example has no testing.T. exampleT is what mqdtest needs of one.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (e *exampleT) Helper()                   {}
func (e *exampleT) Context() context.Context  { return context.Background() }
func (e *exampleT) Output() io.Writer         { return io.Discard }
func (e *exampleT) Cleanup(f func())          { e.cleanups = append(e.cleanups, f) }
func (e *exampleT) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (e *exampleT) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (e *exampleT) Errorf(f string, a ...any) { e.Fatalf(f, a...) }

func (e *exampleT) TempDir() string {
	dir, err := os.MkdirTemp("", "mqd-example-")
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// end is what the testing package does when a test ends.
func (e *exampleT) end() {
	for len(e.cleanups) > 0 {
		last := len(e.cleanups) - 1
		e.cleanups[last]()
		e.cleanups = e.cleanups[:last]
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
