package broker

import (
	"errors"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

func TestBatchesAreProducedAndFetchedThroughEveryShard(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		for _, c := range []string{"memory", "written", "flushed"} {
			r := newRig(t, rigOptions{shards: shards})
			topic := r.create("t", 7, class(c))
			sent := map[int32][]*produced{}
			for i := range 140 {
				p := int32(i % 7)
				s := r.begin(i%shards, topic.ID, p, testBatch(t, 1+i%4, 40+i))
				sent[p] = append(sent[p], s)
				if i%9 == 0 {
					r.turn()
				}
			}
			r.until("acks", func() bool {
				for _, list := range sent {
					for _, s := range list {
						if s.done == 0 {
							return false
						}
					}
				}
				return true
			})
			for p, list := range sent {
				for _, s := range list {
					if s.Class.String() != c || s.AppendTime <= 0 {
						t.Fatalf("acknowledged with class %v at %d", s.Class, s.AppendTime)
					}
				}
				r.mustHold(int(p)%shards, topic.ID, p, list)
			}
			r.mustBeHome()
		}
	})
}

func TestWhatIsWrongWithAProduceIsSaid(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 6, class("written"), catalog.Setting{Key: "max.message.bytes", Value: "2KiB"})
		good := func() []byte { return testBatch(t, 1, 30) }
		for p := range int32(6) {
			for _, c := range []struct {
				name string
				set  func(p *Produce)
				want Code
			}{
				{"topic", func(p *Produce) { p.Topic = TopicID{9} }, UnknownTopic},
				{"partition", func(p *Produce) { p.Partition = 6 }, UnknownPartition},
				{"negative partition", func(p *Produce) { p.Partition = -1 }, UnknownPartition},
				{"class", func(p *Produce) { p.MinClass = ClassFlushed }, ClassTooWeak},
				{"class reached", func(p *Produce) { p.MinClass = ClassWritten }, OK},
				{"crc", func(p *Produce) { p.Batch[40] ^= 1 }, CorruptBatch},
				{"cut", func(p *Produce) { p.Batch = p.Batch[:50] }, InvalidBatch},
				{"empty", func(p *Produce) { p.Batch = nil }, InvalidBatch},
				{"size", func(p *Produce) { p.Batch = testBatch(t, 1, 3000) }, BatchTooLarge},
				{"plain", func(p *Produce) { p.Encoding = EncodingPlain }, InvalidBatch},
				{"plain, short", func(p *Produce) { p.Encoding, p.Batch = EncodingPlain, p.Batch[:11] }, InvalidBatch},
			} {
				s := &produced{}
				s.Topic, s.Partition, s.Batch, s.Owner = topic.ID, p, good(), s
				c.set(&s.Produce)
				r.shards[0].Produce(&s.Produce)
				r.until("outcome", func() bool { return s.done > 0 })
				if s.Code != c.want {
					t.Errorf("%s: %v, want %v (%s)", c.name, s.Code, c.want, s.Message)
				}
				switch c.want {
				case OK:
				case BatchTooLarge:
					if c.name == "size" && (s.Low != 0 || s.High != 2<<10) {
						t.Errorf("%s: valid range %d to %d", c.name, s.Low, s.High)
					}
					fallthrough
				default:
					if s.Base != -1 || s.AppendTime != -1 {
						t.Errorf("%s: offset %d at %d", c.name, s.Base, s.AppendTime)
					}
				}
				if c.want == ClassTooWeak && s.Class != ClassWritten {
					t.Errorf("the topic's class is said to be %v", s.Class)
				}
			}
		}
		r.mustBeHome()
	})
}

// pipeline sends n batches from one connection on shard at, as many as fit into
// window at a time, and returns them in the order in which they were sent.
func (r *rig) pipeline(at int, topic TopicID, partition int32, n, window, size int) *[]*produced {
	sent := new([]*produced)
	var more func(*produced)
	more = func(*produced) {
		for done := r.doneOf(*sent); len(*sent) < n && len(*sent)-done < window; {
			p := &produced{data: testBatch(r.t, 1, size), after: more}
			p.Topic, p.Partition, p.Batch, p.Owner = topic, partition, append([]byte(nil), p.data...), p
			*sent = append(*sent, p)
			r.shards[at].Produce(&p.Produce)
			done = r.doneOf(*sent)
		}
	}
	more(nil)
	return sent
}

