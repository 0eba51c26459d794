// Package dirsync knows which entries of directories are durable that partitions share.
//
// A partition gets its directory when its first bytes go to a file, and the entries that
// lead there have to be durable before anything in it counts as flushed, not earlier. So
// directories are made without syncs, and one sync of the topic's directory serves all
// partitions whose directories were made before it began: 1,024 of them that a checkpoint
// flushes need a few, not one each.
package dirsync

import "github.com/mqd-broker/mqd/engine/layout"

// Dir is what is known of a partition's directory. The zero Dir is not made.
type Dir struct {
	made    uint64 // in the count of Syncs; 0: not by this life
	durable bool
}

// Recovered notes that a start has made it, and all entries that lead to it, durable.
func (d *Dir) Recovered() { d.durable = true }

// Made reports whether it is there.
func (d *Dir) Made() bool { return d.durable || d.made > 0 }

// Syncs remembers the newest sync of a topic's directory. It remembers one topic, which
// is enough where it counts: where a topic has many partitions. The zero Syncs remembers
// none.
//
// It knows of the syncs of one shard alone. Another one may have made a topic's directory
// without having synced its entry.
type Syncs struct {
	count uint64 // directories made, and syncs begun
	topic layout.TopicID
	began uint64 // the newest one that has ended; 0: there is none
}

// Made notes that a partition's directory has been made.
func (s *Syncs) Made(d *Dir) {
	s.count++
	d.made = s.count
}

// Begin says that a sync of a topic's directory begins, and returns when that is.
func (s *Syncs) Begin() uint64 {
	s.count++
	return s.count
}

// Knows reports whether the entry of the topic's directory is durable.
func (s *Syncs) Knows(t layout.TopicID) bool { return s.began > 0 && s.topic == t }

// Ended notes that a sync of the topic's directory has ended that began at a time, for the
// partition with directory d, and that the topic's own entry is durable.
func (s *Syncs) Ended(d *Dir, t layout.TopicID, began uint64) {
	if s.Knows(t) {
		began = max(began, s.began)
	}
	s.topic, s.began = t, began
	d.durable = true
}

// Cover reports whether all entries that lead into a directory of the topic are durable.
func (s *Syncs) Cover(d *Dir, t layout.TopicID) bool {
	d.durable = d.durable || d.made > 0 && s.Knows(t) && d.made < s.began
	return d.durable
}
