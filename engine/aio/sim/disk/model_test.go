package disk_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio/sim/disk"
)

// sectorModel is what a sector may hold after a power cut: the versions written
// since it was last certain, the durable one first.
type sectorModel struct {
	versions []version
}

type version struct {
	id   uint64
	mark uint64 // of the device after the write
}

// TestCutLeavesOnlyVersionsThatTheModelAllows compares random histories of one
// file with a model of each of its sectors.
func TestCutLeavesOnlyVersionsThatTheModelAllows(t *testing.T) {
	const sectors = 48
	for seed := range uint64(150) {
		x := newTree(t, seed)
		n := x.durable("/f", make([]byte, sectors*sector))
		x.durable("/g", make([]byte, sectors*sector))
		model := make([]sectorModel, sectors)
		for i := range model {
			model[i].versions = []version{{}}
		}
		id := uint64(0)
		for range 60 {
			switch x.dice.Below(10) {
			case 0:
				flush(n, n.Mark(), model)
			case 1: // a flush that was submitted some time ago
				if first := model[x.dice.Below(sectors)].versions; len(first) > 1 {
					flush(n, first[len(first)-1].mark, model)
				}
			case 2:
				n, _ = x.Lookup("/f")
				cut(x, n, model, seed)
			default:
				from := x.dice.Below(sectors)
				count := 1 + x.dice.Below(sectors-from)
				how := disk.Durability(x.dice.Below(2))
				id++
				x.write(n, stamped(id, int(count)), from*sector, how)
				for i := from; i < from+count; i++ {
					if how == disk.Durable {
						model[i].versions = nil
					}
					model[i].versions = append(model[i].versions, version{id, n.Mark()})
				}
			}
			// What a read sees is always the newest.
			got := x.content("/f")
			for i := range model {
				if v := model[i].versions; stamp(got, i) != v[len(v)-1].id {
					t.Fatalf("seed %d: sector %d shows version %d, the newest is %d", seed, i, stamp(got, i), v[len(v)-1].id)
				}
			}
		}
	}
}

func flush(n *disk.Inode, mark uint64, model []sectorModel) {
	n.Flush(mark)
	for i := range model {
		v := model[i].versions
		for len(v) > 1 && v[1].mark <= mark {
			v = v[1:]
		}
		model[i].versions = v
	}
}

func cut(x fixture, n *disk.Inode, model []sectorModel, seed uint64) {
	keep := disk.Keep(x.dice.Below(4))
	x.PowerCut(keep)
	got := x.content("/f")
	for i := range model {
		v, id := model[i].versions, stamp(got, i)
		allowed := false
		for _, o := range v {
			allowed = allowed || o.id == id
		}
		switch {
		case !allowed,
			keep == disk.KeepNone && id != v[0].id,
			keep == disk.KeepAll && id != v[len(v)-1].id:
			x.Fatalf("seed %d: sector %d holds version %d after a cut that keeps %d, allowed are %v", seed, i, id, keep, v)
		}
		model[i].versions = []version{{id: id}}
	}
}

// stamped is count sectors that carry id.
func stamped(id uint64, count int) []byte {
	return bytes.Repeat(binary.BigEndian.AppendUint64(nil, id), count*sector/8)
}

// stamp is the id that sector i carries; a sector of several is no version.
func stamp(b []byte, i int) uint64 {
	s := b[i*sector : (i+1)*sector]
	if !bytes.Equal(s, bytes.Repeat(s[:8], sector/8)) {
		return ^uint64(0)
	}
	return binary.BigEndian.Uint64(s)
}
