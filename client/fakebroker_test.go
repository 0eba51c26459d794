package client

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
)

// fakeBroker is a broker in memory, for the tests of this package: the protocol
// and a log, without any of what makes a broker hard. Its hooks do what real
// networks and brokers do at bad times.
type fakeBroker struct {
	t reporter

	mu        sync.Mutex
	shards    uint32
	land      func(wanted int32) uint32 // where a connection lands; nil: where it wants
	idle      time.Duration
	maxBatch  uint32
	topics    map[string]*fakeTopic
	conns     map[*fakeConn]struct{}
	hellos    []wire.HelloRequest
	refuse    wire.Code // answers every hello, if set
	down      bool      // dials fail
	changed   chan struct{}
	intercept func(c *fakeConn, h wire.Header, body []byte) fault
	wrap      func(net.Conn) net.Conn // the client's end of a new connection
	listener  net.Listener
	serving   sync.WaitGroup
	ids       int64                                            // given to producers
	judge     func(h *batch.Header, values []string) wire.Code // refuses batches, if set
	groups    *fakeGroups
	noLag     bool                  // as brokers are that cannot be asked for it
	produced  []wire.ProduceRequest // fixed parts, in order of arrival
}

// reporter is what the fake needs of a test.
type reporter interface {
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Cleanup(func())
}

// fault says what a hook does with a request.
type fault uint8

const (
	pass       fault = iota
	dropBefore       // hang up; the request is not carried out
	dropAfter        // carry it out and hang up instead of answering
	swallow          // no answer, nothing is carried out
)

type fakeTopic struct {
	name    string
	id      wire.TopicID
	class   wire.Class
	configs []wire.Config
	parts   []*fakePart
}

// fakePart is a partition: whole batches and gaps between them.
type fakePart struct {
	shard   uint16
	batches [][]byte
	start   int64
	end     int64
	known   map[int64][]batch.Header // by producer: its newest batches
}

type fakeConn struct {
	b     *fakeBroker
	nc    net.Conn
	shard uint32
	wmu   sync.Mutex
}

func newFakeBroker(t reporter) *fakeBroker {
	b := &fakeBroker{
		t: t, shards: 1, idle: 2 * time.Minute, maxBatch: 1 << 20,
		topics: map[string]*fakeTopic{}, conns: map[*fakeConn]struct{}{}, changed: make(chan struct{}),
	}
	t.Cleanup(b.stop)
	return b
}

// listen has the broker serve on a loopback socket; without it, connections are
// pipes in memory.
func (b *fakeBroker) listen() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	b.listener = l
	b.serving.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			b.serve(nc)
		}
	})
}

// stop closes everything and waits for it.
func (b *fakeBroker) stop() {
	b.mu.Lock()
	b.down = true
	b.mu.Unlock()
	if b.listener != nil {
		_ = b.listener.Close()
	}
	b.hangUp()
	b.serving.Wait()
}

// hangUp closes every connection.
func (b *fakeBroker) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		_ = c.nc.Close()
	}
	b.wakeAll()
}

var errRefused = errors.New("connection refused")

// dial is a Dialer for this broker.
func (b *fakeBroker) dial(ctx context.Context, addr string) (net.Conn, error) {
	b.mu.Lock()
	down, wrap := b.down, b.wrap
	b.mu.Unlock()
	if down {
		return nil, errRefused
	}
	var nc net.Conn
	if b.listener != nil {
		var err error
		if nc, err = dialTCP(ctx, b.listener.Addr().String()); err != nil {
			return nil, err
		}
	} else {
		var far net.Conn
		nc, far = net.Pipe()
		b.serve(far)
	}
	if wrap != nil {
		nc = wrap(nc)
	}
	return nc, nil
}

func (b *fakeBroker) setDown(down bool) {
	b.mu.Lock()
	b.down = down
	b.mu.Unlock()
	if down {
		b.hangUp()
	}
}

// onRequest installs a hook; nil removes it.
func (b *fakeBroker) onRequest(f func(c *fakeConn, h wire.Header, body []byte) fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.intercept = f
}

// addTopic makes a topic whose partitions go around the shards.
func (b *fakeBroker) addTopic(name string, partitions int) *fakeTopic {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.makeTopic(name, partitions, wire.ClassFlushed)
}

