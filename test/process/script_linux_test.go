package process

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// Without Script several of a hundred are busy.
func TestAScriptCanBeStartedWhileOthersStartPrograms(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := Script(path("other"), "#!/bin/sh\nexit 0\n"); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var others sync.WaitGroup
	others.Go(func() {
		for !over.Load() {
			if err := exec.Command(path("other")).Run(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 100 {
		name := path(strconv.Itoa(i))
		err := Script(name, "#!/bin/sh\nexit 0\n")
		if err == nil {
			err = exec.Command(name).Run()
		}
		if err != nil {
			t.Error(err)
		}
	}
	over.Store(true)
	others.Wait()
}
