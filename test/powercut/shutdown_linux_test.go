package powercut

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/test/powercut/fusedisk"
	"github.com/mqd-broker/mqd/test/rig"
)

// TestAFilesystemThatStopsTakesNothing has the filesystem stop under a load without
// writing its log: everything that went to files is there, and of directories,
// sizes and allocation only what somebody has synced. The machine goes on: it is
// the same boot, and another mount.
func TestAFilesystemThatStopsTakesNothing(t *testing.T) {
	stops(t, func(m *machine, d *fusedisk.Disk, rng *rand.Rand) (fusedisk.Image, error) {
		m.sameBoot = true
		return fusedisk.Image{Disk: d}, m.mount.Shutdown()
	})
}

// TestADiskThatFailsFlushesTakesNothing has every flush fail from a moment on. What
// the disk held for them is gone, reads or no reads, so nothing may be acknowledged
// any more until the power fails.
func TestADiskThatFailsFlushesTakesNothing(t *testing.T) {
	stops(t, func(m *machine, d *fusedisk.Disk, rng *rand.Rand) (fusedisk.Image, error) {
		d.FailFlushes(math.MaxInt)
		rest(context.Background(), upTo(rng, 500*time.Millisecond))
		return d.Cut(fusedisk.None, rng), nil
	})
}

// stops runs loads that something ends, and examines what is there then.
func stops(t *testing.T, stop func(*machine, *fusedisk.Disk, *rand.Rand) (fusedisk.Image, error)) {
	fusedisk.Need(t)
	rig.NeedDriver(t)
	seed := newSeed(t)
	binary := rig.Binary(t)
	times := max(1, *imagesFlag/25) // with 100 images, 4
	for _, fs := range []fusedisk.Filesystem{fusedisk.Ext4, fusedisk.XFS} {
		t.Run(fs.Name, func(t *testing.T) {
			if why := fs.Missing(); why != "" {
				t.Skip(why)
			}
			rng := rand.New(rand.NewPCG(seed, 9))
			var sum report
			for range times {
				m := newMachine(t, variant{fs: fs}, binary)
				m.lazy = true
				if err := m.stopped(rng, &sum, stop); err != nil {
					t.Fatalf("seed %d, stop %d, serve %v: %v", seed, sum.images, m.args, err)
				}
			}
			t.Logf("%v", &sum)
		})
	}
}

// stopped has something stop a load at a random moment and examines what is there.
func (m *machine) stopped(rng *rand.Rand, r *report, stop func(*machine, *fusedisk.Disk, *rand.Rand) (fusedisk.Image, error)) error {
	maxSize := m.draw(rng)
	d := m.format()
	if err := m.on(d, m.mountOptions(rng)); err != nil {
		return err
	}
	if err := m.launch("--shards", shards(rng)); err != nil {
		return err
	}
	addr, err := m.ready()
	if err != nil {
		return err
	}
	l, err := startLoad(addr, rng, maxSize)
	if err != nil {
		return err
	}
	rest(context.Background(), 50*time.Millisecond+upTo(rng, time.Second))
	img, err := stop(m, d, rng)
	if err != nil {
		return err
	}
	// The broker may have ended by itself: its disk is gone. Whatever it acknowledged
	// until it died counts.
	_ = m.kill()
	if err := l.end(); err != nil {
		return err
	}
	if err := m.off(); err != nil {
		return err
	}
	end := l.mark()
	return m.examine(img, l.expect(end, end), never, rng, r)
}