func (*rig) doneOf(sent []*produced) int {
	n := 0
	for _, p := range sent {
		n += p.done
	}
	return n
}

// mustBeInOrder checks that all batches of a connection were acknowledged and lie in
// the order in which they were sent.
func (r *rig) mustBeInOrder(sent []*produced) {
	r.t.Helper()
	last := int64(-1)
	for i, p := range sent {
		if p.Code != OK || p.done != 1 {
			r.t.Fatalf("batch %d: %v, %d times done: %s", i, p.Code, p.done, p.Message)
		}
		if p.Base <= last {
			r.t.Fatalf("batch %d lies at %d, the one before it at %d", i, p.Base, last)
		}
		last = p.Base
	}
}

func TestOrderOfAConnectionStaysWhenThereIsNoRoom(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		for _, c := range []string{"memory", "flushed"} {
			r := newRig(t, rigOptions{shards: shards, journal: 512 << 10, chunks: 512 << 10, credits: 16})
			topic := r.create("t", 1, class(c))
			owner := r.node.ShardOf(topic.ID, 0)
			hold := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "*.log"})
			var conns []*[]*produced
			for i := range 4 {
				conns = append(conns, r.pipeline(i%shards, topic.ID, 0, 150, 40, 3000))
			}
			r.run(20 * time.Millisecond)
			if r.shards[owner].stats.RoomWaits == 0 {
				t.Fatal("nothing had to wait for room")
			}
			hold.Release()
			var all []*produced
			for _, sent := range conns {
				r.until("acks", func() bool { return len(*sent) == 150 && r.doneOf(*sent) == 150 })
				r.mustBeInOrder(*sent)
				all = append(all, *sent...)
			}
			r.mustHold(0, topic.ID, 0, all)
			r.mustBeHome()
		}
	})
}

func TestOrderOfAConnectionStaysWhenCreditsAreUsedUp(t *testing.T) {
	for _, credits := range []int{2, 4, 16} {
		r := newRig(t, rigOptions{shards: 2, credits: credits})
		topic := r.create("t", 32)
		p := r.remote(0, topic)
		a, b := r.pipeline(0, topic.ID, p, 200, 50, 100), r.pipeline(0, topic.ID, p, 200, 7, 100)
		r.until("acks", func() bool { return r.doneOf(*a)+r.doneOf(*b) == 400 })
		if r.shards[0].stats.CreditWaits == 0 {
			t.Error("no credit was missing")
		}
		r.mustBeInOrder(*a)
		r.mustBeInOrder(*b)
		r.mustHold(0, topic.ID, p, append(*a, *b...))
		r.mustBeHome()
	}
}

func TestAStandingLogDelaysNoFetchOfItsShard(t *testing.T) {
	r := newRig(t, rigOptions{shards: 2, credits: 8})
	topic := r.create("t", 32)
	p := r.remote(0, topic)
	first := r.mustProduce(0, topic.ID, p, testBatch(t, 1, 50))
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes | sim.Flushes, Path: "journal-*"})
	sent := r.pipeline(0, topic.ID, p, 100, 100, 50)
	r.run(time.Millisecond)
	f := r.fetch(0, topic.ID, p, 0)
	if f.Code != OK || f.Next != first.Base+1 || f.Bytes() != len(first.data) {
		t.Errorf("fetch: %v, next %d, %d bytes", f.Code, f.Next, f.Bytes())
	}
	if r.doneOf(*sent) != 0 {
		t.Error("the log did not stand")
	}
	r.shards[0].Release(&f.Fetch)
	hold.Release()
	r.until("acks", func() bool { return r.doneOf(*sent) == 100 })
	r.mustBeInOrder(*sent)
	r.mustBeHome()
}

