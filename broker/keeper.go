package broker

import (
	"encoding/binary"
	"fmt"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/catalogfile"
	"github.com/mqd-broker/mqd/broker/cleaner"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/shard"
)

// keeper keeps the catalog, on the shard that owns its partition. It carries out
// changes one after another: a command is checked against the state, appended to
// the catalog's partition with class flushed, applied when it is acknowledged,
// published as a new image, and brought to all shards before the next one begins.
// What has not been acknowledged has not happened, as far as anybody can see.
type keeper struct {
	b     *Shard
	state *catalog.State
	part  *partition

	queue   []*Admin // waits; the first is under way when busy
	busy    bool
	command catalog.Command
	record  []byte
	produce Produce
	steps   []step
	unseen  int // steps that the answer waits for

	producers producerIDs
	skipped   bool // what may be lost of it was left out

	snapshots *catalogfile.Snapshots
	cleaner   *cleaner.Cleaner
	before    int64 // the catalog's next offset at the start
}

func newKeeper(b *Shard) *keeper {
	topics := b.node.topics
	b.node.topics = nil
	k := &keeper{b: b, state: topics.State()}
	key := engine.Key{Topic: engine.CatalogTopic}
	k.part = &partition{Partition: b.store.Open(key, engine.CatalogName, CatalogConfig())}
	k.snapshots = topics.Snapshots(b.drv, &b.node.opts, b.node.id)
	k.before = k.state.Next()
	var dead []string
	for _, t := range k.state.Tombstones() {
		dead = append(dead, layout.TopicDir(b.node.opts.Dir, t.Name, t.ID))
	}
	k.cleaner = cleaner.New(cleaning{k}, dead, b.node.deleted)
	b.node.deleted = nil
	return k
}

// cleaning is a keeper as the host of its cleaner.
type cleaning struct{ k *keeper }

// Loop implements cleaner.Host.
func (h cleaning) Loop() *shard.Loop { return h.k.b.loop }

// MakeRoom implements cleaner.Host.
func (h cleaning) MakeRoom() { h.k.b.store.ReleaseBallast() }

// FilesLeft implements cleaner.Host.
func (h cleaning) FilesLeft(dir string, err error) { h.k.b.node.opts.Events.FilesLeft(dir, err) }

// AllGone forgets the topics that had been deleted before the start.
func (h cleaning) AllGone() { h.k.state.Forget(h.k.before) }

// turn does what does not hang on an event. It returns whether there was any.
func (k *keeper) turn() int { return k.cleaner.Turn() }

// admit queues a change.
func (k *keeper) admit(r *Admin) {
	if len(k.queue) >= k.b.node.opts.MaxAdmin {
		r.refuse(Busy, "too many changes to topics are waiting")
		k.reply(r)
		return
	}
	k.queue = append(k.queue, r)
	k.next()
}

// next begins changes until one is under way.
func (k *keeper) next() {
	for !k.busy && len(k.queue) > 0 {
		k.begin(k.queue[0])
	}
}

// answer ends the change that is under way.
func (k *keeper) answer() {
	r := k.queue[0]
	k.queue[0] = nil
	k.queue = k.queue[1:]
	k.busy, k.steps = false, nil
	k.reply(r)
}

// reply sends an Admin back to the shard that was asked.
func (k *keeper) reply(r *Admin) {
	k.b.post(r.origin.id, Message{kind: msgAdminDone, body: r}, &r.wait)
}

// begin checks a change and appends its command; what is refused is answered.
func (k *keeper) begin(r *Admin) {
	k.busy = true
	if k.b.node.quiesced.Load() {
		r.refuse(ShuttingDown, "")
		k.answer()
		return
	}
	if r.Kind == NewProducer && k.producers.give(r) {
		k.answer()
		return
	}
	if (r.Kind == CreateTopic || r.Kind == AddPartitions || r.Kind == NewProducer) && k.b.store.DiskFull() {
		r.refuse(Busy, helpDiskFull)
		k.answer()
		return
	}
	c, err := k.commandOf(r)
	if err == nil && changesNothing(&c, r.Topic) {
		k.answer()
		return
	}
	if err == nil {
		err = k.state.Check(&c)
	}
	if err != nil {
		r.refuse(catalogCode(err), err.Error())
		k.answer()
		return
	}
	k.command = c
	k.append()
}

