package engine

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
)

// What class written has acknowledged and no flush has covered yet is there after a kill,
// because the machine has been up since. Damage to its round cannot be told from the tail
// of a crash, and takes what consumers have seen. It must be told, and the offsets must
// not be given out again. Each byte that may be hit is the only trace of what is lost.
func TestRotInWhatIsWrittenAndNotFlushedGivesNoOffsetTwice(t *testing.T) {
	spots := map[string]func(h *journal.Header) int64{"body": func(h *journal.Header) int64 { return int64(h.BodiesOffset) + 100 }}
	for at := int64(0); at < journal.HeaderSize; at += 3 { // no field is shorter than 2 bytes, few than 4
		spots[fmt.Sprintf("byte %d of the header", at)] = func(*journal.Header) int64 { return at }
	}
	for at := int64(0); at < journal.EntrySize; at += 7 {
		spots[fmt.Sprintf("byte %d of the entry", at)] = func(*journal.Header) int64 { return journal.HeaderSize + at }
	}
	for name, spot := range spots {
		// The newest round, and one behind which others are whole.
		for _, lost := range []int{1, 4} {
			r := newRig(t, rigOptions{})
			id := r.topic(1, ClassWritten)
			var sent []*produced
			for range 5 {
				sent = append(sent, r.sendWait(r.part(id, 0), 2, 300))
			}
			if j := r.shards[0].store.journal; j.FlushedLSN() >= j.WrittenLSN() {
				t.Fatal("everything is flushed: the test does not test")
			}
			r.w.Kill()
			h := r.roundsOf(Key{Topic: id})[sent[lost].Base]
			r.spoilRound(h, spot(&h))
			r.start()
			if r.rec.Stats.TornTails != 1 || r.rec.Stats.Gaps != 1 || !r.reported("torn tail dropped") || !r.reported("recorded as a gap") {
				t.Fatalf("%s of round %d: reported %q, %+v", name, lost, r.log, r.rec.Stats)
			}
			end := sent[4].Base + 2
			if a := r.sendWait(r.part(id, 0), 1, 100); a.Base < end {
				t.Fatalf("%s of round %d: offset %d again, after those below %d were served", name, lost, a.Base, end)
			}
			got := r.readAll(r.part(id, 0))
			for i, a := range sent {
				if there := bytes.Equal(got[a.Base], a.Batch); there != (i < lost) {
					t.Fatalf("%s of round %d: batch %d is there: %v", name, lost, i, there)
				}
			}
			r.close()
		}
	}
}

// The same where a block cannot be read any more, which leaves no trace of a round.
func TestABlockThatCannotBeReadBehindAKillGivesNoOffsetTwice(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassWritten)
	first := r.sendWait(r.part(id, 0), 2, 300)
	last := r.sendWait(r.part(id, 0), 2, 300)
	r.w.Kill()
	h := r.roundsOf(Key{Topic: id})[last.Base]
	if err := r.w.BadSectors(layout.JournalPath(rigDir, 0), h.Pos, int64(h.Total)); err != nil {
		t.Fatal(err)
	}
	r.start()
	if r.rec.Stats.Gaps != 1 || !r.reported("recorded as a gap") {
		t.Fatalf("reported %q, %+v", r.log, r.rec.Stats)
	}
	if a := r.sendWait(r.part(id, 0), 1, 100); a.Base < last.Base+2 {
		t.Fatalf("offset %d again, after those below %d were served", a.Base, last.Base+2)
	}
	if got := r.readAll(r.part(id, 0)); !bytes.Equal(got[first.Base], first.Batch) {
		t.Fatalf("the batch at %d is gone", first.Base)
	}
}
