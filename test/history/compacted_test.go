package history

import (
	"strings"
	"testing"
	"time"
)

const gone = -2

// meaning has sequences 0, 1 and 2 say: key 1, key 1, key 1 deleted; and so on with other
// keys. Every fourth has none.
func meaning(m Message) Meaning {
	if m.Seq%4 == 3 {
		return Meaning{}
	}
	return Meaning{Key: 1 + m.Seq/4, Deletes: m.Seq%4 == 2}
}

// keyed begins a history of a partition whose messages stay for so long.
func keyed(c Class, lag, stay time.Duration) *story {
	s := begin(c)
	s.p.Keyed(meaning)
	s.p.MayCompact(int64(lag), int64(stay))
	return s
}

// appended acknowledges sequences from 0 up to n at the offsets of the same number, one
// appended in each second.
func (s *story) appended(n int) {
	s.ackedTo(0, uint32(n))
	for i := range n {
		s.p.Appended(int64(i), 1, 100, int64(i)*int64(time.Second), int64(time.Hour), s.p.class)
	}
}

// readAt is a reading at a time; from some offsets everything has gone.
func (s *story) readAt(now time.Duration, seqs ...int) {
	sc := s.p.Scan(s.p.End(), 0, int64(len(seqs)))
	for i, seq := range seqs {
		switch seq {
		case gone:
			sc.Gone(int64(i), int64(i)+1)
		case empty:
			sc.Skip(int64(i), int64(i)+1)
		default:
			sc.Record(int64(i), value(msg(uint32(seq))))
		}
	}
	sc.DoneAt(int64(now))
}

var compactions = []struct {
	name    string
	classes []Class
	tell    func(s *story)
	want    []Kind
}{
	{"superseded messages go", all, func(s *story) {
		s.appended(4)
		s.readAt(time.Hour, 0, 1, 2, 3)
		s.readAt(time.Hour, gone, 1, 2, 3)
		s.readAt(time.Hour, gone, gone, 2, 3)
		s.p.Stopped()
		s.readAt(time.Hour, gone, gone, 2, 3)
	}, nil},
	{"the newest of a key goes", durable, func(s *story) {
		s.appended(2)
		s.readAt(time.Hour, gone, gone)
	}, []Kind{Lost}},
	{"a message without a key goes", durable, func(s *story) {
		s.appended(5)
		s.readAt(time.Hour, 0, 1, 2, gone, 4)
	}, []Kind{Lost}},
	{"what is superseded has gone and is back", all, func(s *story) {
		s.appended(2)
		s.readAt(time.Hour, gone, 1)
		s.readAt(time.Hour, 0, 1)
	}, []Kind{CameBack}},
	{"a deletion goes before its time", durable, func(s *story) {
		s.appended(3)
		s.readAt(11*time.Second, gone, gone, gone)
	}, []Kind{Lost}},
	{"a deletion goes when its time has come", all, func(s *story) {
		s.appended(3)
		s.readAt(12*time.Second, gone, gone, gone)
	}, nil},
	{"what is deleted comes back when the deletion goes", all, func(s *story) {
		s.appended(3)
		s.readAt(time.Hour, gone, gone, 2)
		s.readAt(time.Hour, gone, 1, gone)
	}, []Kind{CameBack}},
	{"a deletion goes and leaves what it deletes", all, func(s *story) {
		s.appended(3)
		s.readAt(time.Hour, gone, 1, gone)
	}, []Kind{CameBack}},
	{"memory: a crash takes a deletion", []Class{Memory}, func(s *story) {
		s.appended(3)
		s.p.Crashed()
		s.readAt(time.Hour, gone, 1, empty)
	}, nil},
	{"what supersedes goes behind what is superseded", durable, func(s *story) {
		s.appended(2)
		s.readAt(time.Hour, gone, 1)
		s.readAt(time.Hour, gone, gone)
	}, []Kind{Lost}},
	{"a message goes before its time", durable, func(s *story) {
		s.appended(2)
		s.readAt(4*time.Second, gone, 1)
	}, []Kind{Lost}},
	{"another key supersedes nothing", durable, func(s *story) {
		s.appended(6)
		s.readAt(time.Hour, gone, gone, gone, 3, 4, 5)
		s.readAt(time.Hour, gone, gone, gone, 3, gone, gone)
	}, []Kind{Lost}},
	{"a deletion of which nobody knows has gone with what it deletes", all, func(s *story) {
		s.appended(2)
		s.sent(1)
		s.p.Unknown(msg(2))
		s.readAt(time.Hour, gone, gone)
	}, nil},
	{"a refused deletion deletes nothing", durable, func(s *story) {
		s.appended(2)
		s.sent(1)
		s.p.Refused(msg(2))
		s.readAt(time.Hour, gone, gone)
	}, []Kind{Lost}},
	{"flushed: a jump is a gap all the same", []Class{Flushed}, func(s *story) {
		s.appended(2)
		s.readAt(time.Hour, empty, 1)
	}, []Kind{Gap}},
	{"memory: a crash takes what supersedes", []Class{Memory}, func(s *story) {
		s.p.SetClass(Flushed)
		s.sent(2)
		s.p.AckedAs(msg(0), 0, Flushed)
		s.p.AckedAs(msg(1), 1, Memory)
		s.readAt(time.Hour, gone, 1)
		s.p.Crashed()
		s.readAt(time.Hour, gone, empty)
	}, []Kind{Lost}},
	{"a consumer passes over what has gone", all, func(s *story) {
		s.appended(3)
		tail := s.p.Tail(0)
		tail.Record(2, value(msg(2)))
	}, nil},
}

func TestCompactionsAreJudged(t *testing.T) {
	for _, h := range compactions {
		for _, c := range h.classes {
			t.Run(strings.ReplaceAll(h.name, " ", "-")+"/"+c.String(), func(t *testing.T) {
				s := keyed(c, 5*time.Second, 10*time.Second)
				h.tell(s)
				s.expect(t, h.want...)
			})
		}
	}
}

func TestNothingGoesFromABatchThatIsNotCompacted(t *testing.T) {
	s := begin(Flushed)
	s.ackedTo(0, 2)
	s.readAt(time.Hour, gone, 1)
	s.expect(t, Gap, Lost)
}
