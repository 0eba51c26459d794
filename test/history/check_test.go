package history

import (
	"slices"
	"strings"
	"testing"
)

const stream = 5

// story tells a partition's history in few words. Messages are of producer 1
// unless it says otherwise.
type story struct {
	p    *Partition
	next map[uint32]uint32
}

func begin(c Class) *story { return &story{New(stream, c), map[uint32]uint32{}} }

func msg(seq uint32) Message      { return Message{stream, 1, seq} }
func value(m Message) []byte      { return Append(nil, m, 48) }
func (s *story) sent(n int)       { s.sentBy(1, n) }
func (s *story) acked(seq uint32) { s.p.Acked(msg(seq), int64(seq)) }

func (s *story) sentBy(producer uint32, n int) {
	for range n {
		s.p.Sent(Message{stream, producer, s.next[producer]})
		s.next[producer]++
	}
}

// ackedTo acknowledges sequences from up to to at the offsets of the same number.
func (s *story) ackedTo(from, to uint32) {
	s.sent(int(to - from))
	for seq := from; seq < to; seq++ {
		s.acked(seq)
	}
}

// read reads everything up to end; message seqs[i] is at offset i, and where it is
// empty the broker tells of a gap.
func (s *story) read(end int64, seqs ...int) {
	sc := s.p.Scan(s.p.End(), 0, end)
	for i, seq := range seqs {
		if seq == empty {
			sc.Skip(int64(i), int64(i)+1)
			continue
		}
		sc.Record(int64(i), value(msg(uint32(seq))))
	}
	sc.Done()
}

const empty = -1

