package group

import "time"

// The lengths and counts that the format allows; [Limits] are tighter.
const (
	// MaxName is the length of the longest name of a group in bytes.
	MaxName = 249
	// MaxInstance is the length of the longest name of an instance, or of a client, in
	// bytes.
	MaxInstance = 255
	// MaxTopics is the largest number of topics of one member.
	MaxTopics = 1000
)

// Limits bound what groups may take. Zero fields take the defaults.
type Limits struct {
	// Groups of one state. Default 100,000.
	Groups int
	// Offsets of one state, all groups together, about 100 bytes each. Default
	// 2,000,000.
	Offsets int
	// Members of one group. 1 to 10,000, default 1,000.
	Members int
	// Record bounds a record in bytes, so that it fits into a batch of the log. At least
	// 2048, default 1 MiB less 4 KiB. A quarter of it is for the members of a group and
	// their topics, a quarter for its table, and half of it for partitions, 24 bytes
	// each: those for which there is no room are read by nobody.
	Record int
	// Metadata of a committed offset, in bytes. 0 to a quarter of Record and
	// 32,767, default 4096.
	Metadata int
	// MinSession and MaxSession bound how long a member may be silent. Defaults 1 s
	// and 30 min.
	MinSession, MaxSession time.Duration
	// Retention is how long a group without members keeps its offsets. Default 7 days.
	Retention time.Duration
}

// WithDefaults returns l with its zero fields set.
func (l Limits) WithDefaults() Limits {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&l.Groups, 100_000)
	def(&l.Offsets, 2_000_000)
	def(&l.Members, 1_000)
	def(&l.Record, 1<<20-4096)
	def(&l.Metadata, 4096)
	l.Metadata = min(l.Metadata, l.Record/4, 1<<15-1)
	if l.MinSession == 0 {
		l.MinSession = time.Second
	}
	if l.MaxSession == 0 {
		l.MaxSession = 30 * time.Minute
	}
	if l.Retention == 0 {
		l.Retention = 7 * 24 * time.Hour
	}
	return l
}

// partitions is the largest number of partitions that a group divides.
func (l *Limits) partitions() int { return l.Record / 2 / grantSize }

// CheckName reports whether a group can have this name: 1 to [MaxName] bytes, none of
// them a control character.
func CheckName[T string | []byte](name T) bool {
	return len(name) > 0 && len(name) <= MaxName && printable(name)
}

// checkInstance is CheckName for instances and clients, which may be empty.
func checkInstance[T string | []byte](name T) bool {
	return len(name) <= MaxInstance && printable(name)
}

func printable[T string | []byte](s T) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}
