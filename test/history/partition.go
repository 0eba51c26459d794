package history

import "fmt"

// Class is what a partition promises when a life of the broker ends.
type Class uint8

const (
	// Memory may lose the newest messages of a life that does not end in order.
	Memory Class = iota + 1
	// Written may lose them when the power fails.
	Written
	// Flushed loses nothing.
	Flushed
)

// end says how a life ended.
type end uint8

const (
	stopped  end = iota // in order, or it goes on
	crashed             // its process was killed
	torn                // the same, and a journal ended torn
	powerCut            // and the machine with it
)

// takes reports whether the end of a life may take messages of a class.
func (e end) takes(c Class) bool {
	return (e == crashed || e == torn) && c == Memory || e == powerCut && c != Flushed
}

// skips reports whether offsets of a class may be passed over behind the end of a life.
func (e end) skips(c Class) bool { return e.takes(c) || e == torn && c != Flushed }

// Partition is the history of one partition and its judge.
type Partition struct {
	stream     uint32
	class      Class // now
	weakest    Class // ever
	ends       []end // by life, from 1
	senders    map[uint32]*sender
	log        pages
	moved      map[Message]bool // sent again after an end of a life had taken them
	end        int64            // nothing known lies at or above it
	start      start
	keys       keys
	scans      uint32
	counts     Counts
	violations []Violation
}

// Counts sums a history up.
type Counts struct {
	// Sent messages are divided into Acked, Refused (told to be not in the log),
	// Unknown (nothing was told) and those that are still on their way.
	Sent, Acked, Refused, Unknown int
	// UnknownFound are those without an outcome that were seen all the same.
	UnknownFound int
	// Taken are the messages that ends of lives took, where the class allows it.
	Taken int
	// Gaps are the stretches of offsets without content in the newest complete
	// reading.
	Gaps int
	// Read counts messages in readings and by consumers.
	Read int
	// Aged, Outgrown and Deleted count how often the log start moved for a reason: its
	// messages were old, there was more than was to be kept, somebody had asked for it.
	Aged, Outgrown, Deleted int
	// Compacted are the messages that have gone because a later one has their key, Dropped
	// those that delete a key and have gone because their time had come.
	Compacted, Dropped int
}

// Add adds o to c.
func (c *Counts) Add(o Counts) {
	c.Sent += o.Sent
	c.Acked += o.Acked
	c.Refused += o.Refused
	c.Unknown += o.Unknown
	c.UnknownFound += o.UnknownFound
	c.Taken += o.Taken
	c.Gaps += o.Gaps
	c.Read += o.Read
	c.Aged += o.Aged
	c.Outgrown += o.Outgrown
	c.Deleted += o.Deleted
	c.Compacted += o.Compacted
	c.Dropped += o.Dropped
}

// outcome is what became of a message.
type outcome uint8

const (
	pending outcome = iota
	acked
	refused
	unknown
)

// sender is one producer's messages by sequence.
type sender struct {
	outcomes []outcome
	offsets  []int64  // where each is, nowhere if that is not known
	lives    []uint32 // in which each was sent, at first
}

const nowhere = -1

// New begins the history of an empty partition in the broker's first life. stream
// is what its messages carry.
func New(stream uint32, class Class) *Partition {
	return &Partition{
		stream: stream, class: class, weakest: class, ends: []end{stopped}, senders: map[uint32]*sender{}, log: pages{},
		moved: map[Message]bool{}, start: start{bytes: -1},
	}
}

// life is the number of the current life.
func (p *Partition) life() uint32 { return uint32(len(p.ends)) }

// SetClass says that the class is changed, as soon as that is asked for: what is
// acknowledged meanwhile may be of either.
func (p *Partition) SetClass(c Class) {
	p.class = c
	p.weakest = min(p.weakest, c)
}

// Sent says that a message was given to a client. Those of one producer are told
// in order of their sequence, from 0, before their outcome.
func (p *Partition) Sent(m Message) {
	s := p.senders[m.Producer]
	if s == nil {
		s = &sender{}
		p.senders[m.Producer] = s
	}
	if m.Stream != p.stream || int(m.Seq) != len(s.outcomes) {
		p.violate(Misused, "message %v sent to stream %d, expected sequence %d", m, p.stream, len(s.outcomes))
		return
	}
	s.outcomes = append(s.outcomes, pending)
	s.offsets = append(s.offsets, nowhere)
	s.lives = append(s.lives, p.life())
	p.counts.Sent++
}

// Acked says that a message was acknowledged with an offset, in the current life, and
// has reached the partition's class.
func (p *Partition) Acked(m Message, offset int64) { p.AckedAs(m, offset, p.class) }

// AckedAs is Acked for an acknowledgement that names the class that was reached.
func (p *Partition) AckedAs(m Message, offset int64, c Class) {
	if !p.settle(m, acked) {
		return
	}
	p.counts.Acked++
	if e := p.place(m, offset); e != nil {
		e.flags |= isAcked
		e.class = max(e.class, c)
	}
}

// Refused says that a message is not in the log and never will be.
func (p *Partition) Refused(m Message) {
	if p.settle(m, refused) {
		p.counts.Refused++
	}
}

// Unknown says that a message may be in the log or not.
func (p *Partition) Unknown(m Message) {
	if p.settle(m, unknown) {
		p.counts.Unknown++
	}
}

