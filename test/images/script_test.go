package images

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/node"
	"github.com/mqd-broker/mqd/test/history"
)

// maxBatch is the largest batch in bytes.
const maxBatch = 32 << 10

// script runs a workload. Its methods panic with a failure, which ends it.
type script struct {
	*machine
	l        *ledger
	x        *examiner
	starting bool
	pending  int // batches without an answer
	streams  uint32
	sender   uint32 // new with each life
}

// failure is why a script cannot go on.
type failure struct{ err error }

func (s *script) must(err error) {
	if err == nil {
		err = s.x.err
	}
	if err != nil {
		panic(failure{err})
	}
}

// run runs a workload in a machine and returns what was done, and the first objection.
func run(of *workload, seed uint64, b bounds, h harm) (fig figures, err error) {
	l := &ledger{}
	cfg := node.Config{Shards: 1, JournalBytes: ringBytes, MaxMessageBytes: maxBatch, CacheBytes: 1<<20 + 2*maxBatch}
	s := &script{l: l, x: newExaminer(l, cfg, seed, b)}
	latency := sim.DefaultLatency
	latency.Net = sim.Range{Min: 1, Max: 2} // an early acknowledgement is heard early
	w := sim.New(sim.Options{Seed: seed, DSYNC: of.dsync, Latency: latency, Memory: s.x.memory})
	s.machine, err = newMachine(w, cfg, rand.New(rand.NewPCG(seed, 0x736372)), h)
	if err != nil {
		return s.x.fig, err
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			fig, err = s.x.fig, p.err
		default:
			panic(p)
		}
	}()
	of.play(s)
	return s.x.fig, s.x.err
}

// watch has every moment from now on examined, or none.
func (s *script) watch(on bool) {
	s.must(nil)
	if !on {
		s.w.Watch(nil)
		return
	}
	s.w.Watch(func(m *sim.Moment) {
		if s.x.err == nil {
			s.x.moment(m, len(s.l.events), s.x.subsets, 0, nil, s.starting)
		}
	})
}

// stand has the present moment examined: there is something that a later one would
// not tell.
func (s *script) stand() {
	s.w.Stand(func(m *sim.Moment) { s.x.moment(m, len(s.l.events), s.x.subsets, 0, nil, s.starting) })
	s.must(nil)
}

// up starts the node with a number of shards and reads all that there is.
func (s *script) up(shards int) {
	s.cfg.Shards, s.x.cfg.Shards = shards, shards
	s.starting = true
	s.must(s.machine.start())
	s.starting = false
	s.sender++
	for _, tp := range s.l.topics {
		for _, p := range tp.parts {
			p.sent = 0
			if s.deleted(tp) {
				continue
			}
			r, err := s.read(p)
			s.must(err)
			s.l.add(event{kind: evRead, part: p, read: r})
		}
	}
}

func (s *script) deleted(tp *topic) bool {
	for _, e := range s.l.events {
		if e.kind == evDeleting && e.topic == tp {
			return true
		}
	}
	return false
}

// down ends the machine, or its processes, as it is.
func (s *script) down(e end, keep sim.Keep) {
	s.stand()
	if e == endKill {
		s.w.Kill()
	} else {
		s.w.Crash(keep)
	}
	s.link.lost()
	s.n = nil
	for range 100 {
		if _, err := s.link.far.Poll(clientWait); err != nil {
			s.must(err)
		}
	}
	s.l.add(event{kind: evEnded, end: e.apply})
	if e == endKill { // which may tear what is on its way
		s.l.add(event{kind: evEnded, end: endTorn.apply})
	}
	s.starting = true
	s.stand()
}

// stop ends the node in order.
func (s *script) stop() {
	s.settle()
	s.n.Stop()
	s.must(s.until("the orderly end", s.n.Ended))
	s.must(s.n.Close())
	s.link.lost()
	s.n = nil
	s.l.add(event{kind: evEnded, end: (*history.Partition).Stopped})
	s.starting = true
	s.stand()
}

// reached sees to it that a workload does what it is for.
func (s *script) reached(what string, n uint64) {
	if n == 0 {
		s.must(fmt.Errorf("the workload has not come to %s", what))
	}
}

// settle waits until everything has been answered.
func (s *script) settle() {
	s.must(s.until("answers", func() bool { return s.pending == 0 || s.x.err != nil }))
	s.must(nil)
}

// rest lets time pass.
func (s *script) rest(d time.Duration) {
	end := s.w.Now() + int64(d)
	s.must(s.until("time", func() bool { return s.w.Now() >= end || s.x.err != nil }))
	s.must(nil)
}

