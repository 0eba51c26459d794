package node

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/ballast"
	"github.com/mqd-broker/mqd/net/wire"
)

// space is what of the disk is free, in bytes.
func (r *rig) space() (free int64) {
	r.t.Helper()
	info, err := r.w.FS().Stat(rigDir)
	if err != nil {
		r.t.Fatal(err)
	}
	return info.FreeBytes
}

// leave takes all space away but free bytes, as another program's file would.
func (r *rig) leave(free int64) {
	r.t.Helper()
	f, err := r.w.FS().Open("/another", aio.OpenWrite|aio.OpenCreate)
	if err != nil {
		r.t.Fatal(err)
	}
	eventually(r.t, "the space is taken", func() bool {
		had := r.space()
		size, err := f.Size()
		if err == nil {
			err = f.Allocate(0, size+had-free)
		}
		if errors.Is(err, syscall.ENOSPC) {
			return false // the node has taken some of it meanwhile
		}
		if err != nil {
			r.t.Fatal(err)
		}
		return true
	})
	if err := f.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// ballastBytes is the size of the ballast file, -1 if there is none.
func (r *rig) ballastBytes() int64 {
	r.t.Helper()
	entries, err := r.w.FS().ReadDir(rigDir)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name == ballast.Name {
			return e.Size
		}
	}
	return -1
}

// fill produces to a topic until the broker says that its disk is full.
func (l *load) fill(topic string) {
	l.r.t.Helper()
	p, err := l.r.dial().Producer(topic)
	if err != nil {
		l.r.t.Fatal(err)
	}
	id := int(producerSerial.Add(1))
	for n := 0; ; n++ {
		v := stamp(id, n, 8<<10)
		at, err := p.Send(l.r.context(), client.Record{Value: v})
		if err != nil {
			mustBeFull(l.r.t, err)
			return
		}
		l.acked[spot{at.Topic, at.Partition, at.Offset}] = v
	}
}

func mustBeFull(t testing.TB, err error) {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) || e.Code != wire.CodeBackpressure || !e.Retriable || !strings.Contains(err.Error(), "disk is full") {
		t.Fatalf("produce on a full disk: %v", err)
	}
}

// mustServe reads what is acknowledged of a topic, and writes nothing.
func (l *load) mustServe(topic string) {
	t := l.r.t
	t.Helper()
	co, err := l.r.dial().Consumer(client.Topics(topic), client.From(client.Start()))
	if err != nil {
		t.Fatal(err)
	}
	left := map[spot][]byte{}
	for k, v := range l.acked {
		if k.topic == topic {
			left[k] = v
		}
	}
	for len(left) > 0 {
		b, err := co.Poll(l.r.context())
		if err != nil {
			t.Fatalf("%d records of %s are not read: %v", len(left), topic, err)
		}
		for rec := range b.Records() {
			k := spot{topic, b.Partition, rec.Offset}
			if want, ok := left[k]; ok && !bytes.Equal(want, rec.Value) {
				t.Fatalf("%v: found %x, %x was acknowledged", k, rec.Value, want)
			}
			delete(left, k)
		}
		b.Release()
	}
}

// killedOnAFullDisk is a machine on which a node has died that had filled two topics. It
// is nil if a checkpoint has needed the ballast before, and its room is taken with the rest.
func killedOnAFullDisk(t *testing.T, shards int) (*rig, *load) {
	t.Helper()
	r := newRig(t, small(shards), func(o *sim.Options) { o.Capacity = 256 << 20 })
	eventually(t, "ballast", func() bool { return r.ballastBytes() == ballast.Size(256<<20) })
	c := r.dial()
	r.create(c, "keep", 3, "flushed")
	r.create(c, "gone", 3, "flushed")
	closeNow(c)
	l := newLoad(r)
	l.produce("keep", 300)
	l.wait(300)
	r.leave(16 << 20)
	l.fill("gone")
	l.fill("keep")
	r.leave(0)
	whole := r.ballastBytes() > 0
	r.die()
	if !whole {
		return nil, nil
	}
	return r, l
}

// A broker that was killed while its disk was full did not start any more, so that no
// topic could be deleted either.
func TestAStartOnAFullDiskServesAndLetsTopicsBeDeleted(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r, l := killedOnAFullDisk(t, shards)
		for r == nil {
			r, l = killedOnAFullDisk(t, shards)
		}
		had := r.ballastBytes() > 0 // else what it gave is free
		for life := range 3 {
			if life > 0 {
				r.die()
			}
			r.start()
			l.mustServe("keep")
			l.mustServe("gone")
		}
		if said := r.log.String(); had && !strings.Contains(said, "ballast removed, to have room for this start") {
			t.Fatalf("logged: %s", said)
		}
		r.leave(0)
		r.n.ballast.Release()
		eventually(t, "ballast given up", func() bool { return r.ballastBytes() < 0 })
		r.leave(0)
		c := r.dial()
		for _, topic := range []string{"keep", "gone"} {
			p, err := c.Producer(topic)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Send(r.context(), client.Record{Value: stamp(0, 0, 20)})
			mustBeFull(t, err)
		}
		if err := c.Admin().DeleteTopic(r.context(), "gone"); err != nil {
			t.Fatal(err)
		}
		r.mustTakeAgain(c, "keep")
		if r.ballastBytes() <= 0 {
			t.Fatal("producers are served and there is no ballast")
		}
		l.mustServe("keep")
		if err := r.end(r.context()); err != nil {
			t.Fatalf("stop: %v\n%s", err, r.log)
		}
	})
}

// mustTakeAgain produces until it succeeds, without a restart.
func (r *rig) mustTakeAgain(c *client.Client, topic string) {
	r.t.Helper()
	p, err := c.Producer(topic)
	if err != nil {
		r.t.Fatal(err)
	}
	eventually(r.t, "room again", func() bool {
		_, err := p.Send(r.context(), client.Record{Value: stamp(0, 0, 20)})
		if err != nil {
			mustBeFull(r.t, err)
			time.Sleep(10 * time.Millisecond)
		}
		return err == nil
	})
}

// Checkpoints need room as well, and nothing else frees the journal.
func TestTheBallastIsGivenUpForACheckpoint(t *testing.T) {
	r := newRig(t, small(1), func(o *sim.Options) { o.Capacity = 256 << 20 })
	c := r.dial()
	r.create(c, "t", 1, "flushed")
	eventually(t, "ballast", func() bool { return r.ballastBytes() > 0 })
	full := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes, Path: "checkpoint-*"}, Err: syscall.ENOSPC, Times: sim.Always})
	l := newLoad(r)
	l.produce("t", 0)
	eventually(t, "ballast given up", func() bool { return r.ballastBytes() < 0 })
	full.End()
	l.end()
	r.mustTakeAgain(c, "t")
	l.mustServe("t")
	r.stop()
}