// expect wants exactly these kinds of violation, each once or more.
func (s *story) expect(t *testing.T, want ...Kind) {
	t.Helper()
	var got []Kind
	for _, v := range s.p.Violations() {
		if !slices.Contains(got, v.Kind) {
			got = append(got, v.Kind)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("violations %v, expected %v; all: %v", got, want, s.p.Violations())
	}
}

var all = []Class{Memory, Written, Flushed}
var durable = []Class{Written, Flushed}

// Histories as they should be, and each with one fault.
var histories = []struct {
	name    string
	classes []Class
	tell    func(s *story)
	want    []Kind
}{
	{"nothing", all, func(s *story) { s.read(0) }, nil},
	{"everything acknowledged and read", all, func(s *story) {
		s.ackedTo(0, 3)
		s.read(3, 0, 1, 2)
		s.p.Crashed()
		s.read(3, 0, 1, 2)
	}, nil},
	{"acknowledged while it is read", all, func(s *story) {
		s.sent(3)
		s.acked(0)
		sc := s.p.Scan(1, 0, 2)
		s.acked(2)
		sc.Record(0, value(msg(0)))
		sc.Record(1, value(msg(1)))
		sc.Record(2, value(msg(2))) // behind the end
		sc.Done()
		s.acked(1)
	}, nil},
	{"unknown and there", all, func(s *story) {
		s.sent(2)
		s.acked(0)
		s.p.Unknown(msg(1))
		s.p.Crashed()
		s.read(2, 0, 1)
	}, nil},
	{"sent again after it was taken", []Class{Memory}, func(s *story) {
		s.sent(3)
		s.acked(0)
		tail := s.p.Tail(0)
		for i := range uint32(2) {
			tail.Record(int64(i), value(msg(i)))
		}
		s.p.Crashed()
		s.p.Acked(msg(1), 9)
		s.p.Acked(msg(2), 10)
		for i := range uint32(2) {
			tail.Record(int64(9+i), value(msg(1+i)))
		}
		s.read(11, 0, empty, empty, empty, empty, empty, empty, empty, empty, 1, 2)
	}, nil},
	{"sent again although nothing was taken", all, func(s *story) {
		s.sent(2)
		s.acked(0)
		s.p.Tail(1).Record(1, value(msg(1)))
		s.p.Acked(msg(1), 2)
	}, []Kind{Duplicated}},
	{"sent again and there as before", []Class{Memory}, func(s *story) {
		s.sent(2)
		s.acked(0)
		s.p.Tail(1).Record(1, value(msg(1)))
		s.p.Crashed()
		s.p.Acked(msg(1), 2)
		s.read(3, 0, 1, 1)
	}, []Kind{Duplicated}},
	{"sent again in a class that loses nothing", durable, func(s *story) {
		s.sent(2)
		s.acked(0)
		s.p.Tail(1).Record(1, value(msg(1)))
		s.p.Crashed()
		s.p.Acked(msg(1), 2)
	}, []Kind{Duplicated}},
	{"unknown and not there", all, func(s *story) {
		s.sent(2)
		s.acked(0)
		s.p.Unknown(msg(1))
		s.p.Crashed()
		s.read(1, 0)
	}, nil},
	{"refused and not there", all, func(s *story) {
		s.sent(3)
		s.acked(0)
		s.p.Refused(msg(1))
		s.p.Acked(msg(2), 1)
		s.read(2, 0, 2)
	}, nil},

	{"loss after a crash", durable, func(s *story) {
		s.ackedTo(0, 3)
		s.p.Crashed()
		s.read(2, 0, 1)
	}, []Kind{Lost, WentBack}},
	{"loss in the middle, renumbered", durable, func(s *story) {
		s.ackedTo(0, 3)
		s.p.Crashed()
		s.read(3, 0, 2)
	}, []Kind{Gap, Lost, TwoContents}},
	{"memory: the newest are taken and their offsets used again", []Class{Memory}, func(s *story) {
		s.ackedTo(0, 3)
		s.p.Crashed()
		s.sent(1)
		s.p.Acked(msg(3), 2)
	}, []Kind{TwoContents}},
	{"loss in the middle, told as a gap", []Class{Flushed, Written}, func(s *story) {
		s.ackedTo(0, 3)
		s.p.Crashed()
		s.read(3, 0, empty, 2)
	}, []Kind{Gap, Lost}},
	{"loss without a crash", all, func(s *story) {
		s.ackedTo(0, 2)
		sc := s.p.Scan(2, 0, 2)
		sc.Record(0, value(msg(0)))
		sc.Done()
	}, []Kind{Lost, Gap}},
	{"loss of what was kept before", all, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Crashed()
		s.read(2, 0, 1)
		s.ackedTo(2, 3)
		s.p.Crashed()
		s.read(3, 0)
	}, []Kind{Lost, Gap}},
	{"loss of an unknown message that was read", durable, func(s *story) {
		s.sent(1)
		s.p.Unknown(msg(0))
		s.p.Crashed()
		s.read(1, 0)
		s.p.Crashed()
		s.read(1, empty)
	}, []Kind{Lost, Gap}},

	{"changed", all, func(s *story) {
		s.ackedTo(0, 1)
		sc := s.p.Scan(1, 0, 1)
		b := value(msg(0))
		b[40] ^= 1
		sc.Record(0, b)
		sc.Done()
	}, []Kind{Changed, Lost}},
	{"two messages acknowledged at one offset", all, func(s *story) {
		s.sent(2)
		s.p.Acked(msg(0), 0)
		s.p.Acked(msg(1), 0)
	}, []Kind{TwoContents}},
	{"one message at two offsets", all, func(s *story) {
		s.sent(1)
		s.acked(0)
		s.read(2, 0, 0)
	}, []Kind{Duplicated}},
	{"an unknown message twice", all, func(s *story) {
		s.sent(1)
		s.p.Unknown(msg(0))
		s.read(2, 0, 0)
	}, []Kind{Duplicated}},
	{"acknowledged at one offset and read at another", all, func(s *story) {
		s.sent(2)
		s.p.Acked(msg(1), 0)
		s.p.Unknown(msg(0))
		s.read(2, 0, 1)
	}, []Kind{TwoContents, Duplicated, Lost}},
	{"invented sequence", all, func(s *story) {
		s.ackedTo(0, 1)
		s.read(2, 0, 1)
	}, []Kind{Invented}},
	{"invented producer", all, func(s *story) {
		sc := s.p.Scan(0, 0, 1)
		sc.Record(0, value(Message{stream, 9, 0}))
		sc.Done()
	}, []Kind{Invented}},
	{"message of another partition", all, func(s *story) {
		s.sent(1)
		sc := s.p.Scan(0, 0, 1)
		sc.Record(0, value(Message{stream + 1, 1, 0}))
		sc.Done()
	}, []Kind{Invented}},
	{"refused and there", all, func(s *story) {
		s.sent(1)
		s.p.Refused(msg(0))
		s.read(1, 0)
	}, []Kind{Invented}},
	{"there and refused", all, func(s *story) {
		s.sent(1)
		s.read(1, 0)
		s.p.Refused(msg(0))
	}, []Kind{Invented}},
	{"reordered", all, func(s *story) {
		s.sent(2)
		s.p.Acked(msg(0), 1)
		s.p.Acked(msg(1), 0)
		s.read(2, 1, 0)
	}, []Kind{Reordered}},
	{"offsets in the wrong order", all, func(s *story) {
		s.ackedTo(0, 2)
		sc := s.p.Scan(2, 0, 2)
		sc.Record(0, value(msg(0)))
		sc.Record(1, value(msg(1)))
		sc.Record(0, value(msg(0)))
		sc.Done()
	}, []Kind{Reordered}},
	{"two producers in any order", all, func(s *story) {
		s.sentBy(1, 2)
		s.sentBy(2, 1)
		s.p.Acked(msg(0), 0)
		s.p.Acked(Message{stream, 2, 0}, 1)
		s.p.Acked(msg(1), 2)
		sc := s.p.Scan(3, 0, 3)
		for i, m := range []Message{msg(0), {stream, 2, 0}, msg(1)} {
			sc.Record(int64(i), value(m))
		}
		sc.Done()
	}, nil},
	{"a gap nobody told of", all, func(s *story) {
		s.sent(2)
		s.acked(0)
		s.p.Crashed()
		s.p.Acked(msg(1), 4)
		sc := s.p.Scan(5, 0, 5)
		sc.Record(0, value(msg(0)))
		sc.Record(4, value(msg(1)))
		sc.Done()
	}, []Kind{Gap}},
	{"a gap at the end nobody told of", all, func(s *story) {
		s.ackedTo(0, 1)
		s.p.Crashed()
		s.read(4, 0)
	}, []Kind{Gap}},
	{"a gap in a partition that has none", durable, func(s *story) {
		s.sent(2)
		s.acked(0)
		s.p.Crashed()
		s.p.Acked(msg(1), 2)
		s.read(3, 0, empty, 1)
	}, []Kind{Gap}},
	{"the end goes back", all, func(s *story) {
		s.p.Bounds(0, 0, 7)
		s.p.Bounds(s.p.End(), 0, 6)
	}, []Kind{WentBack}},
	{"the start moves", all, func(s *story) { s.p.Bounds(0, 1, 7) }, []Kind{Lost}},

	{"memory: the newest are taken", []Class{Memory}, func(s *story) {
		s.ackedTo(0, 4)
		s.p.Crashed()
		s.read(6, 0, 1, empty, empty, empty, empty)
		s.sent(1)
		s.p.Acked(msg(4), 6)
		s.read(7, 0, 1, empty, empty, empty, empty, 4)
	}, nil},
	{"memory and written: a power cut takes the newest", []Class{Memory, Written}, func(s *story) {
		s.ackedTo(0, 4)
		s.p.PowerCut()
		s.read(6, 0, 1, empty, empty, empty, empty)
		s.sent(1)
		s.p.Acked(msg(4), 6)
		s.read(7, 0, 1, empty, empty, empty, empty, 4)
	}, nil},
	{"written: a gap behind a kill that left a torn tail", []Class{Written}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Crashed()
		s.p.TornTail()
		s.read(4, 0, 1, empty, empty)
	}, nil},
	{"written: a gap behind a kill", []Class{Written}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Crashed()
		s.read(4, 0, 1, empty, empty)
	}, []Kind{Gap}},
	{"written: a torn tail takes nothing", []Class{Written}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Crashed()
		s.p.TornTail()
		s.read(4, 0, empty, empty, empty)
	}, []Kind{Lost}},
	{"flushed: no gap behind a torn tail", []Class{Flushed}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Crashed()
		s.p.TornTail()
		s.read(4, 0, 1, empty, empty)
	}, []Kind{Gap}},
	{"written: a power cut takes what an earlier recovery kept", []Class{Written}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Crashed()
		s.read(2, 0, 1)
		s.p.PowerCut()
		s.read(2, 0, empty)
	}, []Kind{Lost}},
	{"written: a crash before the power cut takes", []Class{Written}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Crashed()
		s.p.PowerCut()
		s.read(2, 0, empty)
	}, []Kind{Lost}},
	{"written: a power cut during the start after a crash", []Class{Written}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Crashed()
		s.p.CutBeforeStart()
		s.read(2, 0, empty)
	}, nil},
	{"memory and written: a power cut during the start after an orderly end", []Class{Memory, Written}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Stopped()
		s.p.CutBeforeStart()
		s.read(2, 0, empty)
	}, []Kind{Lost, Gap}},
	{"flushed: a power cut takes", []Class{Flushed}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.PowerCut()
		s.read(2, 0, empty)
	}, []Kind{Lost, Gap}},
	{"memory becomes flushed: what was acknowledged before may go", []Class{Memory}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.SetClass(Flushed)
		s.p.PowerCut()
		s.read(2, 0, empty)
	}, nil},
	{"memory becomes flushed: what was acknowledged as that goes", []Class{Memory}, func(s *story) {
		s.ackedTo(0, 1)
		s.p.SetClass(Flushed)
		s.sent(1)
		s.p.AckedAs(msg(1), 1, Flushed)
		s.p.PowerCut()
		s.read(2, 0, empty)
	}, []Kind{Lost}},
	{"flushed becomes memory: the newest may go", []Class{Flushed}, func(s *story) {
		s.ackedTo(0, 1)
		s.p.SetClass(Memory)
		s.ackedTo(1, 2)
		s.p.Crashed()
		s.read(2, 0, empty)
	}, nil},
	{"memory: taken in two crashes without a reading between", []Class{Memory}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Crashed()
		s.sent(2)
		s.p.Acked(msg(2), 4)
		s.p.Acked(msg(3), 5)
		s.p.Crashed()
		s.read(9, 0, empty, empty, empty, 2, empty, empty, empty, empty)
	}, nil},
	{"memory: an older one is taken", []Class{Memory}, func(s *story) {
		s.ackedTo(0, 3)
		s.p.Crashed()
		s.read(3, 0, empty, 2)
	}, []Kind{Lost, Gap}},
	{"memory: an orderly end takes", []Class{Memory}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Stopped()
		s.read(2, 0, empty)
	}, []Kind{Lost, Gap}},
	{"memory: taken although the life ended in order", []Class{Memory}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Stopped()
		s.p.Crashed()
		s.read(2, 0, empty)
	}, []Kind{Lost}},
	{"memory: a gap without a crash", []Class{Memory}, func(s *story) {
		s.sent(2)
		s.acked(0)
		s.p.Acked(msg(1), 2)
		s.read(3, 0, empty, 1)
	}, []Kind{Gap}},
	{"memory: an offset that was taken is used again", []Class{Memory}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Crashed()
		s.read(2, 0, empty)
		s.sent(1)
		s.p.Acked(msg(2), 1)
	}, []Kind{TwoContents}},
	{"memory: an offset that only a consumer saw is used again", []Class{Memory}, func(s *story) {
		s.sent(2)
		s.p.Tail(0).Record(0, value(msg(0)))
		s.p.Unknown(msg(0))
		s.p.Crashed()
		s.p.Acked(msg(1), 0)
	}, []Kind{TwoContents}},
	{"memory: what was taken comes back", []Class{Memory}, func(s *story) {
		s.ackedTo(0, 2)
		s.p.Crashed()
		s.read(2, 0, empty)
		s.p.Crashed()
		s.read(2, 0, 1)
	}, []Kind{CameBack}},

	{"a consumer across lives", all, func(s *story) {
		s.sent(3)
		tail := s.p.Tail(0)
		tail.Record(0, value(msg(0)))
		s.acked(0)
		s.p.Crashed()
		s.acked(1)
		tail.Record(1, value(msg(1)))
		s.read(2, 0, 1)
	}, nil},
	{"a consumer saw what is not there", durable, func(s *story) {
		s.sent(1)
		s.p.Tail(0).Record(0, value(msg(0)))
		s.p.Unknown(msg(0))
		s.p.Crashed()
		s.read(0)
	}, []Kind{Lost, WentBack}},
	{"a consumer misses one", durable, func(s *story) {
		s.ackedTo(0, 3)
		tail := s.p.Tail(0)
		tail.Record(0, value(msg(0)))
		tail.Record(2, value(msg(2)))
	}, []Kind{Lost}},
	{"a consumer gets one twice", all, func(s *story) {
		s.ackedTo(0, 1)
		tail := s.p.Tail(0)
		tail.Record(0, value(msg(0)))
		tail.Record(0, value(msg(0)))
	}, []Kind{Reordered}},
	{"a consumer sees another content", all, func(s *story) {
		s.sent(2)
		s.acked(0)
		s.p.Tail(0).Record(0, value(msg(1)))
	}, []Kind{TwoContents}},

	{"an outcome without a message", all, func(s *story) { s.acked(0) }, []Kind{Misused}},
	{"two outcomes", all, func(s *story) {
		s.sent(1)
		s.acked(0)
		s.p.Unknown(msg(0))
	}, []Kind{Misused}},
}

