package lane

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/client/internal/memory"
	"github.com/mqd-broker/mqd/net/wire"
)

// Window is how many batches of an idempotent producer a broker knows in each partition.
const Window = 5

// The pause before batches are sent again that the broker has refused for the moment.
const (
	resendMin = 10 * time.Millisecond
	resendMax = time.Second
)

// sequence makes the batches of a lane idempotent, under the lane's lock: it numbers
// them, and sends them again until the broker has answered for good.
//
// The broker takes a batch only behind the one before. So when one is lost with its
// connection, or refused for the moment, everything behind it on the way is refused as
// well. Nothing new is sent then; when no answer is to come any more, all that are
// unanswered go again, in order and with the same numbers, and the broker answers those
// that it has with the offsets that they have.
//
// A batch that is refused for good leaves a hole that nothing can follow. The batches
// behind it, none of which can be there, get the next epoch, which begins at 0. They wait
// until those of the epoch before have been answered, which it ends.
type sequence struct {
	on      bool
	id      int64
	epoch   int16
	next    int32         // number of the next record
	flight  []*Batch      // handed to a link and not answered for good, in order
	busy    int           // answers and completions of writes that are to come
	again   bool          // the flight has to be sent again when there are none
	attempt int           // refusals one after another
	why     wire.Code     // of the last one
	pause   time.Duration // that has begun and was not told yet
	resting bool          // before the next attempt
	ended   bool          // nothing is sent again any more
}

// place is where a batch stands among those of its producer.
type place struct {
	epoch    int16
	sequence int32
}

// number gives a batch its place.
func (s *sequence) number(b *Batch) {
	b.place = place{s.epoch, s.next}
	s.next = (s.next + b.count) & math.MaxInt32
}

// handOver hands a batch to a link, which writes it with the place that it has now.
func (s *sequence) handOver(l *link.Link, b *Batch) bool {
	b.restamp = b.pack.Frame != nil && b.place != b.coded
	b.coded = b.place
	if !l.Enqueue(b) {
		return false
	}
	b.out, b.writing = true, true
	s.busy += 2
	return true
}

// drop takes a batch out of the flight. Without it those behind it have a hole before
// them, unless it is there.
func (s *sequence) drop(b *Batch, there bool) {
	i := slices.Index(s.flight, b)
	s.flight = slices.Delete(s.flight, i, i+1)
	if there || s.epoch == math.MaxInt16 {
		return
	}
	s.epoch++
	s.next = 0
	for _, o := range s.flight[i:] {
		s.number(o)
	}
	s.again = len(s.flight) > 0
}

// written notes that a batch's frame is not needed for the present attempt any more.
func (ln *Lane) written(b *Batch) {
	ln.mu.Lock()
	ln.seq.busy--
	b.writing, b.wasSent = false, true
	if b.final {
		b.release()
	}
	kick := ln.resend()
	ln.unlock()
	if kick != nil {
		kick.Kick()
	}
}

// answered takes the broker's answer to a batch. It reports true when the batch will be
// sent again, so that it has no outcome yet.
func (ln *Lane) answered(cur *link.Link, b *Batch, code wire.Code) bool {
	ln.mu.Lock()
	s := &ln.seq
	s.busy--
	b.out = false
	behind := code == wire.CodeOutOfOrderSequence && (s.again || s.flight[0] != b)
	repeat := (code.Retriable() || behind) && !s.ended
	switch {
	case repeat:
		s.again = true
		if code.Retriable() {
			s.attempt++
			s.why = code
		}
	default:
		s.attempt = 0
		s.drop(b, code == wire.CodeNone || code == wire.CodeDuplicateSequence)
		b.end()
	}
	kick := ln.resend()
	ln.unlock()
	if kick != nil && kick != cur {
		kick.Kick()
	}
	return repeat
}

// failed takes a batch back that a link could not bring to an end. It reports whether the
// batch will be sent again, and whether the broker may have it.
func (ln *Lane) failed(b *Batch, err error, sent bool) (repeat, maybe bool) {
	ln.mu.Lock()
	s := &ln.seq
	if s.busy--; !sent {
		s.busy--
	}
	b.out, b.writing = false, false
	repeat = errors.Is(err, link.ErrDisconnected) && !s.ended
	if repeat {
		s.again = true
		for _, o := range s.flight { // they would come before this one
			if o.writing && ln.link.Withdraw(o) {
				o.out, o.writing = false, false
				s.busy -= 2
			}
		}
	} else {
		s.drop(b, false)
		b.end()
	}
	kick := ln.resend()
	ln.unlock()
	if kick != nil {
		kick.Kick()
	}
	return repeat, sent || b.wasSent
}

// end gives the memory of a batch back that is not sent again, now or when it has been
// written. The lane's lock is held.
func (b *Batch) end() {
	if b.final = b.writing; !b.writing {
		b.release()
	}
}

// resend sends the flight again, if it has to be and nothing is on the way any more. Of two
// epochs the older goes first, alone. It returns the link if that has work. The lock is
// held.
func (ln *Lane) resend() *link.Link {
	s := &ln.seq
	if !s.again || s.busy > 0 || s.resting || s.ended {
		return nil
	}
	if s.attempt > 0 {
		s.resting, s.pause = true, link.Backoff(resendMin, resendMax, s.attempt-1)
		time.AfterFunc(s.pause, ln.rested)
		return nil
	}
	if ln.next != nil {
		ln.link, ln.next = ln.next, nil
	}
	n := 0
	for n < len(s.flight) && s.flight[n].place.epoch == s.flight[0].place.epoch {
		if !s.handOver(ln.link, s.flight[n]) {
			ln.giveUp(link.ErrClosed)
			return nil
		}
		n++
	}
	if s.again = n < len(s.flight); !s.again && n == 0 {
		return ln.dispatch(SendDue)
	}
	return ln.link
}

// rested ends the pause before another attempt.
func (ln *Lane) rested() {
	ln.mu.Lock()
	attempt := ln.seq.attempt
	ln.seq.resting, ln.seq.attempt = false, 0
	kick := ln.resend()
	ln.seq.attempt = attempt
	ln.unlock()
	if kick != nil {
		kick.Kick()
	}
}

// giveUp sends nothing again: what waits for that has an outcome now. What is on its way
// gets it from its answer. The lock is held.
func (ln *Lane) giveUp(err error) {
	s := &ln.seq
	s.ended = true
	s.flight = slices.DeleteFunc(s.flight, func(b *Batch) bool {
		if b.out {
			return false
		}
		b.end()
		b.outcome = Outcome{Base: -1, Err: ln.p.Host.Failed(ln.partition, err, b.wasSent)}
		ln.unsent = append(ln.unsent, b)
		ln.inflight--
		return true
	})
}

// stampPlace gives a frame that has been encoded before the place of the attempt to come.
func (b *Batch) stampPlace(frame []byte) {
	if b.restamp {
		batch.StampProducer(frame[memory.Room:], b.lane.seq.id, b.coded.epoch, b.coded.sequence)
	}
}
