package history

import "testing"

// What moves a log start, and what must not.
func TestALogStartMovesForAReason(t *testing.T) {
	const now, age = 1000, 100
	for _, c := range []struct {
		name string
		set  func(p *Partition)
		at   int64
		want Kind // 0 for none
	}{
		{"nobody wants it", func(*Partition) {}, 10, Expired},
		{"old", func(p *Partition) { p.MayAge(age) }, 20, 0},
		{"too young", func(p *Partition) { p.MayAge(age) }, 30, Expired},
		{"enough is left", func(p *Partition) { p.MayOutgrow(100) }, 20, 0},
		{"too little is left", func(p *Partition) { p.MayOutgrow(101) }, 20, Expired},
		{"asked for", func(p *Partition) { p.MayDelete(30) }, 30, 0},
		{"further than asked for", func(p *Partition) { p.MayDelete(20) }, 30, Expired},
		{"back", func(p *Partition) { p.MayDelete(30); p.Started(0, 20, now) }, 10, WentBack},
	} {
		p := New(1, Flushed)
		c.set(p)
		for i, time := range []int64{800, 900, 950} {
			p.SentBytes(100)
			p.Appended(int64(i)*10, 10, 100, time, now, Flushed)
		}
		p.Started(p.Start(), c.at, now)
		v := p.Violations()
		if c.want == 0 && len(v) > 0 || c.want != 0 && (len(v) != 1 || v[0].Kind != c.want) {
			t.Errorf("%s: %v, expected %v", c.name, v, c.want)
		}
		if kept := p.Kept(); c.want == 0 && kept != 300-10*c.at {
			t.Errorf("%s: %d bytes are kept", c.name, kept)
		}
	}
}

func TestTimesOfAppendsNeverFall(t *testing.T) {
	for _, c := range []struct {
		name   string
		time   int64
		offset int64
		class  Class
		crash  bool
		broken bool
	}{
		{"in order", 150, 10, Flushed, false, false},
		{"before the one below", 99, 10, Flushed, false, true},
		{"behind the one above", 201, 10, Flushed, false, true},
		{"of the future", 301, 30, Flushed, false, true},
		{"before one that a crash has taken", 99, 10, Memory, true, false},
		{"before one of memory in the same life", 99, 10, Memory, false, true},
	} {
		p := New(1, c.class)
		p.Appended(0, 10, 1, 100, 300, c.class)
		if c.crash {
			p.PowerCut()
		} else {
			p.Appended(20, 10, 1, 200, 300, c.class)
		}
		p.Appended(c.offset, 10, 1, c.time, 300, c.class)
		if v := p.Violations(); (len(v) > 0) != c.broken || c.broken && v[0].Kind != Disordered {
			t.Errorf("%s: %v", c.name, v)
		}
	}
}

// A log that was cut off is judged from its new start on, and so is who follows it.
func TestWhatIsBelowTheLogStartIsNotMissed(t *testing.T) {
	p := New(1, Flushed)
	value := func(seq uint32) []byte { return Append(nil, Message{1, 1, seq}, MinSize) }
	for i := range uint32(4) {
		p.Sent(Message{1, 1, i})
		p.Acked(Message{1, 1, i}, int64(i))
	}
	tail := p.Tail(0)
	tail.Record(0, value(0))
	p.MayDelete(2)
	p.Started(0, 2, 0)
	s := p.Scan(4, 2, 4)
	s.Record(2, value(2))
	p.MayDelete(3)
	p.Started(2, 3, 0)
	s.Trimmed(3)
	s.Record(3, value(3))
	s.Done()
	tail.Trimmed(3)
	tail.Record(3, value(3))
	if v := p.Violations(); len(v) > 0 {
		t.Fatal(v)
	}
	s = p.Scan(4, 3, 4)
	s.Done()
	if v := p.Violations(); len(v) == 0 {
		t.Fatal("what is above the log start is missing, and nobody has noticed")
	}
}
