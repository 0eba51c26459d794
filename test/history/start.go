package history

import "slices"

// start is what is known of the beginning of a log: where it is, what may move it, and the
// batches that it may pass.
type start struct {
	at      int64 // highest that was told
	asked   int64 // somebody wants it there
	age     int64 // shortest age at which messages may go, nanoseconds; 0 for none
	bytes   int64 // least that is to stay; -1 for everything
	sent    int64 // bytes of all batches that were sent
	passed  int64 // bytes of the batches known to be below it
	batches []stored
}

// stored is a batch that was acknowledged.
type stored struct {
	base, end   int64
	bytes, time int64
	life        uint32
	class       Class
}

// MayAge says that messages may go when they were appended so many nanoseconds ago. It
// holds from when that is asked for, and for good: the shortest counts.
func (p *Partition) MayAge(age int64) {
	if p.start.age == 0 || age < p.start.age {
		p.start.age = age
	}
}

// MayOutgrow says that the oldest messages may go while so many bytes are left.
func (p *Partition) MayOutgrow(bytes int64) {
	if p.start.bytes < 0 || bytes < p.start.bytes {
		p.start.bytes = bytes
	}
}

// MayDelete says that somebody asks for the log to begin at an offset.
func (p *Partition) MayDelete(offset int64) { p.start.asked = max(p.start.asked, offset) }

// SentBytes says that a batch of so many bytes was given to a client.
func (p *Partition) SentBytes(n int) { p.start.sent += int64(n) }

// Appended says that a batch of n messages was acknowledged at an offset, with the broker's
// time of its append, in nanoseconds. now is the most that the broker's clock can show.
func (p *Partition) Appended(base int64, n, bytes int, time, now int64, c Class) {
	p.keys.appended(base, n, time)
	b := stored{base: base, end: base + int64(n), bytes: int64(bytes), time: time, life: p.life(), class: c}
	if time > now {
		p.violate(Disordered, "offset %d was appended at %d, and it is %d at most", base, time, now)
	}
	if b.base < p.start.at {
		p.pass(&b, now)
		return
	}
	list := p.start.batches
	i := len(list)
	for i > 0 && list[i-1].base > base {
		i--
	}
	if i > 0 && p.stands(&list[i-1]) && list[i-1].time > time {
		p.violate(Disordered, "offset %d was appended at %d, and offset %d before at %d", base, time, list[i-1].base, list[i-1].time)
	}
	if i < len(list) && list[i].time < time {
		p.violate(Disordered, "offset %d was appended at %d, and offset %d behind at %d", base, time, list[i].base, list[i].time)
	}
	p.start.batches = slices.Insert(list, i, b)
}

// stands reports whether no end of a life can have taken a batch.
func (p *Partition) stands(b *stored) bool {
	for l := b.life; l < p.life(); l++ {
		if p.ends[l-1].takes(b.class) {
			return false
		}
	}
	return true
}

// Start is the highest start of the log that the broker has told. Ask for it before the
// broker, and give it to [Partition.Started].
func (p *Partition) Start() int64 { return p.start.at }

// Started says what the broker gave as the start of the log, when least was known. now is
// the most that the broker's clock can show.
func (p *Partition) Started(least, at, now int64) {
	if at < least {
		p.violate(WentBack, "the log starts at %d, and started at %d", at, least)
	}
	s := &p.start
	if at <= s.at {
		return
	}
	s.at = at
	n := 0
	for n < len(s.batches) && s.batches[n].base < at {
		s.passed += s.batches[n].bytes
		n++
	}
	newest := n - 1
	for newest >= 0 && !p.stands(&s.batches[newest]) {
		newest--
	}
	switch {
	case at <= s.asked:
		p.counts.Deleted++
	case newest >= 0:
		p.judgeStart(&s.batches[newest], now)
	}
	s.batches = slices.Delete(s.batches, 0, n)
}

// StartedAgain sets the start of the log without judging it: damage may have taken what was
// known of it.
func (p *Partition) StartedAgain(at int64) { p.start.at = at }

// pass notes that a batch is below the log start.
func (p *Partition) pass(b *stored, now int64) {
	p.start.passed += b.bytes
	if b.base >= p.start.asked {
		p.judgeStart(b, now)
	}
}

// judgeStart asks why the newest batch below the log start is gone.
func (p *Partition) judgeStart(b *stored, now int64) {
	s := &p.start
	switch left := s.sent - s.passed; {
	case b.base < s.asked:
		p.counts.Deleted++
	case s.age > 0 && now-b.time >= s.age:
		p.counts.Aged++
	case s.bytes >= 0 && left >= s.bytes:
		p.counts.Outgrown++
	default:
		p.violate(Expired, "the log starts at %d: offset %d is gone %d ns after its append, and at most %d bytes are left; kept are %d ns (0: for ever) and %d bytes (-1: all)",
			s.at, b.base, now-b.time, left, s.age, s.bytes)
	}
}

// Kept is how many bytes of batches that were acknowledged, and that no end of a life can
// have taken, are not below the log start.
func (p *Partition) Kept() (bytes int64) {
	for i := range p.start.batches {
		if b := &p.start.batches[i]; p.stands(b) {
			bytes += b.bytes
		}
	}
	return bytes
}
