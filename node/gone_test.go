package node

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/engine/layout"
)

// Without a part of the catalog nobody knows which topics there are: a start without its
// newest segment is refused, and says which file it is.
func TestAStartWithoutTheNewestSegmentOfTheCatalogIsRefused(t *testing.T) {
	r := newRig(t, small(1))
	r.create(r.dial(), "t", 1, "flushed")
	r.stop()
	log := r.partitionDirs("__catalog")[0] + "/00000000000000000000.log"
	if err := errors.Join(r.w.FS().Remove(log), r.w.FS().SyncDir(path.Dir(log))); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one finds what the first has left
		err := r.tryStart()
		if !errors.Is(err, layout.ErrBadDataDir) || !errors.Is(err, layout.ErrCorrupt) {
			t.Fatalf("start: %v", err)
		}
		for _, part := range []string{"catalog", log, "expected a segment of ", "found no file"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q lacks %q", err, part)
			}
		}
		r.w.Kill()
	}
}