// create makes a topic; configs are keys and values.
func (s *script) create(name string, partitions int, class history.Class, configs ...string) *topic {
	tp := &topic{name: name, class: class}
	s.l.add(event{kind: evCreating, topic: tp})
	req := wire.TopicCreateRequest{Name: name, Partitions: uint32(partitions)}
	tp.keyed = slices.Contains(configs, "cleanup.policy")
	configs = append(configs, "durability", class.String())
	for i := 0; i < len(configs); i += 2 {
		req.Configs = append(req.Configs, wire.Config{Key: configs[i], Value: configs[i+1]})
	}
	s.admin(func(corr uint32) []byte { return wire.AppendTopicCreateRequest(nil, corr, req) }, func(body []byte) error {
		c, err := wire.DecodeTopicCreateResponse(body)
		if err != nil || c.Code != wire.CodeNone {
			return fmt.Errorf("create %s: %v %s %w", name, c.Code, c.Message, err)
		}
		made := &topic{name: name, id: c.ID, class: class, keyed: tp.keyed}
		for n := range partitions {
			s.streams++
			made.parts = append(made.parts, &part{topic: made, n: int32(n), stream: s.streams})
		}
		tp = made
		s.l.topics = append(s.l.topics, tp)
		s.l.add(event{kind: evCreated, topic: tp, class: class})
		return nil
	})
	return tp
}

// admin sends a request and waits until done has taken its answer.
func (s *script) admin(encode func(corr uint32) []byte, done func(body []byte) error) {
	s.pending++
	s.link.do(encode, func(h *wire.Header, body []byte) {
		s.pending--
		switch {
		case h == nil || h.IsError():
			s.x.err = errors.Join(s.x.err, errors.New("no answer to an admin's request"))
		default:
			s.x.err = errors.Join(s.x.err, done(body))
		}
	})
	s.settle()
}

// result takes the answer to a change of a topic.
func (s *script) result(e event) func(body []byte) error {
	return func(body []byte) error {
		res, err := wire.DecodeTopicResult(body)
		if err != nil || res.Code != wire.CodeNone {
			return fmt.Errorf("topic %s: %v %s %w", e.topic.name, res.Code, res.Message, err)
		}
		s.l.add(e)
		return nil
	}
}

func (s *script) alter(tp *topic, c history.Class) {
	s.stand()
	s.l.add(event{kind: evAltering, topic: tp, class: c})
	req := wire.TopicAlterRequest{Name: tp.name, Configs: []wire.Config{{Key: "durability", Value: c.String()}}}
	s.admin(func(corr uint32) []byte { return wire.AppendTopicAlterRequest(nil, corr, req) },
		s.result(event{kind: evAltered, topic: tp, class: c}))
}

func (s *script) remove(tp *topic) {
	s.stand()
	s.l.add(event{kind: evDeleting, topic: tp})
	s.admin(func(corr uint32) []byte {
		return wire.AppendTopicDeleteRequest(nil, corr, wire.TopicDeleteRequest{Name: tp.name})
	}, s.result(event{kind: evDeleted, topic: tp}))
}

// send sends a batch of n messages of size bytes and does not wait.
func (s *script) send(p *part, n, size int) {
	b := batch.NewBuilder(nil, s.cfg.MaxMessageBytes)
	first := history.Message{Stream: p.stream, Producer: s.sender, Seq: p.sent}
	for i := range n {
		m := first
		m.Seq += uint32(i)
		rec := batch.Record{Value: history.Append(nil, m, size), Timestamp: s.w.Wall() / 1e6}
		if k := p.topic.meaning(m).Key; k > 0 {
			rec.Key = []byte{byte(k)}
		}
		s.must(b.Append(&rec))
		s.l.add(event{kind: evSent, part: p, m: m})
	}
	p.sent += uint32(n)
	s.pending++
	req := wire.ProduceRequest{Topic: p.topic.id, Partition: p.n, Batch: b.Finish(batch.CodecNone)}
	s.link.do(func(corr uint32) []byte { return wire.AppendProduceRequest(nil, corr, &req) },
		func(h *wire.Header, body []byte) {
			s.pending--
			e := event{kind: evUnknown, part: p}
			if h != nil && !h.IsError() {
				a, err := wire.DecodeProduceResponse(body)
				s.x.err = errors.Join(s.x.err, err)
				switch {
				case a.Code == wire.CodeNone:
					e.kind, e.offset, e.class = evAcked, a.BaseOffset, classOf(a.Class)
				case !a.Code.OutcomeUnknown():
					e.kind = evRefused
				}
			}
			for i := range n {
				e.m = first
				e.m.Seq += uint32(i)
				s.l.add(e)
				e.offset++
			}
		})
}
