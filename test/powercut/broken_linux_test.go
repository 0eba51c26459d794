package powercut

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mqd-broker/mqd/test/powercut/fusedisk"
	"github.com/mqd-broker/mqd/test/rig"
	"github.com/mqd-broker/mqd/test/sabotage"
)

// broken builds a broker with changes.
func broken(t *testing.T, changes ...sabotage.Change) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "mqd")
	cmd := exec.Command("go", "build", "-overlay", sabotage.Overlay(t, changes...), "-ldflags=-checklinkname=0", "-o", binary, "github.com/mqd-broker/mqd/cmd/mqd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the broken broker cannot be built: %v\n%s", err, out)
	}
	return binary
}

// expectObjection runs loads until an image is objected to. None within the images
// means that the rig sees nothing.
func expectObjection(t *testing.T, binary string, images int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(newSeed(t), 7))
	var sum report
	for sum.images < images {
		m := newMachine(t, variant{fs: fusedisk.Ext4}, binary)
		m.lazy = true
		if err := m.cycle(rng, loadImages, &sum); errors.Is(err, errObjection) {
			t.Logf("image %d: %.2000s", sum.images, err.Error())
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Errorf("nothing was objected to: %v", &sum)
}

// What the rig cannot see, because one flush of this disk flushes everything: DSYNC
// taken for a flush of earlier writes, and a recovery that does not flush what it has
// replayed, which the next flush of anything makes good. And what it sees in one image of
// a hundred at most: directories that are not flushed, because ext4 has one log for all, and
// the next file that is flushed, as a checkpoint's second generation, takes the names of
// those before it along. The simulator sees those.

// brokenImages is within how many images a broken broker has to be noticed.
const brokenImages = 48

func TestAnAckBeforeTheFlushIsNoticed(t *testing.T) {
	fusedisk.Need(t)
	rig.NeedDriver(t)
	expectObjection(t, broken(t, sabotage.Change{
		File: "engine/journal/region.go",
		Old:  "op.Kind, op.File, op.Buf, op.Off, op.Flags = aio.KindWrite, r.file, buf, off, how",
		New:  "op.Kind, op.File, op.Buf, op.Off, op.Flags = aio.KindWrite, r.file, buf, off, how&^aio.FlagDSYNC",
	}), brokenImages)
}

func TestFilesThatAreNotFlushedAreNoticed(t *testing.T) {
	fusedisk.Need(t)
	rig.NeedDriver(t)
	expectObjection(t, broken(t,
		sabotage.Change{File: "engine/aio/hostfs/fs.go", Old: "err = d.Sync()", New: "err = nil"},
		sabotage.Change{File: "engine/aio/hostfs/file_linux.go", Old: `return fail("fsync", f.path, unix.Fsync(f.fd))`, New: `return nil`},
	), brokenImages)
}

func TestADiskThatLiesIsNoticed(t *testing.T) {
	fusedisk.Need(t)
	rig.NeedDriver(t)
	binary, rng := rig.Binary(t), rand.New(rand.NewPCG(newSeed(t), 8))
	objections := map[fusedisk.Mode]string{}
	for n := 0; n < 12 && len(objections) < int(fusedisk.Modes); n++ {
		m := newMachine(t, variant{fs: fusedisk.Ext4}, binary)
		m.lies = true
		cuts, l, err := m.run(rng, loadImages, m.draw(rng))
		if err != nil {
			t.Fatal(err)
		}
		var sum report
		for _, c := range cuts {
			if err := m.examine(c.Image, l.expect(c.before, c.after), never, rng, &sum); err != nil {
				objections[c.mode] = err.Error()
			}
		}
	}
	for mode := range fusedisk.Modes {
		if objections[mode] == "" {
			t.Errorf("no image of a lying disk with %v of what it had not flushed was objected to", mode)
			continue
		}
		t.Logf("with %v: %.600s", mode, objections[mode])
	}
}
