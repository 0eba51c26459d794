package segment

import (
	"encoding/hex"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// TopicsDir is the directory of all topics, below the data directory.
const TopicsDir = "data/topics"

// MaxTopicDirName is the part of a topic's name, in bytes, that its directory
// shows. The id behind it tells topics apart.
const MaxTopicDirName = 64

const (
	logSuffix     = ".log"
	indexSuffix   = ".index"
	deletedSuffix = ".deleted"
	orphanSuffix  = ".orphan"

	offsetDigits = 20
	idBytes      = 4 // of the topic id, in a directory's name
)

// ID identifies a segment. It stands in the header of the index.
type ID struct {
	Topic     [16]byte
	Partition uint32
	Base      int64 // lowest offset that the segment may hold, at least 0
}

// Dir is the directory of the segment's partition, below the data directory.
func (id ID) Dir(topic string) string {
	return filepath.Join(TopicsDir, TopicDir(topic, id.Topic), PartitionDir(id.Partition))
}

// LogName is the file name of the segment's log.
func (id ID) LogName() string { return LogName(id.Base) }

// IndexName is the file name of the segment's index.
func (id ID) IndexName() string { return IndexName(id.Base) }

// TopicDir is the name of a topic's directory: the first 64 bytes of its name,
// with everything but letters, digits, '.', '_' and '-' replaced by '_', a dot,
// and the first four bytes of the topic id in hexadecimal.
func TopicDir(name string, topic [16]byte) string {
	b := []byte(name[:min(len(name), MaxTopicDirName)])
	for i, c := range b {
		if !plainByte(c) {
			b[i] = '_'
		}
	}
	b = append(b, '.')
	return string(hex.AppendEncode(b, topic[:idBytes]))
}

// ParseTopicDir splits the name of a topic's directory; ok is false for other
// names, those of deleted topics among them.
func ParseTopicDir(dir string) (name string, id [idBytes]byte, ok bool) {
	dot := len(dir) - 2*idBytes - 1
	if dot < 0 || dot > MaxTopicDirName || dir[dot] != '.' || !lowerHex(dir[dot+1:]) {
		return "", id, false
	}
	for i := range dot {
		if !plainByte(dir[i]) {
			return "", id, false
		}
	}
	if _, err := hex.Decode(id[:], []byte(dir[dot+1:])); err != nil {
		return "", id, false
	}
	return dir[:dot], id, true
}

// PartitionDir is the name of a partition's directory within its topic's.
func PartitionDir(partition uint32) string { return strconv.FormatUint(uint64(partition), 10) }

// ParsePartitionDir is the inverse of PartitionDir.
func ParsePartitionDir(name string) (uint32, bool) {
	n, err := strconv.ParseUint(name, 10, 32)
	if err != nil || PartitionDir(uint32(n)) != name {
		return 0, false
	}
	return uint32(n), true
}

// LogName is the file name of the log whose segment begins at base.
func LogName(base int64) string { return baseName(base) + logSuffix }

// IndexName is the file name of the index whose segment begins at base.
func IndexName(base int64) string { return baseName(base) + indexSuffix }

// Deleted is the name to which a file or directory is renamed before it is
// removed.
func Deleted(name string) string { return name + deletedSuffix }

// IsDeleted reports whether name is one that Deleted makes. What carries it may
// be removed at any time.
func IsDeleted(name string) bool { return strings.HasSuffix(name, deletedSuffix) }

// Orphan is the name to which recovery may rename a file that it does not know.
func Orphan(name string) string { return name + orphanSuffix }

// Kind says what a file in a partition's directory is.
type Kind uint8

// The kinds of files.
const (
	// KindUnknown is a name that is not ours. Such files are never touched.
	KindUnknown Kind = iota
	// KindLog is a log.
	KindLog
	// KindIndex is an index.
	KindIndex
	// KindTemp is what an interrupted atomic write left; it may be removed.
	KindTemp
	// KindDeleted is a log or index whose deletion was interrupted; it may be
	// removed.
	KindDeleted
	// KindOrphan is a file that recovery has put aside.
	KindOrphan
)

// ParseName tells what the file called name is and, for logs, indexes, and the
// temporary and deleted forms of both, the base offset in its name.
func ParseName(name string) (Kind, int64) {
	if strings.HasSuffix(name, orphanSuffix) {
		return KindOrphan, 0
	}
	if stem, ok := strings.CutSuffix(name, deletedSuffix); ok {
		return derived(stem, KindDeleted)
	}
	if aio.IsTemp(name) {
		return derived(strings.TrimSuffix(name, filepath.Ext(name)), KindTemp)
	}
	return parsePlain(name)
}

// derived is the kind of a file whose name is that of a log or index with a
// suffix that means kind.
func derived(stem string, kind Kind) (Kind, int64) {
	if of, base := parsePlain(stem); of != KindUnknown {
		return kind, base
	}
	return KindUnknown, 0
}

func parsePlain(name string) (Kind, int64) {
	if len(name) < offsetDigits {
		return KindUnknown, 0
	}
	for i := range offsetDigits {
		if name[i] < '0' || name[i] > '9' {
			return KindUnknown, 0
		}
	}
	base, err := strconv.ParseInt(name[:offsetDigits], 10, 64)
	if err != nil {
		return KindUnknown, 0
	}
	switch name[offsetDigits:] {
	case logSuffix:
		return KindLog, base
	case indexSuffix:
		return KindIndex, base
	}
	return KindUnknown, 0
}

func baseName(base int64) string {
	if base < 0 {
		invariant.Violated("segment: a base offset is not negative")
	}
	var b [offsetDigits]byte
	for i := offsetDigits - 1; i >= 0; i-- {
		b[i] = byte('0' + base%10)
		base /= 10
	}
	return string(b[:])
}

func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
