package sim_test

import (
	"bytes"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// Before each step the images are those that a crash could leave, and a world goes on
// from each.
func TestImagesOfTheMomentsOfAWrite(t *testing.T) {
	w, d, f := writer(t, sim.Options{Seed: 1})
	must(t, aio.WriteAt(d, f, block(t, d, 4096, 1), 0, 0))
	must(t, aio.Fdatasync(d, f))
	var steps []sim.Ops
	w.Watch(func(m *sim.Moment) {
		step, path := m.Step()
		steps = append(steps, step)
		if path != "/f" {
			t.Errorf("a step on %q, expected /f", path)
		}
		const sectors = 8
		cuts := m.PowerCuts()
		if cuts.Choices() != sectors {
			t.Errorf("step %v: %d choices, expected one for each sector, %d", step, cuts.Choices(), sectors)
		}
		image := cuts.Image(func(i int) bool { return i == 0 })
		for range 2 {
			got := contentOf(t, image.World(sim.Options{Seed: 2}), "/f")
			if !bytes.Equal(got[:4096], append(fill(2, 512), fill(1, 4096-512)...)) {
				t.Errorf("step %v: an image that keeps the first sector holds %d, %d ...", step, got[0], got[512])
			}
		}
	})
	must(t, aio.WriteAt(d, f, block(t, d, 4096, 2), 0, 0))
	must(t, aio.Fdatasync(d, f))
	w.Watch(nil)
	if len(steps) != 2 || steps[0] != sim.Writes || steps[1] != sim.Flushes {
		t.Fatalf("steps %v, expected a write and a flush", steps)
	}
	w.Stand(func(m *sim.Moment) {
		if n := m.PowerCuts().Choices(); n != 0 {
			t.Errorf("%d choices behind a flush, expected none", n)
		}
	})
}

// A process that dies leaves its machine up, a power cut does not.
func TestAnImageOfAKillIsOfTheSameBoot(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	id := func(w *sim.World) aio.FSInfo {
		info, err := w.FS().Stat("/")
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	all := func(int) bool { return true }
	w.Stand(func(m *sim.Moment) {
		killed, cut := m.Kills().Image(all).World(sim.Options{Seed: 2}), m.PowerCuts().Image(all).World(sim.Options{Seed: 2})
		if id(killed).BootID == id(cut).BootID || id(killed).Mount == id(cut).Mount {
			t.Error("a machine that was killed and one that lost its power have the same boot")
		}
		if again := m.Kills().Image(all).World(sim.Options{Seed: 3}); id(killed).BootID != id(again).BootID || id(killed).Mount != id(again).Mount {
			t.Error("a machine of which only the processes died has another boot")
		}
	})
}
