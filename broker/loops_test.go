package broker

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/shard"
)

// client is a front door of a kind, on one shard's loop: it produces to every
// partition of a topic and reads them all, cancelling now and then.
type client struct {
	b     *Shard
	rng   *rand.Rand
	topic *catalog.Topic
	data  []byte
	total int // batches that all clients together produce to each partition

	left    []int // batches to be produced, by partition
	last    []int64
	readers int
	idle    int // produces that are done
	done    *sync.WaitGroup
	errs    []string
}

// clientProduce is a produce that goes again when it is acknowledged.
type clientProduce struct {
	Produce
	c *client
}

func (p *clientProduce) Produced(*Produce) {
	c := p.c
	if p.Code != OK || p.Base <= c.last[p.Partition] {
		c.errs = append(c.errs, fmt.Sprintf("partition %d: %v, offset %d after %d", p.Partition, p.Code, p.Base, c.last[p.Partition]))
	}
	c.last[p.Partition] = p.Base
	c.produce(p)
}

func (c *client) produce(p *clientProduce) {
	if c.left[p.Partition] == 0 {
		c.idle++
		c.maybeDone()
		return
	}
	c.left[p.Partition]--
	p.Batch = append(p.Batch[:0], c.data...)
	c.b.Produce(&p.Produce)
}

// clientFetch reads a partition from its start to what all clients write.
type clientFetch struct {
	Fetch
	c *client
}

func (f *clientFetch) Fetched(*Fetch) {
	c := f.c
	var all []byte
	for _, p := range f.Pieces() {
		all = append(all, p...)
	}
	offset := f.Offset
	for len(all) > 0 {
		b, rest, err := batch.Split(all)
		if err != nil {
			c.errs = append(c.errs, err.Error())
			break
		}
		if h, err := batch.CheckStored(b); err != nil || h.BaseOffset != offset {
			c.errs = append(c.errs, fmt.Sprintf("partition %d: %v, offset %d, want %d", f.Partition, err, h.BaseOffset, offset))
		}
		offset++
		all = rest
	}
	c.b.Release(&f.Fetch)
	f.Offset = offset
	if f.Code != OK || offset >= int64(c.total) {
		if f.Code != OK {
			c.errs = append(c.errs, fmt.Sprintf("fetch: %v %s", f.Code, f.Message))
		}
		c.readers--
		c.maybeDone()
		return
	}
	c.b.Fetch(&f.Fetch)
	if c.rng.IntN(4) == 0 {
		c.b.CancelFetch(&f.Fetch)
	}
}

func (c *client) maybeDone() {
	if c.readers == 0 && c.idle == len(c.left)*clientWindow {
		c.done.Done()
	}
}

// clientWindow is the number of batches in flight for each partition.
const clientWindow = 4

// clientAdmin creates, alters, describes and deletes a topic of its own, again and
// again.
type clientAdmin struct {
	Admin
	c    *client
	left int
}

func (a *clientAdmin) AdminDone(*Admin) {
	if a.Code != OK {
		a.c.errs = append(a.c.errs, fmt.Sprintf("kind %d of %s: %v %s", a.Kind, a.Name, a.Code, a.Message))
	}
	if a.left--; a.left == 0 {
		a.c.readers--
		a.c.maybeDone()
		return
	}
	a.begin()
}

func (a *clientAdmin) begin() {
	a.Settings = nil
	switch a.left % 4 {
	case 0:
		a.Kind, a.Name, a.Partitions = CreateTopic, fmt.Sprintf("t-%d-%d", a.c.b.id, a.left), 5
	case 3:
		a.Kind, a.Settings = AlterTopic, []catalog.Setting{class("written")}
	case 2:
		a.Kind = DescribeTopic
	case 1:
		a.Kind = DeleteTopic
	}
	a.c.b.Admin(&a.Admin)
}

// RunOn starts the client, on its loop.
func (c *client) RunOn(*shard.Loop) {
	for p := range int32(len(c.left)) {
		f := &clientFetch{c: c}
		f.Topic, f.Partition, f.Owner, f.MinBytes, f.MaxWait = c.topic.ID, p, f, 1, 1<<32
		c.readers++
		c.b.Fetch(&f.Fetch)
	}
	a := &clientAdmin{c: c, left: 20}
	a.Owner = a
	c.readers++
	a.begin()
	for p := range int32(len(c.left)) {
		for range clientWindow {
			w := &clientProduce{c: c}
			w.Topic, w.Partition, w.Owner = c.topic.ID, p, w
			c.produce(w)
		}
	}
}

func TestLoopsInThreadsOfTheirOwn(t *testing.T) {
	const batches, partitions = 60, 9
	for _, shards := range shardCounts {
		for _, durability := range []string{"memory", "flushed"} {
			r := newRig(t, rigOptions{shards: shards, mode: sim.RealTime, credits: 8, journal: 8 << 20, chunks: 16 << 20})
			topic := r.create("t", partitions, class(durability))
			var loops, clients sync.WaitGroup
			clients.Add(shards)
			var all []*client
			for i, b := range r.shards {
				c := &client{
					b: b, rng: rand.New(rand.NewPCG(r.opts.seed, uint64(i))), topic: topic, data: testBatch(t, 1, 100), done: &clients,
					total: batches * shards, left: make([]int, partitions), last: make([]int64, partitions),
				}
				for p := range c.left {
					c.left[p], c.last[p] = batches, -1
				}
				all = append(all, c)
				if err := b.loop.Post(c); err != nil {
					t.Fatal(err)
				}
			}
			for _, b := range r.shards {
				loops.Go(func() {
					if err := b.loop.Run(); err != nil {
						t.Error(err)
					}
				})
			}
			clients.Wait()
			for _, b := range r.shards {
				if err := b.loop.Post(shard.TaskFunc(func(l *shard.Loop) { l.Stop() })); err != nil {
					t.Fatal(err)
				}
			}
			loops.Wait()
			for _, c := range all {
				for _, e := range c.errs {
					t.Errorf("%d shards, %s, client of shard %d: %s", shards, durability, c.b.id, e)
				}
			}
			r.mustBeHome()
			r.w.Kill()
		}
	}
}