// commandOf is the command that a request asks for.
func (k *keeper) commandOf(r *Admin) (catalog.Command, error) {
	o, m := &k.b.node.opts, k.state.Image()
	limits := catalog.Limits{Partitions: o.MaxTopicPartitions, MaxMessageBytes: int64(o.MaxBatch)}
	switch r.Kind {
	case CreateTopic:
		return k.createCommand(r, limits)
	case NewProducer:
		return catalog.Command{Kind: catalog.AllocateProducers, First: k.firstProducer(), Count: producerBlock}, nil
	}
	t := m.ByName(r.Name)
	if t == nil {
		return catalog.Command{}, fmt.Errorf("%w: %q", catalog.ErrUnknownTopic, r.Name)
	}
	if t.Internal() {
		return catalog.Command{}, fmt.Errorf("%w: %q is the broker's own", catalog.ErrInvalidTopic, r.Name)
	}
	r.Topic = t
	if r.Kind == DeleteTopic {
		return catalog.Command{Kind: catalog.DeleteTopic, ID: t.ID}, nil
	}
	if r.Kind == AddPartitions {
		c := catalog.Command{Kind: catalog.AddPartitions, ID: t.ID, Partitions: r.Partitions}
		if err := catalog.CheckPartitions(r.Partitions, limits.Partitions); err != nil {
			return c, err
		}
		return c, k.checkTotal(int(r.Partitions) - int(t.Partitions))
	}
	changes, err := catalog.ParseSettings(r.Settings, catalog.Unset, limits)
	return catalog.Command{Kind: catalog.AlterTopic, ID: t.ID, Changes: changes}, err
}

func (k *keeper) createCommand(r *Admin, limits catalog.Limits) (catalog.Command, error) {
	o := &k.b.node.opts
	n := r.Partitions
	if n == 0 {
		n = o.Partitions
	}
	c := catalog.Command{Kind: catalog.CreateTopic, Name: r.Name, Partitions: n, Created: k.b.drv.Clock().Wall()}
	check := catalog.CheckUserName
	if r.internal {
		check, c.ID = catalog.CheckName, GroupsTopic
	}
	if err := check(r.Name); err != nil {
		return c, err
	}
	if err := catalog.CheckPartitions(n, limits.Partitions); err != nil {
		return c, err
	}
	if err := k.checkTotal(int(n)); err != nil {
		return c, err
	}
	var err error
	if c.Changes, err = catalog.ParseSettings(r.Settings, catalog.Set, limits); err != nil {
		return c, err
	}
	for c.ID == (TopicID{}) || !r.internal && (c.ID == engine.CatalogTopic || c.ID == GroupsTopic) {
		binary.BigEndian.PutUint64(c.ID[:8], k.b.drv.Rand())
		binary.BigEndian.PutUint64(c.ID[8:], k.b.drv.Rand())
	}
	return c, nil
}

// checkTotal reports whether there may be n more partitions.
func (k *keeper) checkTotal(n int) error {
	if all, most := k.state.Image().Partitions()+n, k.b.node.opts.MaxPartitions; n > 0 && all > most {
		return fmt.Errorf("%w: with %d more all topics would have %d, the limit is %d", catalog.ErrInvalidPartitions, n, all, most)
	}
	return nil
}

// changesNothing reports whether a topic is as the command wants it already.
func changesNothing(c *catalog.Command, t *catalog.Topic) bool {
	return c.Kind == catalog.AlterTopic && len(c.Changes) == 0 || c.Kind == catalog.AddPartitions && c.Partitions == t.Partitions
}

