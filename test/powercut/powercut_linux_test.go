package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/test/powercut/fusedisk"
	"github.com/mqd-broker/mqd/test/rig"
)

// loadImages is how many images a load leaves at most.
const loadImages = 8

// variants is everything that a broker is put on.
var variants = []variant{{fusedisk.Ext4, false}, {fusedisk.XFS, true}, {fusedisk.Ext4, true}, {fusedisk.XFS, false}}

func TestPowerCutsTakeNothingThatWasPromised(t *testing.T) {
	fusedisk.Need(t)
	rig.NeedDriver(t)
	seed := newSeed(t)
	binary := rig.Binary(t)
	possible := 0
	for _, v := range variants {
		if v.fs.Missing() == "" {
			possible++
		}
	}
	var sum report
	done := 0
	for i, v := range variants {
		t.Run(v.String(), func(t *testing.T) {
			if why := v.fs.Missing(); why != "" {
				t.Skip(why)
			}
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			done++
			for want := *imagesFlag * done / possible; sum.images < want; {
				m := newMachine(t, v, binary)
				if err := m.cycle(rng, min(loadImages, want-sum.images), &sum); err != nil {
					t.Fatalf("seed %d, image %d, serve %v: %v", seed, sum.images, m.args, err)
				}
			}
		})
	}
	t.Logf("%v", &sum)
}

// cut is an image, and what the record was when it was taken.
type cut struct {
	fusedisk.Image
	mode          fusedisk.Mode
	before, after int
}

// cycle runs one load, takes images under it, and examines them; n of them, second
// cuts apart.
func (m *machine) cycle(rng *rand.Rand, n int, r *report) error {
	maxSize := m.draw(rng)
	cuts, l, err := m.run(rng, n, maxSize)
	if err != nil {
		return err
	}
	for i, c := range cuts {
		if err := m.examine(c.Image, l.expect(c.before, c.after), second(rng.IntN(3)), rng, r); err != nil {
			return fmt.Errorf("%v, cut %d of a load: %w: %w", m.v, i, errObjection, err)
		}
	}
	return nil
}

// errObjection: a power cut has left something else than was promised. Other errors
// are of the load itself.
var errObjection = errors.New("objection")

// draw chooses the sizes of a run and returns that of the largest message.
func (m *machine) draw(rng *rand.Rand) (maxSize int) {
	idle, driver := []string{"adaptive", "block"}[rng.IntN(2)], []string{"auto", "auto", "portable"}[rng.IntN(3)]
	m.args = []string{"--log-format", "json", "--recv-buffers", "64", "--idle", idle, "--io", driver}
	// A small ring wraps; a larger one takes large messages.
	if rng.IntN(2) == 0 {
		m.args = append(m.args, "--journal-size", "1MiB", "--max-message-bytes", "128KiB", "--cache-size", "4MiB")
		return 100 << 10
	}
	m.args = append(m.args, "--journal-size", "8MiB", "--cache-size", "8MiB")
	return 900 << 10
}

// run is a load on a new disk; the first image is from the broker's first start.
func (m *machine) run(rng *rand.Rand, n, maxSize int) (cuts []cut, l *load, err error) {
	defer func() { err = errors.Join(err, m.off()) }()
	d := m.format()
	if err := m.on(d, m.mountOptions(rng)); err != nil {
		return nil, nil, err
	}
	if err := m.launch("--shards", shards(rng)); err != nil {
		return nil, nil, err
	}
	rest(context.Background(), upTo(rng, m.start))
	cuts = append(cuts, take(d, rng, func() int { return 0 }))
	addr, err := m.ready()
	if err != nil {
		return nil, nil, err
	}
	d.Lie(m.lies)
	if l, err = startLoad(addr, rng, maxSize); err != nil {
		return nil, nil, err
	}
	for len(cuts) < n {
		rest(context.Background(), 20*time.Millisecond+upTo(rng, 200*time.Millisecond))
		cuts = append(cuts, take(d, rng, l.mark))
	}
	return cuts, l, errors.Join(m.kill(), l.end())
}

// take takes an image of the disk.
func take(d *fusedisk.Disk, rng *rand.Rand, mark func() int) cut {
	untilUnflushed(d, rng)
	c := cut{before: mark()}
	c.mode = fusedisk.Mode(rng.IntN(int(fusedisk.Modes)))
	c.Image = d.Cut(c.mode, rng)
	c.after = mark()
	return c
}

// mountOptions are those of the filesystem: ext4 may leave its own log alone for long, so
// that what nobody syncs is not durable by chance.
func (m *machine) mountOptions(rng *rand.Rand) string {
	if m.v.fs.Name == fusedisk.Ext4.Name && (m.lazy || rng.IntN(2) == 0) {
		return "commit=300"
	}
	return ""
}
