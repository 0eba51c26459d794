package layout

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/segment"
)

// Subdirectories of a data directory, and the lock file.
const (
	CheckpointsDir = "checkpoints"
	JournalsDir    = "journals"
	TopicsDir      = "topics"
	// GroupsDir is made when snapshots of consumer groups are first written.
	GroupsDir = "groups"
	LockFile  = "lock"
	// LockSuffix ends the name of the file that locks another.
	LockSuffix = ".lock"
)

// CheckpointPath names the file of a shard's checkpoint with a sequence number. Two
// generations take turns.
func CheckpointPath(dir string, shard int, seq uint64) string {
	return filepath.Join(dir, CheckpointsDir, checkpoint.FileName(uint16(shard), seq))
}

// JournalPath names a shard's journal.
func JournalPath(dir string, shard int) string {
	return filepath.Join(dir, JournalsDir, "journal-"+strconv.Itoa(shard))
}

// JournalLockPath names the file that the driver of a shard's journal holds a lock
// on, so that nobody reads the journal while writes of a killed process land.
func JournalLockPath(dir string, shard int) string { return JournalPath(dir, shard) + LockSuffix }

// ParseJournalName returns the shard of a journal's file name.
func ParseJournalName(name string) (shard int, ok bool) {
	rest, ok := strings.CutPrefix(name, "journal-")
	n, err := strconv.Atoi(rest)
	if !ok || err != nil || n < 0 || strconv.Itoa(n) != rest {
		return 0, false
	}
	return n, true
}

// TopicDir is where a topic's partitions live.
func TopicDir(dataDir, name string, id TopicID) string {
	return filepath.Join(dataDir, TopicsDir, segment.TopicDir(name, id))
}

// PartitionDir is where a partition's segments live.
func PartitionDir(dataDir, name string, k Key) string {
	return filepath.Join(TopicDir(dataDir, name, k.Topic), segment.PartitionDir(k.Partition))
}