func TestAProduceThatWaitsTooLongIsRefused(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{
			shards: shards, journal: 512 << 10, chunks: 512 << 10, credits: 8,
			broker: Options{ProduceTimeout: 20 * time.Millisecond},
		})
		topic := r.create("t", 1, class("memory"))
		first := r.mustProduce(0, topic.ID, 0, testBatch(t, 1, 50)) // the partition has its reservation
		hold := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "journal-*"})
		var all []*produced
		for i := range 300 {
			all = append(all, r.begin(i%shards, topic.ID, 0, testBatch(t, 1, 3000)))
		}
		r.until("outcomes", func() bool { return r.doneOf(all) == len(all) })
		kept := all[:0:0]
		for _, p := range all {
			switch p.Code {
			case OK:
				kept = append(kept, p)
			case Busy:
			default:
				t.Fatalf("%v: %s", p.Code, p.Message)
			}
		}
		if len(kept) == 0 || len(kept) == len(all) {
			t.Fatalf("%d of %d were taken", len(kept), len(all))
		}
		hold.Release()
		r.run(50 * time.Millisecond)
		r.mustHold(0, topic.ID, 0, append(kept, first))
		r.mustBeHome()
	})
}

func TestAFailedLogAnswersEverythingWithAnError(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 6)
		first := r.mustProduce(0, topic.ID, 0, testBatch(t, 1, 50))
		r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes | sim.Flushes, Path: "journal-*"}, Times: sim.Always})
		var all []*produced
		for i := range 30 {
			all = append(all, r.begin(i%shards, topic.ID, int32(i%6), testBatch(t, 1, 50)))
		}
		r.until("outcomes", func() bool { return r.doneOf(all) == len(all) })
		for i, p := range all {
			if p.Code != Storage || p.Message == "" || !p.Code.OutcomeUnknown() {
				t.Errorf("produce %d: %v %q", i, p.Code, p.Message)
			}
		}
		a := r.admin(shards-1, &Admin{Kind: CreateTopic, Name: "u"})
		if a.Code != Storage || r.node.Image().ByName("u") != nil {
			t.Errorf("create: %v %q", a.Code, a.Message)
		}
		r.mustHold(shards-1, topic.ID, 0, []*produced{first})
		r.mustBeHome()
	})
}

func TestAQuiescedNodeFinishesWhatIsInFlight(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 4)
		var all []*produced
		for i := range 20 {
			all = append(all, r.begin(i%shards, topic.ID, int32(i%4), testBatch(t, 1, 50)))
		}
		a := &Admin{Kind: CreateTopic, Name: "u"}
		w := r.beginAdmin(r.node.catalogShard(), a)
		r.node.Quiesce()
		late := r.begin(0, topic.ID, 0, testBatch(t, 1, 50))
		if late.done != 1 || late.Code != ShuttingDown {
			t.Errorf("a produce after the quiesce: %v", late.Code)
		}
		if a := r.admin(0, &Admin{Kind: DeleteTopic, Name: "t"}); a.Code != ShuttingDown {
			t.Errorf("a delete after the quiesce: %v", a.Code)
		}
		if a := r.admin(0, &Admin{Kind: DescribeTopic, Name: "t"}); a.Code != OK {
			t.Errorf("a describe after the quiesce: %v", a.Code)
		}
		r.until("idle", func() bool {
			for _, b := range r.shards {
				if b.InFlight() > 0 {
					return false
				}
			}
			return true
		})
		for _, p := range all {
			if p.Code != OK {
				t.Errorf("in flight at the quiesce: %v", p.Code)
			}
		}
		if w.done != 1 || a.Code != OK {
			t.Errorf("a create in flight at the quiesce: %v %s", a.Code, a.Message)
		}
		r.mustBeHome()
	})
}

func TestOptionsOutOfBoundsAreRefused(t *testing.T) {
	if err := (Options{}).Check(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for _, o := range []Options{
		{MaxBatch: 100}, {MaxTopicPartitions: catalog.MaxPartitions + 1}, {Partitions: 9, MaxTopicPartitions: 8},
		{ProduceTimeout: -1}, {MaxFetches: -1}, {FetchBytes: 32 << 20}, {SnapshotEvery: -5}, {MaxAdmin: -1},
	} {
		if err := o.Check(); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
