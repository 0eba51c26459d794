package aio

import (
	"sync/atomic"
	"testing"
)

// advised is a filesystem that notes the advice it gets.
type advised struct {
	FS
	paths []string
}

func (a *advised) Spread(path string) { a.paths = append(a.paths, path) }

// What is watched hides nothing of what a filesystem can do.
func TestAdviceReachesAWatchedFilesystem(t *testing.T) {
	a := &advised{}
	Watched(a, new(atomic.Bool)).Spread("topics")
	if len(a.paths) != 1 || a.paths[0] != "topics" {
		t.Errorf("advised for %q", a.paths)
	}
}
