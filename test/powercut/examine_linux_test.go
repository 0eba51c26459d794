package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
	"github.com/mqd-broker/mqd/test/powercut/fusedisk"
	"github.com/mqd-broker/mqd/test/rig"
)

// second is whether and when the power fails once more.
type second uint8

const (
	never second = iota
	// recovering: during the recovery from the first cut.
	recovering
	// writing: while the new life acknowledges messages.
	writing
)

// report counts what a test has done.
type report struct {
	images, twice, messages, required   int
	dirty                               int // images with something unflushed
	kept, unflushed                     int
	replayed, torn, gaps, taken, topics int64
}

func (r *report) String() string {
	return fmt.Sprintf("%d images (%d of a second cut), %d of them of a disk with unflushed sectors: %d of %d are left; %d topics and %d messages read, %d of them acknowledged in class flushed; "+
		"recoveries replayed %d entries, dropped %d torn tails and made %d gaps; %d messages of weaker classes taken",
		r.images, r.twice, r.dirty, r.kept, r.unflushed, r.topics, r.messages, r.required, r.replayed, r.torn, r.gaps, r.taken)
}

// add counts what an image was made of.
func (r *report) add(img fusedisk.Image) {
	r.images++
	if img.Unflushed > 0 {
		r.dirty++
	}
	r.kept += img.Kept
	r.unflushed += img.Unflushed
}

// examine starts a broker on what a power cut has left and holds what it serves
// against what has to be there. The error is the objection.
func (m *machine) examine(img fusedisk.Image, topics []*expected, again second, rng *rand.Rand, r *report) (err error) {
	defer func() { err = errors.Join(err, m.off()) }()
	r.add(img)
	d := img.Disk
	crashed(topics)
	if again == recovering {
		if err := m.on(d, ""); err != nil {
			return err
		}
		if err := m.launch("--shards", shards(rng)); err != nil {
			return err
		}
		rest(context.Background(), upTo(rng, m.start))
		untilUnflushed(d, rng)
		cut := d.Cut(fusedisk.Mode(rng.IntN(int(fusedisk.Modes))), rng)
		if err := m.off(); err != nil {
			return err
		}
		r.add(cut)
		r.twice++
		d = cut.Disk
		crashed(topics)
	}
	cut, err := m.live(d, topics, again == writing, rng, r)
	if err != nil || cut.Disk == nil {
		return err
	}
	r.add(cut)
	r.twice++
	crashed(topics)
	_, err = m.live(cut.Disk, topics, false, rng, r)
	return err
}

// untilUnflushed waits, mostly, for a moment at which the disk has something to lose;
// without writes it gives up.
func untilUnflushed(d *fusedisk.Disk, rng *rand.Rand) {
	const tries, pause = 500, 20 * time.Microsecond
	if rng.IntN(4) == 0 {
		return
	}
	for range tries {
		if d.Stats().Unflushed > 0 {
			return
		}
		rest(context.Background(), pause)
	}
}

// shards draws the number of shards of a life.
func shards(rng *rand.Rand) string { return fmt.Sprint(1 + rng.IntN(3)) }

// live is one life on a disk: everything is read, something written, and everything
// read again or the power cut meanwhile.
func (m *machine) live(d *fusedisk.Disk, topics []*expected, cutting bool, rng *rand.Rand, r *report) (cut fusedisk.Image, err error) {
	defer func() { err = errors.Join(err, m.off()) }()
	if err := m.on(d, ""); err != nil {
		return cut, err
	}
	if err := m.launch("--shards", shards(rng)); err != nil {
		return cut, err
	}
	addr, err := m.ready()
	if err != nil {
		return cut, err
	}
	said, err := m.recovery()
	if err == nil && said.Damaged != 0 {
		err = fmt.Errorf("the recovery found %d pieces of damage", said.Damaged)
	}
	if err != nil {
		return cut, fmt.Errorf("%w; the broker said: %s", err, m.broker.LogTail())
	}
	r.replayed, r.torn, r.gaps = r.replayed+said.Replayed, r.torn+said.Torn, r.gaps+said.Gaps
	if err := m.read(addr, topics, r); err != nil {
		return cut, err
	}
	take := func() bool {
		if cutting {
			untilUnflushed(d, rng)
			cut = d.Cut(fusedisk.Mode(rng.IntN(int(fusedisk.Modes))), rng)
		}
		return cutting
	}
	if err := write(addr, topics, rng, take); err != nil {
		return cut, err
	}
	if cutting {
		return cut, nil
	}
	return cut, m.read(addr, topics, r)
}

