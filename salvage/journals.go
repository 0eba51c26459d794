package salvage

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/internal/quantity"
)

// startFirst is what to do about things that only the journals know.
const startFirst = "start the broker and stop it in order first"

// readJournals replays the journals of a broker that was not stopped in order, and tells
// what in them no salvage gives up: damage, and the partitions that only they know.
func (r *run) readJournals() error {
	if r.clean {
		return nil // an orderly end has left nothing in them that is needed
	}
	entries, err := r.fs.ReadDir(r.path(layout.JournalsDir))
	if err != nil && !aio.IsNotExist(err) {
		return err
	}
	scanner, err := journal.NewScanner(r.d)
	if err != nil {
		return err
	}
	named, found := map[layout.Key]bool{}, map[uint16]bool{}
	for _, s := range r.shards {
		for _, p := range s.parts {
			named[layout.Key{Topic: p.rec.Topic, Partition: p.rec.Partition}] = true
		}
	}
	for _, e := range entries {
		if shard, ok := layout.ParseJournalName(e.Name); ok && !e.Dir {
			found[uint16(shard)] = true
			if err := r.readJournal(scanner, shard, named); err != nil {
				return err
			}
		}
	}
	for _, s := range r.shards {
		if !found[s.shard] && s.snap.NeedsJournal() {
			r.gone(s)
		}
	}
	return nil
}

// readJournal replays one journal.
func (r *run) readJournal(scanner *journal.Scanner, shard int, named map[layout.Key]bool) error {
	path := layout.JournalPath(r.o.Dir, shard)
	region, err := journal.OpenFileRegionReadOnly(r.d, path)
	if err != nil {
		r.leave(path, "cannot be read: "+err.Error())
		return nil
	}
	defer func() { _ = region.Close() }() // read only
	var snap *checkpoint.Snapshot
	for _, s := range r.shards {
		if int(s.shard) == shard {
			snap = s.snap
		}
	}
	result, err := scanner.Scan(region, nil)
	if err == nil && len(result.Damages) > 0 {
		r.leave(path, fmt.Sprintf("it is damaged in %s: %s, which tells what was there", quantity.Of(int64(len(result.Damages)), "place", "places"), startFirst))
	}
	if err == nil {
		from := uint64(0)
		if snap != nil && snap.Journal == result.Anchor.UUID {
			from = snap.LSN // what lies before has been given up
		}
		err = scanner.RevisitFrom(region, result, from, func(_ *journal.Header, e *journal.Entry, _ []byte) error {
			if e.Kind == journal.KindBatch && !named[layout.Key{Topic: e.Topic, Partition: e.Partition}] {
				r.unknown[placeOf(keyOf(e.Topic), e.Partition)] = path
			}
			return nil
		})
	}
	if err != nil {
		r.leave(path, "cannot be replayed: "+err.Error()+"; if there is no better copy, move it out of the data directory, and run this again to give up what it had")
	}
	return nil
}

// placeOf names a partition by the key of its topic, see keyOf.
func placeOf(topic string, partition uint32) string {
	return topic + "/" + segment.PartitionDir(partition)
}

// homeless notes the partitions that the journals know and that have no directory yet, or
// not any more. Their topics' names are in a catalog that may itself be in the journals,
// so that they are counted whatever topic is asked for. any: there are some.
func (r *run) homeless() (any bool) {
	count := map[string]int64{}
	for _, path := range r.unknown {
		count[path]++
	}
	for _, path := range slices.Sorted(maps.Keys(count)) {
		r.leave(path, fmt.Sprintf("it has messages of %s that no checkpoint and no directory knows: %s",
			quantity.Of(count[path], "partition", "partitions"), startFirst))
	}
	return len(count) > 0
}

// leave notes a file that is not salvaged.
func (r *run) leave(path, reason string) {
	r.note(&Note{
		Kind: Left, File: r.rel(path), Partition: -1, Offset: -1, EndOffset: -1, Bytes: -1, Cut: -1, Reason: reason,
	})
}
