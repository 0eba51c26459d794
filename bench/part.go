package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench/drive"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/wire"
)

// Slice is one of equal parts of a list, of every Of-th element from Index on. Of 0 is
// nothing.
type Slice struct {
	Index int `json:"index"`
	Of    int `json:"of"`
}

// pick are the numbers, below all, of the slice's elements.
func (s Slice) pick(all int) []int {
	var some []int
	for n := s.Index; s.Of > 0 && n < all; n += s.Of {
		some = append(some, n)
	}
	return some
}

// Part is what one process does of a run: a slice of the connections that produce, and
// one of the partitions that are read.
type Part struct {
	Produce Slice `json:"produce"`
	Consume Slice `json:"consume"`
}

// whole is the part of a process that measures alone.
func whole() Part { return Part{Produce: Slice{Of: 1}, Consume: Slice{Of: 1}} }

// Plan is what a process must know to do its part. It goes from one machine to another
// as JSON.
type Plan struct {
	Target Target `json:"target"`
	Load   Load   `json:"load"`
	Class  uint8  `json:"class"`
	Codec  uint8  `json:"codec"`
	Topic  Topic  `json:"topic"`
	Run    uint32 `json:"run"`
	Part   Part   `json:"part"`
	// Clocks say, for each slice of the connections that produce, what must be added to
	// the intended time in its messages, which is its own clock's, to have the reader's.
	Clocks []int64 `json:"clocks,omitempty"`
}

// load is the whole load of a plan.
func (p *Plan) load() Load {
	l := p.Load
	l.Class, l.Codec = wire.Class(p.Class), batch.Codec(p.Codec)
	if l.Warmup == 0 {
		l.Warmup = -1 // it has its defaults already
	}
	return l
}

// Shared is a run that several processes do together. This one makes the topic, hands out
// the plans and puts together what the others have found.
type Shared struct{ r *run }

// NewShared prepares a run for others.
func NewShared(p Platform, target Target, load Load) (*Shared, error) {
	r, err := newRun(p, target, load, whole())
	if err != nil {
		return nil, err
	}
	if err := r.createTopic(); err != nil {
		return nil, err
	}
	return &Shared{r}, nil
}

// Plan is the plan of a part.
func (s *Shared) Plan(part Part, clocks []int64) Plan {
	r := s.r
	return Plan{Target: r.target, Load: r.load, Class: uint8(r.load.Class), Codec: uint8(r.load.Codec), Topic: r.topic, Run: r.id, Part: part, Clocks: clocks}
}

// Finish deletes the topic and puts together what all parts have found.
func (s *Shared) Finish(found []*Found) (*Result, error) {
	if err := s.r.removeTopic(); err != nil {
		return nil, err
	}
	return assemble(s.r.load, s.r.ends, found), nil
}

// Drop deletes the topic of a run that has failed.
func (s *Shared) Drop() error { return s.r.removeTopic() }

// ClockOf is the clock that a platform's drivers have.
func ClockOf(p Platform) (clock aio.Clock, err error) {
	o := aio.Options{Entries: 16, ArenaBytes: 1 << 16, RecvBuffers: 2, RecvBufferBytes: aio.BlockSize, Files: 1, Helpers: 1}
	err = drive.OnThread(p, NoCPU, o, func(drv aio.Driver) error {
		clock = drv.Clock()
		return nil
	})
	return clock, err
}

// Session is a part of a run under way in this process.
type Session struct {
	r       *run
	workers []*worker
	results chan error
	end     []func()
}

