package disk_test

import (
	"bytes"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio/sim/disk"
)

// history changes files and names at random: few things are left undecided.
func (x fixture) history() {
	f := x.durable("/f", fill(9, 4*sector))
	x.check(x.Mkdir("/d"))
	x.check(x.SyncDir("/"))
	for range 8 {
		switch x.dice.Below(9) {
		case 0:
			f.Flush(f.Mark())
		case 1:
			f.Resize(x.dice.Below(6 * sector))
		case 2:
			g := x.create("/d/g")
			x.write(g, fill(byte(x.dice.Below(3)), sector), 0, disk.Cached)
			x.Close(g)
		case 3:
			_ = x.Rename("/d/g", "/h") // it may not be there
		case 4:
			x.check(x.Remove("/h"))
		case 5:
			x.check(x.SyncDir("/d"))
		default:
			at := x.dice.Below(3) * sector
			x.write(f, fill(byte(x.dice.Below(4)), sector+int(x.dice.Below(300))), at, disk.Durability(x.dice.Below(2)))
		}
	}
}

// sums are those of all images, by what is kept of the choices.
func sums(o *disk.Outcomes) []uint64 {
	list := make([]uint64, 1<<o.Choices())
	for mask := range list {
		list[mask] = o.Image(func(i int) bool { return mask>>i&1 == 1 }).Sum()
	}
	return list
}

func contains(list []uint64, sum uint64) bool {
	for _, s := range list {
		if s == sum {
			return true
		}
	}
	return false
}

const fewChoices = 9

func TestOutcomesAreAllThatAPowerCutCanLeave(t *testing.T) {
	compared := 0
	for seed := range uint64(400) {
		x := newTree(t, seed)
		x.history()
		o := x.PowerCuts(nil)
		if o.Choices() > fewChoices {
			continue
		}
		compared++
		before, all := x.Sum(), sums(o)
		if x.Sum() != before {
			t.Fatalf("seed %d: enumerating the outcomes has changed the tree", seed)
		}
		keep := disk.Keep(seed % 4)
		x.PowerCut(keep)
		got := x.Sum()
		switch {
		case keep == disk.KeepNone && got != all[0], keep == disk.KeepAll && got != all[len(all)-1], !contains(all, got):
			t.Fatalf("seed %d: a cut that keeps %d leaves what is not among the %d outcomes", seed, keep, len(all))
		}
	}
	if compared < 100 {
		t.Fatalf("%d histories were compared: too few", compared)
	}
}

// Images share memory with the tree and with each other, and must not share changes.
func TestImagesStandAlone(t *testing.T) {
	x := newTree(t, 1)
	f := x.durable("/f", fill(1, 4*sector))
	x.write(f, fill(2, 2*sector), 0, disk.Cached)
	o := x.PowerCuts(nil)
	if o.Choices() != 2 {
		t.Fatalf("%d choices, expected 2", o.Choices())
	}
	old := fixture{t, o.Image(func(int) bool { return false }), x.dice}
	torn := fixture{t, o.Image(func(i int) bool { return i == 1 }), x.dice}
	old.holds("/f", fill(1, 4*sector))
	torn.holds("/f", append(append(fill(1, sector), fill(2, sector)...), fill(1, 2*sector)...))
	sum := torn.Sum()
	g, err := old.Lookup("/f")
	x.check(err)
	x.write(g, fill(7, sector), 3*sector, disk.Cached)
	x.write(f, fill(8, sector), 3*sector, disk.Cached)
	f.Flush(f.Mark())
	old.holds("/f", append(fill(1, 3*sector), fill(7, sector)...))
	x.holds("/f", append(fill(2, 2*sector), append(fill(1, sector), fill(8, sector)...)...))
	if torn.Sum() != sum {
		t.Fatal("a change of one image is seen in another")
	}
}

func TestWritesInFlightMayReachTheDiskInParts(t *testing.T) {
	x := newTree(t, 1)
	f := x.durable("/f", fill(1, 2*sector))
	flight := []disk.Flight{{File: f, Data: fill(2, 2*sector), Off: 0}}
	for _, o := range []*disk.Outcomes{x.PowerCuts(flight), x.Kills(flight)} {
		seen := map[string]bool{}
		for mask := range 1 << o.Choices() {
			image := fixture{t, o.Image(func(i int) bool { return mask>>i&1 == 1 }), x.dice}
			seen[string(image.content("/f"))] = true
		}
		for _, want := range [][]byte{
			fill(1, 2*sector), fill(2, 2*sector),
			append(fill(1, sector), fill(2, sector)...), append(fill(2, sector), fill(1, sector)...),
		} {
			if !seen[string(want)] {
				t.Errorf("no image holds %x ... %x", want[0], want[sector])
			}
		}
	}
	x.holds("/f", fill(1, 2*sector))
}

// What the death of a process leaves is seen, and a power cut behind it may still
// take it.
func TestAKillLeavesTheCache(t *testing.T) {
	x := newTree(t, 1)
	f := x.durable("/f", fill(1, sector))
	x.write(f, fill(2, sector), 0, disk.Cached)
	image := fixture{t, x.Kills(nil).Image(func(int) bool { return true }), x.dice}
	x.write(f, fill(3, sector), 0, disk.Cached)
	image.holds("/f", fill(2, sector))
	image.PowerCut(disk.KeepNone)
	image.holds("/f", fill(1, sector))
	if !bytes.Equal(x.content("/f"), fill(3, sector)) {
		t.Fatal("a power cut of an image was felt elsewhere")
	}
}

// A sector that would be the same with a write and without it is no choice.
func TestWhatMakesNoDifferenceIsNoChoice(t *testing.T) {
	x := newTree(t, 1)
	f := x.durable("/f", make([]byte, 8*sector))
	x.write(f, append(fill(1, 100), make([]byte, 4*sector-100)...), 0, disk.Cached)
	if n := x.PowerCuts(nil).Choices(); n != 1 {
		t.Fatalf("%d choices, expected 1: all other sectors were zeros and still are", n)
	}
	x.write(f, make([]byte, sector), 0, disk.Cached)
	if n := x.PowerCuts(nil).Choices(); n != 2 {
		t.Fatalf("%d choices, expected 2: one sector was written twice", n)
	}
}
