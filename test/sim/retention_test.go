package sim

import (
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

const (
	// aDecade and anHour are how far the clock of the machine jumps.
	aDecade = 10 * 365 * 24 * time.Hour
	anHour  = time.Hour
	// retentionPause is how often a node looks for what has become too old or too large.
	retentionPause = 10 * time.Millisecond
	// dozeWait is how long clients wait in a turn while they ask for nothing.
	dozeWait = 20 * time.Millisecond
	// leastSegment is the size of a segment of topics that keep little.
	leastSegment = 16 << 10
)

// clockNow is the most that the broker's clock can show: within a life it goes on evenly,
// and a start takes the calendar's time unless the log is ahead of that.
func (r *run) clockNow() int64 { return r.w.Now() + r.ahead }

// setClock notes that a start is about to look at the calendar.
func (r *run) setClock() { r.ahead = max(r.ahead, r.w.Wall()-r.w.Now()) }

// jump moves the calendar.
func (r *run) jump(by time.Duration) {
	r.note("the clock jumps by %v", by)
	r.w.JumpWall(by)
	r.jumped = true
}

// keeping is what a topic wants to keep.
type keeping struct {
	age     time.Duration // 0: for ever
	bytes   int64         // -1: all
	segment int64         // size of a segment
	stamped bool          // timestamps are the broker's
	certain bool          // the age is in force
}

// drawKeeping draws what a new topic keeps.
func (r *run) drawKeeping(segment int64) keeping {
	k := keeping{bytes: -1, segment: segment, certain: true, stamped: r.rng.IntN(4) == 0}
	switch r.rng.IntN(6) {
	case 0:
		k.age, k.segment = r.drawAge(), leastSegment
	case 1:
		k.bytes, k.segment = int64(leastSegment+r.rng.IntN(128<<10)), leastSegment
	case 2:
		k.age, k.bytes = r.drawAge(), int64(32<<10+r.rng.IntN(256<<10))
	}
	return k
}

func (r *run) drawAge() time.Duration {
	return []time.Duration{time.Second, time.Second, 2 * time.Second}[r.rng.IntN(3)]
}

// settings are those by which a topic is created.
func (k *keeping) settings() []wire.Config {
	list := []wire.Config{{Key: "segment.bytes", Value: fmt.Sprint(k.segment)}}
	if k.age > 0 {
		list = append(list, wire.Config{Key: "retention.ms", Value: fmt.Sprint(k.age.Milliseconds())})
	}
	if k.bytes >= 0 {
		list = append(list, wire.Config{Key: "retention.bytes", Value: fmt.Sprint(k.bytes)})
	}
	if k.stamped {
		list = append(list, wire.Config{Key: "message.timestamp.type", Value: "LogAppendTime"})
	}
	return list
}

// tell tells the history of a partition what may go.
func (k *keeping) tell(p *history.Partition) {
	if k.age > 0 {
		p.MayAge(int64(k.age))
	}
	if k.bytes >= 0 {
		p.MayOutgrow(k.bytes)
	}
}

// age gives a topic a shorter life, or a segment that is closed by its age.
func (a *admin) age(tp *topic) {
	r := a.r
	k := keeping{age: r.drawAge(), bytes: -1}
	config := wire.Config{Key: "retention.ms", Value: fmt.Sprint(k.age.Milliseconds())}
	if r.rng.IntN(3) == 0 {
		k.age, config = 0, wire.Config{Key: "segment.ms", Value: "1000"}
	}
	for _, p := range tp.parts {
		if !tp.compacts.keeps {
			k.tell(p.p)
		}
	}
	if k.age > 0 && !tp.compacts.keeps {
		tp.keeps.certain = false
	}
	a.set(tp, config, func(done bool) {
		if done && k.age > 0 && !tp.compacts.keeps {
			tp.keeps.age, tp.keeps.certain = k.age, true
			r.cover(sawShorterLife)
		}
	}, nil)
}

// trim deletes records of a partition, up to where it can be read or to somewhere before.
func (a *admin) trim(tp *topic) {
	r := a.r
	p := tp.parts[r.rng.IntN(len(tp.parts))]
	to := p.durable
	if r.rng.IntN(3) > 0 {
		to = int64(r.rng.Uint64N(uint64(to) + 1))
	}
	least, life := p.p.Start(), r.lives
	p.p.MayDelete(to)
	req := wire.TopicTrimRequest{Topic: tp.id, Partition: p.n, Offset: to}
	a.ask(func(dst []byte, corr uint32) []byte { return wire.AppendTopicTrimRequest(dst, corr, req) },
		func(_ wire.Header, body []byte) {
			t, err := wire.DecodeTopicTrimResponse(body)
			switch {
			case err != nil:
				r.failf("trim of %v: %v", p, err)
			case tp.going || life != r.lives:
			case t.Code != wire.CodeNone:
				r.refused(t.Code, t.Message)
			case t.LogStart < to:
				r.failf("%v: trimmed to %d, the log starts at %d", p, to, t.LogStart)
			default:
				r.startsAt(p, least, t.LogStart)
				r.cover(sawTrim)
			}
		}, nil)
}

// startsAt notes where a log starts, as it was told to who knew of least.
func (r *run) startsAt(p *part, least, at int64) {
	if r.rotten {
		p.p.StartedAgain(at)
		return
	}
	before := p.p.Counts()
	p.p.Started(least, at, r.clockNow())
	now := p.p.Counts()
	for _, c := range []struct {
		more bool
		s    state
	}{{now.Aged > before.Aged, sawAged}, {now.Outgrown > before.Outgrown, sawOutgrown}, {now.Aged > before.Aged && r.jumped, sawAgedAfterJump}} {
		if c.more {
			r.cover(c.s)
		}
	}
}

// doze lets time pass in which clients ask for nothing, so that something becomes old.
func (r *run) doze() {
	if r.sparse || r.rng.IntN(4) > 0 {
		return
	}
	r.sleep(time.Duration(r.rng.Int64N(int64(2500 * time.Millisecond))))
}

func (r *run) sleep(d time.Duration) {
	loading := r.loading
	r.loading, r.wait = false, dozeWait
	end := r.w.Now() + int64(d)
	r.until("a time without requests", func() bool { return r.w.Now() >= end })
	r.loading, r.wait = loading, clientWait
}

// expire waits until no topic has anything left that is older than it keeps, but for its
// newest segment: whatever the clock of the machine has done, everything goes in the end.
func (r *run) expire() {
	for _, tp := range r.alive() {
		if tp.keeps.age == 0 || !tp.keeps.certain {
			continue
		}
		for _, p := range tp.parts {
			most := max(tp.keeps.segment, int64(r.largest))
			for n := 0; r.n != nil && p.p.Kept() > most; n++ {
				if n > 400 {
					r.failf("%v: %d bytes older than %v stay, at most %d can be in the newest segment", p, p.p.Kept(), tp.keeps.age, most)
				}
				if n > 0 {
					r.cover(sawExpired)
					r.sleep(20 * time.Millisecond)
				}
				if _, _, err := r.bounds(p); err != nil {
					return // the life has ended
				}
			}
		}
	}
}

// bounds asks where a partition starts and ends.
func (r *run) bounds(p *part) (start, end int64, err error) {
	least := p.p.Start()
	var bounds [2]int64
	for i, time := range []int64{wire.TimeStart, wire.TimeEnd} {
		body, err := r.call(func(dst []byte, corr uint32) []byte {
			return wire.AppendListOffsetsRequest(dst, corr, wire.ListOffsetsRequest{Topic: p.topic.id, Partition: p.n, Time: time})
		})
		if err != nil {
			return 0, 0, fmt.Errorf("bounds: %w", err)
		}
		o, err := wire.DecodeListOffsetsResponse(body)
		if err != nil || o.Code != wire.CodeNone {
			return 0, 0, fmt.Errorf("bounds: %v %w", o.Code, err)
		}
		bounds[i] = o.Offset
	}
	r.startsAt(p, least, bounds[0])
	return bounds[0], bounds[1], nil
}

// trimmedError: a reading has come to where the log has been cut off meanwhile.
type trimmedError struct{ start int64 }

func (e *trimmedError) Error() string { return fmt.Sprintf("the log starts at %d now", e.start) }