func TestHistoriesAreJudged(t *testing.T) {
	for _, h := range histories {
		for _, c := range h.classes {
			t.Run(strings.ReplaceAll(h.name, " ", "-")+"/"+c.String(), func(t *testing.T) {
				s := begin(c)
				h.tell(s)
				s.expect(t, h.want...)
			})
		}
	}
}

func TestAReadingThatTheBrokerDidNotSurviveProvesNothing(t *testing.T) {
	s := begin(Flushed)
	s.ackedTo(0, 2)
	sc := s.p.Scan(2, 0, 2)
	sc.Record(0, value(msg(0)))
	s.p.Crashed()
	sc.Done()
	s.expect(t)
}

func TestCountsAddUp(t *testing.T) {
	s := begin(Memory)
	s.sent(6)
	s.acked(0)
	s.acked(1)
	s.p.Refused(msg(2))
	s.p.Unknown(msg(3))
	s.p.Unknown(msg(4))
	if s.p.Pending() != 1 {
		t.Errorf("%d pending, expected 1", s.p.Pending())
	}
	s.p.Crashed()
	s.read(4, 0, empty, empty, 3)
	want := Counts{Sent: 6, Acked: 2, Refused: 1, Unknown: 2, UnknownFound: 1, Taken: 1, Gaps: 2, Read: 2}
	if got := s.p.Counts(); got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
	var sum Counts
	sum.Add(want)
	sum.Add(want)
	if sum.Sent != 12 || sum.Acked != 4 || sum.Read != 4 {
		t.Errorf("twice the counts: %+v", sum)
	}
}