// append appends the command to the catalog's log.
func (k *keeper) append() {
	k.record = k.command.Append(k.record[:0])
	if _, err := catalog.Decode(k.record); err != nil {
		violated("a command that was checked can be read back")
	}
	builder := batch.NewBuilder(nil, catalog.DefaultMaxMessageBytes)
	now := k.b.drv.Clock().Wall() / 1e6
	if err := builder.Append(&batch.Record{Timestamp: now, Value: k.record}); err != nil {
		violated("a command fits into a batch")
	}
	k.produce.Owner = k
	urgent := k.command.Kind == catalog.DeleteTopic // it makes room where there is none
	k.b.appendOwn(&k.produce, k.part, builder.Finish(batch.CodecNone), catalog.DefaultMaxMessageBytes, urgent)
}

// Produced hears that the command is durable, or that it is not.
func (k *keeper) Produced(p *Produce) {
	r := k.queue[0]
	if p.Code != OK {
		r.refuse(p.Code, p.Message)
		k.answer()
		k.next()
		return
	}
	if err := k.state.Apply(p.Base, k.record); err != nil {
		violated("a command that was checked and appended can be applied")
	}
	k.b.node.image.Store(k.state.Image())
	k.snapshots.Applied()
	switch k.command.Kind {
	case catalog.AllocateProducers:
		k.skipped = true
		k.producers = producerIDs{next: k.command.First, end: k.state.NextProducer()}
		k.producers.give(r)
		k.answer()
		k.next()
	case catalog.CreateTopic, catalog.AddPartitions:
		r.Topic = k.state.Image().ByID(k.command.ID)
		k.answer()
		k.next()
	case catalog.AlterTopic:
		r.Topic = k.state.Image().ByID(k.command.ID)
		k.spread(stepConfigure, k, r.Topic)
	case catalog.DeleteTopic:
		k.spread(stepDrop, &removal{k: k, topic: r.Topic, left: k.b.node.Shards()}, r.Topic)
	}
}

// spread brings a change to every shard.
func (k *keeper) spread(kind stepKind, owner stepOwner, t *catalog.Topic) {
	steps := make([]step, k.b.node.Shards())
	k.steps, k.unseen = steps, len(steps)
	for i := range steps {
		s := &steps[i]
		*s = step{kind: kind, topic: t, to: i, from: k.b.id, owner: owner}
		k.b.post(i, Message{kind: msgStep, body: s}, &s.wait)
	}
}

// passed counts a step that the answer has waited for.
func (k *keeper) passed(s *step) {
	if r := k.queue[0]; s.err != nil {
		r.refuse(Storage, fmt.Sprintf("the change is recorded; shard %d: %v", s.to, s.err))
	}
	if k.unseen--; k.unseen == 0 {
		k.answer()
		k.next()
	}
}

func (*keeper) stepSeen(*step) {}

// stepDone hears that a shard works by new settings.
func (k *keeper) stepDone(s *step) { k.passed(s) }

// removal is the deletion of a topic, which goes on after it has been answered.
type removal struct {
	k     *keeper
	topic *catalog.Topic
	left  int // shards that have something of it in memory
}

// stepSeen hears that a shard takes and serves nothing of the topic any more.
func (d *removal) stepSeen(s *step) { d.k.passed(s) }

// stepDone hears that a shard has nothing of the topic in memory. When none has, the
// files can go.
func (d *removal) stepDone(*step) {
	if d.left--; d.left == 0 {
		d.k.cleaner.Add(layout.TopicDir(d.k.b.node.opts.Dir, d.topic.Name, d.topic.ID))
	}
}

// producerBlock is how many producer ids the catalog takes at a time.
const producerBlock = 1000

// lostProducers is more than the ids that a journal can have taken: so many are left out, at
// each start, when one of the catalog's has been given up.
const lostProducers = 1 << 40

// firstProducer is the first id of the next block.
func (k *keeper) firstProducer() int64 {
	if k.part.GivenUp() && !k.skipped {
		return k.state.NextProducer() + lostProducers
	}
	return k.state.NextProducer()
}

// producerIDs are ids that have been taken from the catalog and not given out. They come
// from blocks that are durable in the catalog before the first of them is given out; what
// is left of a block when the process ends is never used. So no id is given out twice.
type producerIDs struct{ next, end int64 }

// give gives the next id to r, if there is one.
func (p *producerIDs) give(r *Admin) bool {
	if p.next == p.end {
		return false
	}
	r.Producer = p.next
	p.next++
	return true
}