func (b *fakeBroker) makeTopic(name string, partitions int, class wire.Class) *fakeTopic {
	t := &fakeTopic{name: name, class: class}
	copy(t.id[:], name)
	t.id[15] = byte(len(b.topics) + 1)
	for i := range partitions {
		t.parts = append(t.parts, &fakePart{shard: uint16(uint32(i) % b.shards)})
	}
	b.topics[name] = t
	return t
}

// put appends a batch of values to a partition, as another producer would.
func (b *fakeBroker) put(name string, partition int, codec batch.Codec, values ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.topics[name].parts[partition]
	p.batches = append(p.batches, buildBatch(p.end, codec, values...))
	p.end += int64(len(values))
	b.wakeAll()
}

func buildBatch(base int64, codec batch.Codec, values ...string) []byte {
	bl := batch.NewBuilder(nil, batch.MaxSize)
	for i, v := range values {
		if err := bl.Append(&batch.Record{Timestamp: 1_000 * (base + int64(i)), Value: []byte(v)}); err != nil {
			panic(err)
		}
	}
	raw := slices.Clone(bl.Finish(codec))
	batch.Stamp(raw, base, 1)
	return raw
}

// values returns the values of a partition's records, in order.
func (b *fakeBroker) values(name string, partition int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, raw := range b.topics[name].parts[partition].batches {
		var d batch.Decoder
		_, it, err := d.Open(raw)
		if err != nil {
			b.t.Errorf("stored batch: %v", err)
			return nil
		}
		for it.Next() {
			r := it.Record()
			all = append(all, string(r.Value))
		}
	}
	return all
}

// counts returns how many records each stored batch has.
func (b *fakeBroker) counts(name string, partition int) []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []int
	for _, raw := range b.topics[name].parts[partition].batches {
		h, err := batch.ParseHeader(raw)
		if err != nil {
			b.t.Errorf("stored batch: %v", err)
		}
		all = append(all, int(h.Count))
	}
	return all
}

// wakeAll has waiting fetches look again. The lock is held.
func (b *fakeBroker) wakeAll() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// serve handles a connection until it ends.
func (b *fakeBroker) serve(nc net.Conn) {
	c := &fakeConn{b: b, nc: nc}
	b.mu.Lock()
	b.conns[c] = struct{}{}
	b.mu.Unlock()
	b.serving.Go(func() {
		c.loop()
		_ = nc.Close()
		b.mu.Lock()
		delete(b.conns, c)
		b.wakeAll()
		b.mu.Unlock()
	})
}

func (c *fakeConn) loop() {
	for first := true; ; first = false {
		var head [wire.HeaderSize]byte
		if _, err := io.ReadFull(c.nc, head[:]); err != nil {
			return
		}
		h, err := wire.ParseHeader(head[:], 4<<20)
		if err != nil {
			c.b.t.Errorf("the client sent a bad header: %v", err)
			return
		}
		body := make([]byte, h.BodySize())
		if _, err := io.ReadFull(c.nc, body); err != nil {
			return
		}
		if err := wire.CheckRequest(h); err != nil {
			c.b.t.Errorf("the client sent a bad request: %v", err)
			return
		}
		if first != (h.Op == wire.OpHello) {
			c.b.t.Errorf("%s at the wrong time", h.Op)
			return
		}
		if !c.step(h, body) {
			return
		}
	}
}

// step carries out one request; false hangs up.
func (c *fakeConn) step(h wire.Header, body []byte) bool {
	c.b.mu.Lock()
	hook := c.b.intercept
	c.b.mu.Unlock()
	f := pass
	if hook != nil {
		f = hook(c, h, body)
	}
	switch f {
	case dropBefore:
		return false
	case swallow:
		return true
	}
	switch h.Op {
	case wire.OpFetch:
		c.fetch(h, body)
		return true
	case wire.OpGroupHeartbeat:
		c.heartbeat(h, body)
		return true
	}
	answer := c.answer(h, body)
	if f == dropAfter {
		return false
	}
	return answer == nil || c.send(answer)
}

func (c *fakeConn) send(frame []byte) bool {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	_, err := c.nc.Write(frame)
	return err == nil
}