// Join connects for a part of a run.
func Join(ctx context.Context, p Platform, plan Plan) (*Session, error) {
	r, err := newRun(p, plan.Target, plan.load(), plan.Part)
	if err != nil {
		return nil, err
	}
	if len(plan.Topic.Shards) != r.load.Partitions || plan.Topic.Count == 0 || len(plan.Clocks) == 0 && plan.Part.Produce.Of == 0 {
		return nil, fmt.Errorf("%w: a plan with %d partitions for a load of %d, %d clocks", ErrConfig, len(plan.Topic.Shards), r.load.Partitions, len(plan.Clocks))
	}
	r.topic, r.id, r.clocks = plan.Topic, plan.Run, plan.Clocks
	if plan.Part.Produce.Of == 0 {
		r.producing.Add(1) // until Ended
	}
	s := r.launch(ctx)
	if r.failed.Load() {
		close(r.begin)
		return nil, s.join(ctx)
	}
	return s, nil
}

// Begin has the part start at a time of the clock of [ClockOf].
func (s *Session) Begin(at int64) {
	s.r.setTimes(at, s.now())
	close(s.r.begin)
}

// now is the time on the clock that all drivers of a process have.
func (s *Session) now() int64 {
	for _, w := range s.workers {
		if w.loop != nil {
			return w.loop.Clock.Now()
		}
	}
	return 0
}

// Ended tells a part that only reads how many messages each partition has, now that all
// producers have ended: it ends when it has seen them, or nothing more comes.
func (s *Session) Ended(acked []int64) error {
	if len(acked) != s.r.load.Partitions || s.r.part.Produce.Of != 0 || s.r.expected != nil {
		return fmt.Errorf("%w: the ends of %d partitions for a part of %+v that knows of %d", ErrConfig, len(acked), s.r.part, len(s.r.expected))
	}
	s.r.expected = acked
	s.r.finished()
	return nil
}

// Abort ends the part early.
func (s *Session) Abort() { s.r.fail() }

// Wait waits for the end of a part.
func (s *Session) Wait(ctx context.Context) (*Found, error) {
	if err := s.join(ctx); err != nil {
		return nil, err
	}
	return s.r.collect(s.workers), nil
}

// Acked are the acknowledged messages of each partition of a load in what parts have found.
func Acked(load Load, found []*Found) []int64 {
	acked := make([]int64, load.withDefaults().Partitions)
	for _, f := range found {
		for _, ln := range f.Lanes {
			if n := ln.Number % len(acked); n >= 0 {
				acked[n] += ln.Acked
			}
		}
	}
	return acked
}

// launch starts the workers of a part and waits until they are connected, or the run has
// failed.
func (r *run) launch(ctx context.Context) *Session {
	s := &Session{r: r, workers: make([]*worker, r.threads()+r.drains())}
	s.results = make(chan error, len(s.workers))
	stop := context.AfterFunc(ctx, r.fail)
	s.end = append(s.end, func() { stop() }, drive.WithoutGC())
	r.ready.Add(len(s.workers))
	r.producing.Add(int32(len(s.workers)))
	for i := range s.workers {
		s.workers[i] = newWorker(r, i)
		s.workers[i].drain = i >= r.threads()
	}
	for i, pane := range r.load.Live.Begin(len(s.workers)) {
		s.workers[i].pane = pane
	}
	for i, w := range s.workers {
		go func() {
			var up bool
			err := drive.OnThread(r.platform, r.cpu(i), w.driverOptions(), func(drv aio.Driver) error {
				up = true
				return w.main(drv)
			})
			if !up {
				r.fail()
				r.ready.Done()
			}
			s.results <- err
		}()
	}
	r.ready.Wait()
	return s
}

// join waits for the workers.
func (s *Session) join(ctx context.Context) (first error) {
	for range s.workers {
		if err := <-s.results; err != nil && (first == nil || errors.Is(first, errStopped)) {
			first = err
		}
	}
	for _, end := range s.end {
		end()
	}
	if ctx.Err() != nil {
		first = ctx.Err()
	}
	return first
}

// setTimes says when the run begins and ends; now is the time on the same clock.
func (r *run) setTimes(start, now int64) {
	r.start = start
	r.wall = time.Now().Add(time.Duration(start - now)).UnixMilli()
	r.from = r.start + int64(r.load.Warmup)
	r.until = r.from + int64(r.load.Duration)
	if r.failed.Load() {
		r.until = r.start
	}
}
