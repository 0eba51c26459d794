package broker

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/broker/catalog"
)

// mix does a bit of everything on every shard in an order that a seed decides, and
// keeps what must be true at the end.
type mix struct {
	r      *rig
	rng    *rand.Rand
	topics map[string]*catalog.Topic
	admins map[string]*adminWait // a topic with a change under way
	sent   map[conn][]*produced
	polls  []*mixFetch
	lists  []*listed
	serial int
}

// conn is a connection and the partition that it produces to.
type conn struct {
	at        int
	topic     TopicID
	partition int32
}

type mixFetch struct {
	fetched
	at       int
	released bool
}

func (m *mix) topic() *catalog.Topic {
	names := m.r.node.Image().Topics()
	if len(names) == 0 {
		return nil
	}
	return names[m.rng.IntN(len(names))]
}

func (m *mix) produce() {
	topic := m.topic()
	if topic == nil {
		return
	}
	c := conn{m.rng.IntN(len(m.r.shards)), topic.ID, m.rng.Int32N(int32(topic.Partitions))}
	for range 1 + m.rng.IntN(8) {
		n, size := 1+m.rng.IntN(5), 20+m.rng.IntN(2000)
		if m.rng.IntN(4) == 0 {
			m.sent[c] = append(m.sent[c], m.r.beginPlain(c.at, c.topic, c.partition, plainBatch(m.r.t, n, size)))
		} else {
			m.sent[c] = append(m.sent[c], m.r.begin(c.at, c.topic, c.partition, testBatch(m.r.t, n, size)))
		}
	}
}

func (m *mix) fetch() {
	topic := m.topic()
	if topic == nil {
		return
	}
	f := &mixFetch{at: m.rng.IntN(len(m.r.shards))}
	f.Topic, f.Partition, f.Offset = topic.ID, m.rng.Int32N(int32(topic.Partitions)), m.rng.Int64N(60)
	f.MinBytes, f.MaxWait = m.rng.IntN(3000), m.rng.Int64N(int64(5*time.Millisecond))
	m.polls = append(m.polls, f)
	m.r.beginFetch(f.at, &f.fetched)
}

// settle cancels or releases a fetch.
func (m *mix) settle() {
	if len(m.polls) == 0 {
		return
	}
	f := m.polls[m.rng.IntN(len(m.polls))]
	switch {
	case f.released:
	case f.done > 0:
		m.r.shards[f.at].Release(&f.Fetch)
		f.released = true
	default:
		m.r.shards[f.at].CancelFetch(&f.Fetch)
	}
}

func (m *mix) admin() {
	at := m.rng.IntN(len(m.r.shards))
	a := &Admin{Kind: []AdminKind{CreateTopic, AlterTopic, DeleteTopic, DescribeTopic, AddPartitions}[m.rng.IntN(5)], Name: fmt.Sprint("t", m.rng.IntN(4))}
	switch a.Kind {
	case CreateTopic:
		a.Partitions = 1 + m.rng.Uint32N(6)
		a.Settings = []catalog.Setting{class([]string{"memory", "written", "flushed"}[m.rng.IntN(3)])}
	case AddPartitions:
		a.Partitions = 1 + m.rng.Uint32N(9)
	case AlterTopic:
		a.Settings = []catalog.Setting{class("flushed"), {Key: "max.message.bytes", Value: fmt.Sprint(8000 + m.rng.IntN(9000))}}
	}
	m.serial++
	m.admins[fmt.Sprint(m.serial)] = m.r.beginAdmin(at, a)
}

func (m *mix) list() {
	if topic := m.topic(); topic != nil {
		l := &listed{}
		l.Topic, l.Partition, l.Time, l.Owner = topic.ID, m.rng.Int32N(int32(topic.Partitions)), m.rng.Int64N(5000)-2, l
		m.lists = append(m.lists, l)
		m.r.shards[m.rng.IntN(len(m.r.shards))].ListOffsets(&l.ListOffsets)
	}
}

// act does one thing, then turns some shards and not others.
func (m *mix) act() {
	switch n := m.rng.IntN(100); {
	case n < 45:
		m.produce()
	case n < 65:
		m.fetch()
	case n < 85:
		m.settle()
	case n < 92:
		m.list()
	case n < 97:
		m.admin()
	default:
		m.r.turn()
	}
	for range m.rng.IntN(4) {
		if _, err := m.r.shards[m.rng.IntN(len(m.r.shards))].loop.Turn(); err != nil {
			m.r.t.Fatal(err)
		}
	}
}

// answered reports whether everything has been.
func (m *mix) answered() bool {
	for _, list := range m.sent {
		for _, p := range list {
			if p.done == 0 {
				return false
			}
		}
	}
	for _, f := range m.polls {
		if f.done == 0 {
			return false
		}
	}
	for _, w := range m.admins {
		if w.done == 0 {
			return false
		}
	}
	for _, l := range m.lists {
		if l.done == 0 {
			return false
		}
	}
	return true
}

// check looks at everything at the end.
func (m *mix) check() {
	t := m.r.t
	for c, list := range m.sent {
		last := int64(-1)
		for i, p := range list {
			switch {
			case p.done != 1:
				t.Fatalf("%v: produce %d was answered %d times", c, i, p.done)
			case p.Code == OK && p.Base <= last:
				t.Fatalf("%v: produce %d lies at %d, an earlier one at %d", c, i, p.Base, last)
			case p.Code == OK:
				last = p.Base
			case p.Code != UnknownTopic && p.Code != Busy && p.Code != BatchTooLarge:
				t.Fatalf("%v: produce %d: %v %q", c, i, p.Code, p.Message)
			}
		}
	}
	for _, w := range m.admins {
		if w.done != 1 {
			t.Fatalf("a change was answered %d times", w.done)
		}
	}
	for _, f := range m.polls {
		if f.done != 1 {
			t.Fatalf("a fetch was answered %d times", f.done)
		}
		if !f.released {
			m.r.shards[f.at].Release(&f.Fetch)
		}
	}
	m.r.mustBeHome()
	for c, list := range m.sent {
		if m.r.node.Image().ByID(c.topic) == nil {
			continue
		}
		stored := m.r.readAll(c.at, c.topic, c.partition)
		for _, p := range list {
			if _, ok := stored[p.Base]; p.Code == OK && !ok {
				t.Fatalf("%v: what was acknowledged at %d is not there", c, p.Base)
			}
		}
	}
	m.r.mustBeHome()
}

func TestAMixOfEverythingIsAnsweredOnceAndComesHome(t *testing.T) {
	seed := seedOf(t)
	for i := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed+i, 0))
		o := rigOptions{
			seed: seed + i, shards: 1 + rng.IntN(3), credits: 2 << rng.IntN(6), chunks: 8 << 20, journal: 2 << 20,
			broker: Options{
				PlainBytes: 1, SnapshotEvery: 1 + rng.IntN(5), PinnedBytes: 1 << (10 + rng.IntN(10)),
				ProduceTimeout: 2 * time.Second, MaxFetches: 20 + rng.IntN(100),
			},
		}
		m := &mix{r: newRig(t, o), rng: rng, admins: map[string]*adminWait{}, sent: map[conn][]*produced{}}
		for n := range 3 {
			m.r.create(fmt.Sprint("t", n), 1+rng.Uint32N(6))
		}
		for range 400 {
			m.act()
		}
		// Answers that are held keep others waiting.
		m.r.until("answers", func() bool {
			for _, f := range m.polls {
				if f.done > 0 && !f.released {
					m.r.shards[f.at].Release(&f.Fetch)
					f.released = true
				}
			}
			return m.answered()
		})
		m.check()
	}
}
