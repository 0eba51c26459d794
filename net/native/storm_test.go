package native_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/native"
	"github.com/mqd-broker/mqd/net/wire"
)

const stormPartitions = 6

// storm lets clients produce, fetch, move, vanish and sleep in random order.
type storm struct {
	r      *rig
	id     wire.TopicID
	honest []*stormClient
	rand   func(n int) int
	n      uint64 // batches sent
}

// stormClient is a client that keeps the rules.
type stormClient struct {
	*client
	sent []sentBatch
	poll []uint32
}

type sentBatch struct {
	corr      uint32
	partition int32
	batch     []byte
}

// batch makes a batch that no other equals.
func (s *storm) batch() []byte {
	s.n++
	v := binary.BigEndian.AppendUint64(make([]byte, s.rand(1<<s.rand(15))), s.n)
	return records(0, v)
}

func (s *storm) produce(c *stormClient) {
	b, p := s.batch(), int32(s.rand(stormPartitions))
	corr := c.beginProduce(wire.ProduceRequest{Topic: s.id, Partition: p, Batch: b})
	c.sent = append(c.sent, sentBatch{corr, p, b})
}

func (s *storm) fetch(c *client) uint32 {
	return c.beginFetch(wire.FetchRequest{
		Topic: s.id, Partition: int32(s.rand(stormPartitions)), Offset: int64(s.rand(4)),
		MinBytes: uint32(s.rand(2)) << 20, MaxWait: uint32(s.rand(2000)), Encoding: wire.Encoding(s.rand(2)),
	})
}

func (s *storm) act() {
	r := s.r
	c := s.honest[s.rand(len(s.honest))]
	switch s.rand(16) {
	case 0, 1, 2, 3, 4, 5:
		s.produce(c)
	case 6, 7:
		c.poll = append(c.poll, s.fetch(c.client))
	case 8:
		rude := r.raw()
		rude.sayHello(int32(s.rand(3)) - 1)
		for range s.rand(20) {
			rude.beginProduce(wire.ProduceRequest{Topic: s.id, Partition: int32(s.rand(stormPartitions)), Batch: s.batch()})
			s.fetch(rude)
		}
		s.turns(60)
		r.w.Reset(rude.sock)
	case 9:
		sh := r.shards[s.rand(len(r.shards))]
		sh.tap.hold = true
	case 10:
		s.let()
	case 11:
		if c.deaf {
			c.startReading()
		} else {
			c.stopReading()
		}
	case 12:
		r.advance(time.Duration(s.rand(200)) * time.Millisecond)
	default:
		s.turns(80)
	}
}

func (s *storm) turns(n int) {
	for range s.rand(n) {
		s.r.turn()
		s.r.w.Step()
	}
}

func (s *storm) let() {
	for _, sh := range s.r.shards {
		sh.tap.let()
	}
}

func TestAStormLosesNoBatchAndNoMemory(t *testing.T) {
	for seed := range uint64(12) {
		r := newRig(t, rigOptions{seed: seed, shards: 2,
			world:  sim.Options{SocketBuffer: 32 << 10},
			drv:    aio.Options{ArenaBytes: 128 << 20, RecvBufferBytes: 8192, RecvBuffers: 64},
			conns:  conn.Options{SmallFrames: 8, MediumFrames: 4, LargeFrames: 1, SendBuffers: 32},
			native: native.Options{MaxInFlightRequests: 30, MaxInFlightBytes: 100_000, MaxRequests: 40, MaxPinned: 50_000},
		})
		s := &storm{r: r, rand: func(n int) int { return int(r.clock.Rand() % uint64(n)) }}
		for i := range 6 {
			s.honest = append(s.honest, &stormClient{client: r.dialShard(int32(i % 2))})
		}
		s.id = s.honest[0].create("t", stormPartitions)
		for range 400 {
			s.act()
		}
		s.let()
		for _, c := range s.honest {
			if c.deaf {
				c.startReading()
			}
		}
		s.check(t, seed)

		r.home()
	}
}

// check compares the log with what was acknowledged.
func (s *storm) check(t *testing.T, seed uint64) {
	t.Helper()
	for _, c := range s.honest {
		for _, corr := range c.poll {
			c.fetched(corr)
		}
		for _, b := range c.sent {
			c.wait(b.corr)
		}
	}
	log := map[int32]map[int64][]byte{}
	for p := range int32(stormPartitions) {
		log[p] = s.read(p)
	}
	for i, c := range s.honest {
		last := map[int32]int64{}
		for _, b := range c.sent {
			a := must(wire.DecodeProduceResponse(c.wait(b.corr).body))
			if a.Code != wire.CodeNone {
				t.Fatalf("seed %d: client %d: %+v", seed, i, a)
			}
			if before, ok := last[b.partition]; ok && a.BaseOffset <= before {
				t.Fatalf("seed %d: client %d: offset %d after %d", seed, i, a.BaseOffset, before)
			}
			last[b.partition] = a.BaseOffset
			if !bytes.Equal(log[b.partition][a.BaseOffset], messages(b.batch, 0)[0]) {
				t.Fatalf("seed %d: client %d: not what is stored at %d", seed, i, a.BaseOffset)
			}
		}
	}
}

// read reads a partition by offset.
func (s *storm) read(p int32) map[int64][]byte {
	got := map[int64][]byte{}
	c := s.honest[0]
	for next := int64(0); ; {
		f := c.fetch(wire.FetchRequest{Topic: s.id, Partition: p, Offset: next})
		for i, v := range messages(f.Batches, next) {
			got[next+int64(i)] = v
		}
		if next = f.NextOffset; next == f.Durable {
			return got
		}
	}
}
