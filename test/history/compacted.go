package history

import "time"

// Meaning is what a message says to compaction.
type Meaning struct {
	Key     uint32 // 0: it has none
	Deletes bool   // it has no value
}

// keys is what is known of a partition whose messages have keys.
type keys struct {
	of    func(Message) Meaning
	may   bool            // it is compacted, or was
	lag   int64           // how long a message stays at least, nanoseconds
	stay  int64           // how long one that deletes stays, nanoseconds
	times map[int64]int64 // of appends, by offset
}

// Keyed says what the messages of a partition mean. Without it they have no keys.
func (p *Partition) Keyed(of func(Message) Meaning) {
	if p.keys.of == nil {
		p.keys.of, p.keys.times = of, map[int64]int64{}
	}
}

// MayCompact says that messages of which a later one has the key may go, lag nanoseconds
// after their append, and those that delete their key, stay nanoseconds after theirs. It
// holds from when that is asked for, and for good: the shortest counts.
func (p *Partition) MayCompact(lag, stay int64) {
	k := &p.keys
	if !k.may || lag < k.lag {
		k.lag = lag
	}
	if !k.may || stay < k.stay {
		k.stay = stay
	}
	k.may = true
}

// appended notes when messages were appended.
func (k *keys) appended(base int64, n int, time int64) {
	if k.of == nil {
		return
	}
	for i := range n {
		k.times[base+int64(i)] = time
	}
}

// old reports whether a message may have been appended so long ago.
func (k *keys) old(offset, age, now int64) bool {
	at, known := k.times[offset]
	return !known || age == 0 || now-at >= age-int64(time.Millisecond) // the broker counts in milliseconds
}

// Gone says that a batch stands for the offsets from from up to to, and has no messages
// there.
func (s *Scan) Gone(from, to int64) {
	to = min(to, s.end)
	switch {
	case from >= s.end:
	case from != s.next || to < from:
		s.p.violate(Reordered, "nothing at %d to %d where offset %d comes next", from, to, s.next)
	case !s.p.keys.may:
		s.p.violate(Gap, "offsets %d to %d have gone from their batch, and nobody wants that", from, to-1)
	default:
		s.next = to
	}
}

// compacted marks what the reading has not found because of what it has found, from the end
// to the start. What it marks is judged again in each reading: what stands behind it has to
// stay. And nothing may be left before a deletion that has gone because of its time.
func (s *Scan) compacted(now int64) {
	p := s.p
	if !p.keys.may {
		return
	}
	type place struct {
		offset int64
		e      *entry
	}
	var places []place
	p.log.below(max(s.end, s.least), func(offset int64, e *entry) {
		if offset >= s.start {
			places = append(places, place{offset, e})
		}
	})
	open, later, dropped := p.deletions(), map[uint32]bool{}, map[uint32]int64{}
	for i := len(places) - 1; i >= 0; i-- {
		offset, e := places[i].offset, places[i].e
		m := p.keys.of(Message{p.stream, e.producer, e.seq})
		was := e.flags&isCompacted != 0
		switch {
		case m.Key == 0 || e.scan != s.number && e.flags&isTaken != 0:
		case e.scan == s.number:
			if by, ok := dropped[m.Key]; ok {
				p.violate(CameBack, "offset %d is there, its key was deleted at offset %d, which has gone", offset, by)
			}
			later[m.Key] = true
		case later[m.Key] && p.keys.old(offset, p.keys.lag, now):
			if e.flags |= isCompacted; !was {
				p.counts.Compacted++
			}
		case m.Deletes && p.keys.old(offset, p.keys.stay, now), open[m.Key] >= e.life:
			if e.flags |= isCompacted; !was {
				p.counts.Dropped++
			}
			if later[m.Key] = true; e.flags&isKept != 0 || !p.lossy(e.life, p.life()) {
				dropped[m.Key] = offset // no end of a life has taken it
			}
		default:
			e.flags &^= isCompacted
		}
	}
}

// deletions are the keys that messages delete of which nobody knows whether they are, or
// were, in the log, each with the newest life in which one can have been appended.
func (p *Partition) deletions() map[uint32]uint32 {
	open := map[uint32]uint32{}
	for producer, s := range p.senders {
		for seq, at := range s.offsets {
			if at != nowhere || s.outcomes[seq] == refused || s.outcomes[seq] == acked {
				continue
			}
			life := s.lives[seq]
			if s.outcomes[seq] == pending {
				life = p.life() // it is sent again and again
			}
			if m := p.keys.of(Message{p.stream, producer, uint32(seq)}); m.Deletes {
				open[m.Key] = max(open[m.Key], life)
			}
		}
	}
	return open
}
