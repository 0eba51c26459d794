package salvage

import (
	"fmt"
	"github.com/mqd-broker/mqd/internal/quantity"
	"strings"
)

// Line is a note in a line; done says that what it tells of has been accepted.
func (n *Note) Line(done bool) string {
	var b strings.Builder
	switch n.Kind {
	case Lost:
		b.WriteString("LOST: ")
	case Rewrite:
		if done {
			b.WriteString("replaced: ")
		} else {
			b.WriteString("to replace: ")
		}
	case Journal:
		b.WriteString("LOST JOURNAL: ")
	default:
		b.WriteString("NOT SALVAGED: ")
	}
	if n.Partition >= 0 {
		fmt.Fprintf(&b, "topic %s partition %d: ", n.Topic, n.Partition)
	}
	if n.File != "" {
		b.WriteString(n.File + ": ")
	}
	switch {
	case n.Kind == Journal: // the reason has the offsets
	case n.EndOffset == n.Offset+1:
		fmt.Fprintf(&b, "offset %d: ", n.Offset)
	case n.Offset >= 0:
		fmt.Fprintf(&b, "offsets %d to %d: ", n.Offset, n.EndOffset-1)
	}
	if n.Bytes >= 0 {
		fmt.Fprintf(&b, "%d of %d bytes go", n.Cut, n.Bytes)
		if n.Reason != "" {
			b.WriteString("; ")
		}
	}
	b.WriteString(n.Reason)
	return b.String()
}

// Verdict says in a line what has been found and done.
func (s *Summary) Verdict() string {
	text, journals := "nothing is lost", quantity.Of(int64(s.Journals), "journal", "journals")
	offsets, ranges := quantity.Of(s.Offsets, "offset", "offsets"), quantity.Of(s.Losses, "range", "ranges")
	switch {
	case s.Journals > 0 && s.Accepted:
		text = fmt.Sprintf("given up: %s, and %s in %s; logs replaced: %d", journals, offsets, ranges, s.Rewrites)
	case s.Journals > 0:
		text = fmt.Sprintf("lost: %s, and %s in %s; logs to replace: %d; nothing was changed, --yes gives them up", journals, offsets, ranges, s.Rewrites)
	case s.Losses+s.Rewrites == 0 && s.Left > 0:
		text = "nothing is known to be lost"
	case s.Losses+s.Rewrites > 0 && s.Accepted:
		text = fmt.Sprintf("given up: %s in %s; logs replaced: %d", offsets, ranges, s.Rewrites)
	case s.Losses+s.Rewrites > 0:
		text = fmt.Sprintf("lost: %s in %s; logs to replace: %d; nothing was changed, --yes gives them up", offsets, ranges, s.Rewrites)
	}
	if s.Left > 0 {
		text += fmt.Sprintf("; not salvaged: %d", s.Left)
	}
	return text
}
