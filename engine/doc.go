// Package engine stores partitions: it appends batches through a shard's journal,
// serves them from memory or segment files, brings them to the segments in the
// background, makes checkpoints and recovers.
//
// [Store] is the log of one shard and runs on that shard's loop. [Recover] is what
// happens before any loop: it reads checkpoints and journals, makes the segments
// whole and durable, and says what each shard begins with.
package engine
