package engine

import (
	"path/filepath"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// dirCounter is a driver that counts what is begun with directories.
type dirCounter struct {
	aio.Driver
	syncs map[string]int
	made  map[string]int
}

func (d *dirCounter) SubmitFile(op *aio.FileOp) {
	switch op.Kind {
	case aio.FileSyncDir:
		d.syncs[op.Path]++
	case aio.FileMkdirs:
		d.made[op.Path]++
	}
	d.Driver.SubmitFile(op)
}

// Of a topic's directory each writer may begin one sync before the first has ended, and
// nobody begins one after that when all partitions have their directories: so many are the
// most, whatever the order of events, for any number of partitions.
func TestOneSyncOfATopicsDirectoryServesManyPartitions(t *testing.T) {
	const parts, size = 200, 70 << 10
	d := &dirCounter{syncs: map[string]int{}, made: map[string]int{}}
	r := newRig(t, rigOptions{journal: 128 << 20, chunks: 64 << 20, wrap: func(under aio.Driver) aio.Driver {
		d.Driver = under
		return d
	}})
	clear(d.syncs) // those of the start
	id := r.topic(1, ClassFlushed)
	all := make([]*Partition, parts)
	for i := range all {
		all[i] = r.part(id, i)
		for n := 0; n < size; n += 10 << 10 {
			r.sendWait(all[i], 1, 10<<10)
		}
	}
	s := all[0].store
	r.until("files", func() bool { return s.ready.Len() == 0 && s.writing == 0 })
	topic := filepath.Dir(all[0].dir)
	if len(d.made) != parts || len(d.syncs) != 0 {
		t.Fatalf("%d directories made, expected %d; synced are %v, expected nothing before something is flushed", len(d.made), parts, d.syncs)
	}
	ended := s.stats.Checkpoints
	s.checkpoint.begin()
	r.until("checkpoint", func() bool { return s.stats.Checkpoints > ended })
	for _, p := range all {
		if d.made[p.dir] != 1 || d.syncs[p.dir] != 1 || p.active.flushed == 0 {
			t.Fatalf("%s: made %d times, synced %d times, flushed up to %d", p.dir, d.made[p.dir], d.syncs[p.dir], p.active.flushed)
		}
	}
	most := s.opts.Writers
	if n := d.syncs[topic]; n == 0 || n > most {
		t.Errorf("the topic's directory was synced %d times, expected 1 to %d", n, most)
	}
	if n := d.syncs[filepath.Dir(topic)]; n == 0 || n > most {
		t.Errorf("the directory of topics was synced %d times, expected 1 to %d", n, most)
	}
	r.close()
}

// What a power cut leaves of a directory whose entries were never synced is not missed.
func TestDirectoriesThatNobodySyncedMayGo(t *testing.T) {
	r := newRig(t, rigOptions{journal: 16 << 20, chunks: 16 << 20})
	id := r.topic(1, ClassFlushed)
	sent := map[*Partition][]*produced{}
	for i := range 3 {
		p := r.part(id, i)
		for range 8 {
			sent[p] = append(sent[p], r.sendWait(p, 1, 10<<10))
		}
		r.until("a file", func() bool { return p.store.stats.SegmentWrites > uint64(i) && p.store.writing == 0 })
	}
	r.w.Crash(sim.KeepNone)
	r.start()
	for i := range 3 {
		if got := r.readAll(r.part(id, i)); len(got) != 8 {
			t.Errorf("partition %d: %d batches are left, expected 8", i, len(got))
		}
	}
	r.close()
}
