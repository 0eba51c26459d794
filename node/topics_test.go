package node

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
)

func TestTopicsAreCreatedListedDescribedAlteredAndDeleted(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, small(shards))
		ctx := r.context()
		c := r.dial()
		a := c.Admin()
		id, err := a.CreateTopic(ctx, client.TopicSpec{Name: "t", Partitions: 5, Class: client.ClassWritten, Configs: map[string]string{"segment.bytes": "1048576"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.CreateTopic(ctx, client.TopicSpec{Name: "t", Partitions: 1}); !errors.Is(err, client.ErrTopicExists) {
			t.Fatalf("created twice: %v", err)
		}
		r.create(c, "other", 2, "memory")
		list, err := a.ListTopics(ctx)
		if err != nil || len(list) != 2 || list[1] != (client.TopicInfo{Name: "t", ID: id, Class: client.ClassWritten, Partitions: 5}) {
			t.Fatalf("list: %+v, %v", list, err)
		}
		if err := a.AlterTopic(ctx, "t", map[string]string{"durability": "flushed"}); err != nil {
			t.Fatal(err)
		}
		d, err := a.DescribeTopic(ctx, "t")
		if err != nil || d.Class != client.ClassFlushed || len(d.Partitions) != 5 {
			t.Fatalf("describe: %+v, %v", d, err)
		}
		own := map[string]string{}
		for _, e := range d.Configs {
			if e.Source == wire.SourceTopic {
				own[e.Key] = e.Value
			}
		}
		if own["segment.bytes"] != "1MiB" || own["durability"] != "flushed" {
			t.Fatalf("the topic's own settings: %v", own)
		}
		if err := a.DeleteTopic(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.DescribeTopic(ctx, "t"); !errors.Is(err, client.ErrUnknownTopic) {
			t.Fatalf("describe of a deleted topic: %v", err)
		}
		r.stop()
		r.start()
		if list, err = r.dial().Admin().ListTopics(ctx); err != nil || len(list) != 1 || list[0].Name != "other" {
			t.Fatalf("list after a restart: %+v, %v", list, err)
		}
		r.stop()
	})
}

func TestATopicThatIsDeletedAndMadeAgainIsEmpty(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, small(shards))
		ctx := r.context()
		c := r.dial()
		for life := range 3 {
			r.create(c, "t", 4, "flushed")
			for p := range int32(4) {
				producer, err := c.Producer("t", client.WithPartition(p))
				if err != nil {
					t.Fatal(err)
				}
				at, err := producer.Send(ctx, client.Record{Value: fmt.Appendf(nil, "life %d", life)})
				if err != nil || at.Offset != 0 {
					t.Fatalf("life %d, partition %d: first record at %d: %v", life, p, at.Offset, err)
				}
			}
			if err := c.Admin().DeleteTopic(ctx, "t"); err != nil {
				t.Fatal(err)
			}
		}
		r.stop()
	})
}

func TestBadTopicsAreRefused(t *testing.T) {
	r := newRig(t, small(2))
	ctx := r.context()
	c := r.dial()
	for _, spec := range []client.TopicSpec{
		{Name: "t", Partitions: 200_000},
		{Name: "__catalog", Partitions: 1},
		{Name: "t", Partitions: 1, Configs: map[string]string{"no.such.key": "1"}},
		{Name: "t", Partitions: 1, Configs: map[string]string{"durability": "eternal"}},
		{Name: "t", Partitions: 1, Configs: map[string]string{"max.message.bytes": "1073741824"}},
	} {
		if id, err := c.Admin().CreateTopic(ctx, spec); err == nil {
			t.Errorf("%+v was made: %v", spec, id)
		}
	}
	if err := c.Admin().AlterTopic(ctx, "t", map[string]string{"durability": "memory"}); !errors.Is(err, client.ErrUnknownTopic) {
		t.Errorf("alter of a topic that does not exist: %v", err)
	}
	if err := c.Admin().DeleteTopic(ctx, "t"); !errors.Is(err, client.ErrUnknownTopic) {
		t.Errorf("delete of a topic that does not exist: %v", err)
	}
	r.stop()
}