// answer carries out anything but a fetch.
func (c *fakeConn) answer(h wire.Header, body []byte) []byte {
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	corr := h.Correlation
	switch h.Op {
	case wire.OpHello:
		return c.hello(corr, must(wire.DecodeHelloRequest(body)))
	case wire.OpPing:
		return wire.AppendPingResponse(nil, corr)
	case wire.OpMetadata:
		return b.metadata(corr, must(wire.DecodeMetadataRequest(body)))
	case wire.OpProduce:
		return b.produce(corr, must(wire.DecodeProduceRequest(body)))
	case wire.OpProducerInit:
		b.ids++
		return wire.AppendProducerInitResponse(nil, corr, wire.ProducerInitResponse{Producer: b.ids})
	case wire.OpLag:
		return b.lag(corr, must(wire.DecodeLagRequest(body)))
	case wire.OpListOffsets:
		return b.offsets(corr, must(wire.DecodeListOffsetsRequest(body)))
	case wire.OpGroupCommit, wire.OpGroupOffsets, wire.OpGroupJoin, wire.OpGroupLeave:
		return b.group(h, body)
	}
	return b.admin(h, body)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (c *fakeConn) hello(corr uint32, r wire.HelloRequest) []byte {
	b := c.b
	b.hellos = append(b.hellos, r)
	if b.refuse != wire.CodeNone {
		return wire.AppendErrorResponse(nil, wire.OpHello, corr, b.refuse, "go away")
	}
	if r.WantedShard > 0 {
		c.shard = uint32(r.WantedShard) % b.shards
	}
	if b.land != nil {
		c.shard = b.land(r.WantedShard)
	}
	return wire.AppendHelloResponse(nil, corr, wire.HelloResponse{
		Protocol: 1, Shard: c.shard, Shards: b.shards, MaxFrame: 2 << 20, MaxBatch: b.maxBatch,
		IdleTimeout: uint32(b.idle / time.Millisecond), ServerVersion: "fake",
	})
}

func (b *fakeBroker) metadata(corr uint32, r wire.MetadataRequest) []byte {
	names := r.Topics
	if r.All {
		for name := range b.topics {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	resp := wire.MetadataResponse{Shards: b.shards}
	for _, name := range names {
		t := b.topics[name]
		if t == nil {
			resp.Topics = append(resp.Topics, wire.TopicMetadata{Code: wire.CodeUnknownTopic, Name: name})
			continue
		}
		m := wire.TopicMetadata{Name: name, ID: t.id, Class: t.class}
		for _, p := range t.parts {
			m.PartitionShards = append(m.PartitionShards, p.shard)
		}
		resp.Topics = append(resp.Topics, m)
	}
	return wire.AppendMetadataResponse(nil, corr, resp)
}

// part finds a partition by id.
func (b *fakeBroker) part(id wire.TopicID, n int32) (*fakeTopic, *fakePart, wire.Code) {
	for _, t := range b.topics {
		if t.id == id {
			if int(n) >= len(t.parts) {
				return t, nil, wire.CodeUnknownPartition
			}
			return t, t.parts[n], wire.CodeNone
		}
	}
	return nil, nil, wire.CodeUnknownTopic
}

func (b *fakeBroker) produce(corr uint32, r wire.ProduceRequest) []byte {
	fixed := r
	fixed.Batch = nil
	b.produced = append(b.produced, fixed)
	resp := wire.ProduceResponse{BaseOffset: -1, AppendTime: -1, ValidLow: -1, ValidHigh: -1}
	t, p, code := b.part(r.Topic, r.Partition)
	if code == wire.CodeNone {
		_, err := batch.Check(r.Batch, int(b.maxBatch))
		switch {
		case len(r.Batch) > int(b.maxBatch):
			code, resp.ValidLow, resp.ValidHigh = wire.CodeBatchTooLarge, 0, int64(b.maxBatch)
		case err != nil:
			b.t.Errorf("the client sent a bad batch: %v", err)
			code = wire.CodeCorruptBatch
		case t.class < r.MinClass:
			code = wire.CodeClassTooWeak
		}
	}
	if code == wire.CodeNone {
		if code, resp.BaseOffset = b.known(p, r.Batch); resp.BaseOffset >= 0 {
			resp.Class, resp.AppendTime = t.class, 1_700_000_000_000_000_000
			return wire.AppendProduceResponse(nil, corr, &resp)
		}
	}
	if resp.Code = code; code == wire.CodeNone {
		raw := slices.Clone(r.Batch)
		batch.Stamp(raw, p.end, 1)
		h := must(batch.ParseHeader(raw))
		resp.Class, resp.BaseOffset, resp.AppendTime = t.class, p.end, 1_700_000_000_000_000_000
		p.batches = append(p.batches, raw)
		p.end += int64(h.LastOffsetDelta) + 1
		b.wakeAll()
	}
	if r.Ack == wire.AckNone {
		return nil
	}
	return wire.AppendProduceResponse(nil, corr, &resp)
}

// lag takes each batch for a second of log.
func (b *fakeBroker) lag(corr uint32, r wire.LagRequest) []byte {
	if b.noLag {
		return wire.AppendErrorResponse(nil, wire.OpLag, corr, wire.CodeUnsupportedOp, "")
	}
	a := wire.LagResponse{Start: -1, End: -1, Lag: -1, Bytes: -1, LagTime: -1}
	_, p, code := b.part(r.Topic, r.Partition)
	if a.Code = code; code == wire.CodeNone {
		a.Start, a.End, a.Bytes, a.LagTime = p.start, p.end, 0, 0
		a.Lag = max(0, p.end-max(r.Offset, p.start))
		for _, raw := range p.batches {
			if h := must(batch.ParseHeader(raw)); h.LastOffset() >= r.Offset {
				a.Bytes += int64(len(raw))
				a.LagTime += int64(time.Second)
			}
		}
		a.LagTime = max(0, a.LagTime-int64(time.Second))
	}
	return wire.AppendLagResponse(nil, corr, a)
}

// known says what is to be done with a batch of an idempotent producer: nothing with one
// that is there, whose offset it returns, else -1.
func (b *fakeBroker) known(p *fakePart, raw []byte) (wire.Code, int64) {
	h := must(batch.ParseHeader(raw))
	if b.judge != nil {
		it := h.Records(raw[batch.HeaderSize:])
		var values []string
		for it.Next() {
			rec := it.Record()
			values = append(values, string(rec.Value))
		}
		if code := b.judge(&h, values); code != wire.CodeNone {
			return code, -1
		}
	}
	if h.ProducerID < 0 {
		return wire.CodeNone, -1
	}
	list := p.known[h.ProducerID]
	if n := len(list); n > 0 {
		switch last := list[n-1]; {
		case h.ProducerEpoch < last.ProducerEpoch:
			return wire.CodeFencedProducer, -1
		case h.ProducerEpoch > last.ProducerEpoch && h.BaseSequence != 0:
			return wire.CodeOutOfOrderSequence, -1
		case h.ProducerEpoch > last.ProducerEpoch:
			list = nil
		default:
			for _, o := range list[max(0, n-5):] {
				if o.BaseSequence == h.BaseSequence && o.Count == h.Count {
					return wire.CodeNone, o.BaseOffset
				}
			}
			if h.BaseSequence != last.LastSequence()+1 {
				return wire.CodeOutOfOrderSequence, -1
			}
		}
	}
	h.BaseOffset = p.end
	if p.known == nil {
		p.known = map[int64][]batch.Header{}
	}
	p.known[h.ProducerID] = append(list, h)
	return wire.CodeNone, -1
}

func (b *fakeBroker) offsets(corr uint32, r wire.ListOffsetsRequest) []byte {
	_, p, code := b.part(r.Topic, r.Partition)
	resp := wire.ListOffsetsResponse{Code: code, Offset: -1, Timestamp: -1}
	switch {
	case code != wire.CodeNone:
	case r.Time == wire.TimeStart:
		resp.Offset = p.start
	case r.Time == wire.TimeEnd:
		resp.Offset = p.end
	default: // buildBatch stamps records with a second for each offset
		resp.Offset = min((r.Time+999)/1000, p.end)
		resp.Timestamp = 1_000 * resp.Offset
	}
	return wire.AppendListOffsetsResponse(nil, corr, resp)
}

func (b *fakeBroker) admin(h wire.Header, body []byte) []byte {
	switch h.Op {
	case wire.OpTopicCreate:
		r := must(wire.DecodeTopicCreateRequest(body))
		if b.topics[r.Name] != nil {
			return wire.AppendTopicCreateResponse(nil, h.Correlation, wire.TopicCreateResponse{Code: wire.CodeTopicExists, Message: r.Name})
		}
		class := wire.ClassFlushed
		for _, c := range r.Configs {
			if c.Key == "durability" {
				class, _ = wire.ParseClass(c.Value)
			}
		}
		t := b.makeTopic(r.Name, max(1, int(r.Partitions)), class)
		t.configs = r.Configs
		return wire.AppendTopicCreateResponse(nil, h.Correlation, wire.TopicCreateResponse{ID: t.id})
	case wire.OpTopicAlter:
		r := must(wire.DecodeTopicAlterRequest(body))
		res := wire.TopicResult{}
		if t := b.topics[r.Name]; t != nil {
			t.configs = r.Configs
		} else {
			res.Code = wire.CodeUnknownTopic
		}
		return wire.AppendTopicResult(nil, h.Op, h.Correlation, res)
	case wire.OpTopicGrow:
		r := must(wire.DecodeTopicGrowRequest(body))
		res := wire.TopicResult{}
		switch t := b.topics[r.Name]; {
		case t == nil:
			res.Code = wire.CodeUnknownTopic
		case int(r.Partitions) < len(t.parts):
			res.Code, res.Message = wire.CodeInvalidPartitions, "there can only be more"
		default:
			for i := uint32(len(t.parts)); i < r.Partitions; i++ {
				t.parts = append(t.parts, &fakePart{shard: uint16(i % b.shards)})
			}
			b.groupState().state.TopicsChanged()
		}
		return wire.AppendTopicResult(nil, h.Op, h.Correlation, res)
	case wire.OpTopicDelete:
		r := must(wire.DecodeTopicDeleteRequest(body))
		res := wire.TopicResult{}
		if b.topics[r.Name] == nil {
			res.Code = wire.CodeUnknownTopic
		}
		delete(b.topics, r.Name)
		return wire.AppendTopicResult(nil, h.Op, h.Correlation, res)
	}
	r := must(wire.DecodeTopicDescribeRequest(body))
	t := b.topics[r.Name]
	if t == nil {
		return wire.AppendTopicDescribeResponse(nil, h.Correlation, &wire.TopicDescribeResponse{Code: wire.CodeUnknownTopic})
	}
	resp := wire.TopicDescribeResponse{ID: t.id, Class: t.class}
	for _, c := range t.configs {
		resp.Configs = append(resp.Configs, wire.DescribedConfig{Key: c.Key, Value: c.Value, Source: wire.SourceTopic})
	}
	for _, p := range t.parts {
		resp.Partitions = append(resp.Partitions, wire.PartitionDescription{Shard: uint32(p.shard), LogStart: p.start, Durable: p.end, End: p.end})
	}
	return wire.AppendTopicDescribeResponse(nil, h.Correlation, &resp)
}

// fetch answers when there is something to read or the wait is over.
func (c *fakeConn) fetch(h wire.Header, body []byte) {
	r := must(wire.DecodeFetchRequest(body))
	b := c.b
	b.serving.Go(func() {
		wait := time.NewTimer(time.Duration(r.MaxWait) * time.Millisecond)
		defer wait.Stop()
		over := false
		for {
			b.mu.Lock()
			resp, ready := b.read(&r)
			changed := b.changed
			_, alive := b.conns[c]
			b.mu.Unlock()
			if !alive {
				return
			}
			if ready || over {
				c.send(wire.AppendFetchResponse(nil, h.Correlation, &resp))
				return
			}
			select {
			case <-changed:
			case <-wait.C:
				over = true
			}
		}
	})
}

// read gathers whole batches; the lock is held.
func (b *fakeBroker) read(r *wire.FetchRequest) (wire.FetchResponse, bool) {
	t, p, code := b.part(r.Topic, r.Partition)
	resp := wire.FetchResponse{Code: code, LogStart: -1, Durable: -1, End: -1, NewestAppendTime: -1, NextOffset: -1}
	if code != wire.CodeNone {
		return resp, true
	}
	resp.Class, resp.LogStart, resp.Durable, resp.End, resp.NextOffset = t.class, p.start, p.end, p.end, r.Offset
	if r.Offset < p.start || r.Offset > p.end {
		resp.Code, resp.NextOffset = wire.CodeOffsetOutOfRange, -1
		return resp, true
	}
	records := 0
	for _, raw := range p.batches {
		h := must(batch.ParseHeader(raw))
		if h.NextOffset() <= r.Offset {
			continue
		}
		records += int(h.Count)
		if n := len(resp.Batches); n > 0 && (n+len(raw) > int(r.MaxBytes) || r.MaxRecords > 0 && records > int(r.MaxRecords)) {
			break
		}
		resp.Batches = append(resp.Batches, raw...)
		resp.NextOffset = h.NextOffset()
	}
	if len(resp.Batches) == 0 && r.Offset < p.end {
		resp.NextOffset = p.end // a gap at the end
		return resp, true
	}
	return resp, len(resp.Batches) >= max(1, int(r.MinBytes)) || r.MaxWait == 0
}