// read reads everything that is to be there, and judges it.
func (m *machine) read(addr string, topics []*expected, r *report) (err error) {
	c, err := rig.Open(context.Background(), addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var all error
	for _, x := range topics {
		err := x.read(c, r)
		for i, p := range x.parts {
			for _, v := range p.Violations() {
				err = errors.Join(err, fmt.Errorf("partition %d: %v", i, v))
			}
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", x.name, err))
		}
	}
	return all
}

// read reads a topic.
func (x *expected) read(c *rig.Conn, r *report) error {
	tp, err := c.Topic(x.name)
	if err != nil {
		return err
	}
	switch {
	case tp.Code == wire.CodeUnknownTopic && x.presence == present:
		return errors.New("the topic was created and is not there")
	case tp.Code == wire.CodeUnknownTopic:
		x.presence = absent
		return nil
	case tp.Code != wire.CodeNone:
		return fmt.Errorf("metadata: %v", tp.Code)
	case x.presence == absent:
		return errors.New("the topic was deleted and is there")
	case tp.Class != wire.Class(classes[x.class]) || len(tp.PartitionShards) != len(x.parts):
		return fmt.Errorf("the topic has class %v and %d partitions, expected %v and %d", tp.Class, len(tp.PartitionShards), x.class, len(x.parts))
	}
	// What an image has, its recovery has made durable: it has to stay.
	x.presence = present
	r.topics++
	for i, p := range x.parts {
		before := p.Counts()
		if err := p.read(c, tp.ID, int32(i)); err != nil {
			return err
		}
		n := p.Counts()
		r.messages += n.Read - before.Read
		if x.class == history.Flushed {
			r.required += n.Acked
		}
		r.taken += int64(n.Taken - before.Taken)
	}
	return nil
}

// read reads a partition.
func (p *part) read(c *rig.Conn, id wire.TopicID, partition int32) error {
	least := p.End()
	start, end, err := c.Bounds(id, partition)
	if err != nil {
		return err
	}
	s := scan{p.Scan(least, start, end)}
	if err := c.ReadAll(id, partition, start, end, s); err != nil {
		return err
	}
	s.Done()
	return nil
}

// scan passes what a reading finds on to the history.
type scan struct{ *history.Scan }

func (s scan) Record(offset int64, r *batch.RecordView) { s.Scan.Record(offset, r.Value) }

// write writes a little to every partition of the new life. take is called at a
// random moment, when some messages are acknowledged and others on their way; if it
// says that the power is gone, nothing is heard of those any more.
func write(addr string, topics []*expected, rng *rand.Rand, take func() (gone bool)) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, []string{addr}, client.WithClientID("second life"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	type waiting struct {
		inFlight
		p *part
	}
	var flying []waiting
	for i, x := range topics {
		if x.presence != present {
			continue
		}
		chosen := int32(0)
		p, err := c.Producer(x.name, client.WithPartitioner(func([]byte, int32) int32 { return chosen }))
		if err != nil {
			return err
		}
		const each, size = 20, 300
		for n := range each * len(x.parts) {
			chosen = int32(n % len(x.parts))
			to := x.parts[chosen]
			// A producer that no load has.
			id := uint32(1<<31 + i)
			e := event{partition: chosen, m: history.Message{Stream: x.streams[chosen], Producer: id, Seq: to.next[id]}}
			to.next[id]++
			to.sent(e.m)
			ticket, err := p.Append(ctx, client.Record{Key: x.key(e.m), Value: history.Append(nil, e.m, size)})
			if err != nil {
				return err
			}
			flying = append(flying, waiting{inFlight{ticket, e}, to})
		}
	}
	if len(flying) == 0 {
		take()
		return nil
	}
	moment := rng.IntN(len(flying))
	for i, f := range flying {
		if i == moment && take() {
			return nil
		}
		at, err := f.ticket.Wait(ctx)
		if err != nil {
			return fmt.Errorf("message %v in the second life: %w", f.event.m, err)
		}
		f.p.settled(f.event.m, func() { f.p.Acked(f.event.m, at.Offset) })
	}
	return nil
}