func TestUnknownTopicsAreMadeOnlyWhereThatIsWanted(t *testing.T) {
	for _, on := range []bool{false, true} {
		cfg := small(2)
		cfg.AutoCreate, cfg.DefaultPartitions = on, 3
		r := newRig(t, cfg)
		p, err := r.dial().Producer("new")
		switch {
		case !on:
			if !errors.Is(err, client.ErrUnknownTopic) {
				t.Fatalf("without auto-create: %v", err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			if p.Partitions() != 3 {
				t.Fatalf("%d partitions, want 3", p.Partitions())
			}
			if _, err := p.Send(r.context(), client.Record{Value: []byte("v")}); err != nil {
				t.Fatal(err)
			}
		}
		r.stop()
	}
}

func TestAProducerThatDemandsMoreThanATopicPromisesIsRefused(t *testing.T) {
	r := newRig(t, small(2))
	c := r.dial()
	r.create(c, "t", 2, "written")
	if _, err := c.Producer("t", client.WithMinClass(client.ClassFlushed)); !errors.Is(err, client.ErrClassTooWeak) {
		t.Fatalf("a producer that demands flushed: %v", err)
	}
	if _, err := c.Producer("t", client.WithMinClass(client.ClassWritten)); err != nil {
		t.Fatalf("a producer that demands written: %v", err)
	}
	// The broker itself refuses too, for clients that do not look first.
	x := r.connect(anyShard)
	id := x.metadata("t").ID
	x.last++
	x.send(wire.AppendProduceRequest(nil, x.last, &wire.ProduceRequest{
		Topic: id, MinClass: wire.ClassFlushed, Batch: batchOf(t, []byte("v")),
	}))
	if a := x.produced(x.last); a.Code != wire.CodeClassTooWeak {
		t.Fatalf("produce that demands flushed: %v", a.Code)
	}
	if a := x.produced(x.produce(id, 0, batchOf(t, []byte("v")))); a.Code != wire.CodeNone || a.BaseOffset != 0 || a.Class != wire.ClassWritten {
		t.Fatalf("the next produce: %+v", a)
	}
	r.stop()
}

// TestTheLargestBatch sends batches as large as they may be where memory and
// journal are as small as they may be.
func TestTheLargestBatchFitsIntoTheSmallestNode(t *testing.T) {
	for _, size := range []int{MinMessageBytes, 1 << 20, MaxMessageBytes} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			t.Parallel()
			cfg := small(1)
			cfg.MaxMessageBytes = size
			cfg.JournalBytes = max(MinJournalBytes, messageShare*int64(size))
			cfg.CacheBytes = cfg.leastCache()
			r := newRig(t, cfg)
			c := r.dial()
			x := r.connect(anyShard)
			spec := client.TopicSpec{Name: "t", Partitions: 1, Configs: map[string]string{"max.message.bytes": fmt.Sprint(size)}}
			if _, err := c.Admin().CreateTopic(r.context(), spec); err != nil {
				t.Fatal(err)
			}
			id := x.metadata("t").ID
			value := stamp(1, size, size-200)
			const batches = 6
			for n := range int64(batches) {
				if a := x.produced(x.produce(id, 0, batchOf(t, value))); a.Code != wire.CodeNone || a.BaseOffset != n {
					t.Fatalf("batch of %d bytes: %+v", size, a)
				}
			}
			over := batchOf(t, stamp(1, size, size))
			if a := x.produced(x.produce(id, 0, over)); a.Code != wire.CodeBatchTooLarge || a.ValidHigh != int64(size) {
				t.Fatalf("batch of %d bytes: %+v", len(over), a)
			}
			co, err := c.Consumer(client.Topics("t"))
			if err != nil {
				t.Fatal(err)
			}
			for n := 0; n < batches; {
				b, err := co.Poll(r.context())
				if err != nil {
					t.Fatal(err)
				}
				for rec := range b.Records() {
					if n++; !bytes.Equal(rec.Value, value) {
						t.Fatalf("record of %d bytes is not what was sent", len(rec.Value))
					}
				}
				b.Release()
			}
			r.stop()
		})
	}
}