// settle notes the outcome of a message; false if it makes no sense.
func (p *Partition) settle(m Message, o outcome) bool {
	s := p.senders[m.Producer]
	switch {
	case s == nil || m.Stream != p.stream || int(m.Seq) >= len(s.outcomes):
		p.violate(Misused, "outcome of message %v, which was not sent", m)
	case s.outcomes[m.Seq] != pending:
		p.violate(Misused, "second outcome of message %v", m)
	case o == refused && s.offsets[m.Seq] != nowhere:
		p.violate(Invented, "message %v was refused and is at offset %d", m, s.offsets[m.Seq])
	default:
		s.outcomes[m.Seq] = o
		if o == unknown && s.offsets[m.Seq] != nowhere {
			p.counts.UnknownFound++
		}
		return true
	}
	return false
}

// Crashed ends a life by force; the next one begins.
func (p *Partition) Crashed() { p.next(crashed) }

// PowerCut ends a life together with the machine.
func (p *Partition) PowerCut() { p.next(powerCut) }

// CutBeforeStart says that the power was cut before the next life had begun to serve.
// What the life before had not lost to the end of its process may be lost now.
func (p *Partition) CutBeforeStart() {
	if e := &p.ends[len(p.ends)-2]; *e == crashed || *e == torn {
		*e = powerCut
	}
}

// TornTail says that the start behind the newest end of a life has found the remains of
// rounds. What a killed process had on its way looks like something that was written, so
// offsets are passed over where the class allows it. Nothing may be lost for it.
func (p *Partition) TornTail() {
	if len(p.ends) < 2 {
		return
	}
	if e := &p.ends[len(p.ends)-2]; *e == crashed {
		*e = torn
	}
}

// Stopped ends a life in order.
func (p *Partition) Stopped() { p.next(stopped) }

func (p *Partition) next(e end) {
	p.ends[len(p.ends)-1] = e
	p.ends = append(p.ends, stopped)
}

// lossy reports whether the end of any life from one up to, but not including, another
// may have taken messages.
func (p *Partition) lossy(from, to uint32) bool {
	for l := max(from, 1); l < to; l++ {
		if p.ends[l-1].takes(p.weakest) {
			return true
		}
	}
	return false
}

// skipped reports whether offsets may have been passed over between two lives.
func (p *Partition) skipped(from, to uint32) bool {
	for l := max(from, 1); l < to; l++ {
		if p.ends[l-1].skips(p.weakest) {
			return true
		}
	}
	return false
}

// End is the least that the end of the partition can be by what is known. Ask for
// it before the broker, and give it to [Partition.Bounds].
func (p *Partition) End() int64 { return p.end }

// Bounds says what the broker gave as the start and the end of what can be read,
// when least was known.
func (p *Partition) Bounds(least, start, end int64) {
	if start > p.start.at {
		p.violate(Lost, "the log starts at %d, and nothing was deleted above %d", start, p.start.at)
	}
	if end < least {
		p.violate(WentBack, "the end is %d, and was %d", end, least)
	}
	p.end = max(p.end, end)
}

// observe is a value that somebody read at an offset. It returns the entry, nil if
// the value cannot be.
func (p *Partition) observe(offset int64, value []byte) (Message, *entry) {
	p.counts.Read++
	m, err := Identify(value)
	if err != nil {
		p.violate(Changed, "offset %d: %v", offset, err)
		return m, nil
	}
	s := p.senders[m.Producer]
	switch {
	case m.Stream != p.stream:
		p.violate(Invented, "offset %d has message %v of another partition", offset, m)
	case s == nil || int(m.Seq) >= len(s.outcomes):
		p.violate(Invented, "offset %d has message %v, which was not sent", offset, m)
	case s.outcomes[m.Seq] == refused:
		p.violate(Invented, "offset %d has message %v, which was refused", offset, m)
	default:
		if s.offsets[m.Seq] == nowhere && s.outcomes[m.Seq] == unknown {
			p.counts.UnknownFound++
		}
		return m, p.place(m, offset)
	}
	return m, nil
}

// place notes that a message that was sent is at an offset.
func (p *Partition) place(m Message, offset int64) *entry {
	if offset < 0 {
		p.violate(Misused, "message %v at offset %d", m, offset)
		return nil
	}
	e, s := p.log.at(offset), p.senders[m.Producer]
	if e.flags&isKnown != 0 && (e.producer != m.Producer || e.seq != m.Seq) {
		p.violate(TwoContents, "offset %d has message %v, and had message %v", offset, m, Message{p.stream, e.producer, e.seq})
		return nil
	}
	if at := s.offsets[m.Seq]; at != nowhere && at != offset {
		if !p.mayMove(p.log.at(at)) {
			p.violate(Duplicated, "message %v is at offset %d and at %d", m, at, offset)
			return nil
		}
		p.moved[m] = true
	}
	if e.flags&isKnown == 0 {
		*e = entry{producer: m.Producer, seq: m.Seq, life: p.life(), class: p.weakest, flags: isKnown}
	}
	s.offsets[m.Seq] = offset
	p.end = max(p.end, offset+1)
	return e
}

// mayMove reports whether a message may be at another offset than where it was seen: it was
// not acknowledged, the end of a life since then may have taken it, and its producer has
// sent it again. At the old place it must not be seen any more.
func (p *Partition) mayMove(e *entry) bool {
	return e.flags&(isAcked|isKept) == 0 && p.lossy(e.life, p.life())
}

// Counts sums the history up.
func (p *Partition) Counts() Counts { return p.counts }

// Pending is the number of messages whose outcome has not been told.
func (p *Partition) Pending() int {
	return p.counts.Sent - p.counts.Acked - p.counts.Refused - p.counts.Unknown
}

// String names the partition's class, for messages.
func (c Class) String() string {
	switch c {
	case Memory:
		return "memory"
	case Written:
		return "written"
	case Flushed:
		return "flushed"
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}
