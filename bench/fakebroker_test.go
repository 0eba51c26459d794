package bench

import (
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench/drive"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/net/wire"
)

// simPlatform runs measurements on a simulated machine in real time.
type simPlatform struct{ w *sim.World }

func newSimPlatform() simPlatform {
	return simPlatform{sim.New(sim.Options{Seed: 1, Mode: sim.RealTime})}
}

func (p simPlatform) NewDriver(o aio.Options) (aio.Driver, error) { return p.w.Driver(o), nil }
func (p simPlatform) Pin(int) error                               { return nil }
func (p simPlatform) Yield()                                      { runtime.Gosched() }

// misdeed is what a broker must not do.
type misdeed uint8

const (
	honest       misdeed = iota
	lose                 // acknowledges and does not store
	duplicate            // stores twice
	reorder              // stores the next batch first
	corrupt              // changes a byte of the message, and makes the batch's CRC fit
	misplace             // acknowledges another offset than it stores at
	refuse               // answers with an error, and stores nothing
	keepSilent           // stores and never answers
	foreignBatch         // stores a message of nobody
)

// fakeBroker speaks the batch protocol and keeps batches in memory, on a driver
// and a thread of its own. It does its misdeed once, to the fifth batch.
type fakeBroker struct {
	t     *testing.T
	drv   aio.Driver
	loop  *drive.Loop
	links []*drive.Link
	addr  string
	do    misdeed
	stall time.Duration // before the fiftieth batch it does nothing for so long
	seen  int
	held  []byte

	topics   map[string]*fakeTopic
	waiting  []fakeFetch
	class    wire.Class // of topics; 0: as asked
	accept   aio.Op
	stop     atomic.Bool
	done     sync.WaitGroup
	produced atomic.Int64
}

type fakeTopic struct {
	id    wire.TopicID
	class wire.Class
	parts [][][]byte // batches by partition
	ends  []int64
}

type fakeFetch struct {
	l    *drive.Link
	corr uint32
	req  wire.FetchRequest
}

func startFake(t *testing.T, p simPlatform, do misdeed) *fakeBroker {
	t.Helper()
	b := &fakeBroker{t: t, do: do, topics: map[string]*fakeTopic{}}
	started := make(chan error, 1)
	b.done.Go(func() {
		err := drive.OnThread(p, NoCPU, aio.Options{ArenaBytes: 64 << 20}, func(drv aio.Driver) error {
			b.drv, b.loop = drv, drive.NewLoop(drv, p, Block)
			sock, addr, err := drv.Listen("127.0.0.1:0", aio.ListenAlone)
			b.addr = addr
			b.accept = aio.Op{Kind: aio.KindAccept, Sock: sock, Owner: b}
			drv.Submit(&b.accept)
			started <- err
			for !b.stop.Load() {
				for _, l := range b.links {
					l.Flush()
				}
				if err := b.loop.Turn(drive.Far); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("fake broker: %v", err)
		}
	})
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.stop.Store(true)
		b.done.Wait()
	})
	return b
}

func (b *fakeBroker) Complete(op *aio.Op) {
	if op.Err != nil {
		return
	}
	l, err := drive.NewLink(b.drv, op.NewSock, b, 4<<20, 1<<20)
	if err != nil {
		b.t.Errorf("fake broker: %v", err)
		return
	}
	b.links = append(b.links, l)
}

// put appends a response to what a link sends.
func (b *fakeBroker) put(l *drive.Link, build func(dst []byte) []byte) {
	dst := l.Room(2 << 20)
	if dst == nil {
		b.t.Error("fake broker: no room")
		return
	}
	l.Filled(build(dst))
}

func (b *fakeBroker) Frame(l *drive.Link, h wire.Header, body []byte, _ int64) error {
	switch h.Op {
	case wire.OpHello:
		b.put(l, func(dst []byte) []byte {
			return wire.AppendHelloResponse(dst, h.Correlation, wire.HelloResponse{Protocol: wire.Protocol, Shards: 1, MaxFrame: 2 << 20, MaxBatch: 1 << 20})
		})
	case wire.OpTopicCreate:
		return b.create(l, h, body)
	case wire.OpMetadata:
		return b.metadata(l, h, body)
	case wire.OpTopicDelete:
		b.put(l, func(dst []byte) []byte {
			return wire.AppendTopicResult(dst, wire.OpTopicDelete, h.Correlation, wire.TopicResult{})
		})
	case wire.OpProduce:
		return b.produce(l, h, body)
	case wire.OpListOffsets:
		req, err := wire.DecodeListOffsetsRequest(body)
		if err != nil {
			return err
		}
		b.put(l, func(dst []byte) []byte {
			return wire.AppendListOffsetsResponse(dst, h.Correlation, wire.ListOffsetsResponse{Offset: b.topic(req.Topic).ends[req.Partition], Timestamp: -1})
		})
	case wire.OpFetch:
		req, err := wire.DecodeFetchRequest(body)
		if err != nil {
			return err
		}
		b.waiting = append(b.waiting, fakeFetch{l, h.Correlation, req})
		b.answerFetches()
	}
	return nil
}

func (b *fakeBroker) create(l *drive.Link, h wire.Header, body []byte) error {
	req, err := wire.DecodeTopicCreateRequest(body)
	if err != nil {
		return err
	}
	t := &fakeTopic{parts: make([][][]byte, req.Partitions), ends: make([]int64, req.Partitions)}
	t.id[0] = byte(len(b.topics) + 1)
	t.class, _ = wire.ParseClass(req.Configs[0].Value)
	if b.class != 0 {
		t.class = b.class
	}
	b.topics[req.Name] = t
	b.put(l, func(dst []byte) []byte {
		return wire.AppendTopicCreateResponse(dst, h.Correlation, wire.TopicCreateResponse{ID: t.id})
	})
	return nil
}

func (b *fakeBroker) metadata(l *drive.Link, h wire.Header, body []byte) error {
	req, err := wire.DecodeMetadataRequest(body)
	if err != nil {
		return err
	}
	resp := wire.MetadataResponse{Shards: 1}
	for _, name := range req.Topics {
		t := b.topics[name]
		resp.Topics = append(resp.Topics, wire.TopicMetadata{Name: name, ID: t.id, Class: t.class, PartitionShards: make([]uint16, len(t.parts))})
	}
	b.put(l, func(dst []byte) []byte { return wire.AppendMetadataResponse(dst, h.Correlation, resp) })
	return nil
}

func (b *fakeBroker) topic(id wire.TopicID) *fakeTopic {
	for _, t := range b.topics {
		if t.id == id {
			return t
		}
	}
	b.t.Errorf("fake broker: no topic %s", id)
	return nil
}

func (b *fakeBroker) produce(l *drive.Link, h wire.Header, body []byte) error {
	req, err := wire.DecodeProduceRequest(body)
	if err != nil {
		return err
	}
	if _, err := batch.Check(req.Batch, 1<<20); err != nil {
		b.t.Errorf("fake broker: %v", err)
		return err
	}
	if b.produced.Add(1) == 50 && b.stall > 0 {
		time.Sleep(b.stall)
	}
	t := b.topic(req.Topic)
	resp := wire.ProduceResponse{Class: t.class, ValidLow: -1, ValidHigh: -1}
	if b.seen++; b.seen == 5 {
		b.misbehave(t, req, &resp)
	} else {
		resp.BaseOffset = b.store(t, req.Partition, req.Batch)
		if b.held != nil {
			b.store(t, req.Partition, b.held)
			b.held = nil
		}
	}
	if b.do != keepSilent || b.seen != 5 {
		b.put(l, func(dst []byte) []byte { return wire.AppendProduceResponse(dst, h.Correlation, &resp) })
	}
	b.answerFetches()
	return nil
}

// misbehave does the misdeed to one batch.
func (b *fakeBroker) misbehave(t *fakeTopic, req wire.ProduceRequest, resp *wire.ProduceResponse) {
	p := req.Partition
	switch b.do {
	case lose:
		resp.BaseOffset = t.ends[p]
		h, err := batch.ParseHeader(req.Batch)
		if err != nil {
			b.t.Error(err)
		}
		t.ends[p] += int64(h.Count)
	case duplicate:
		resp.BaseOffset = b.store(t, p, req.Batch)
		b.store(t, p, req.Batch)
	case reorder:
		// The next batch goes in front of this one; a batch has one message.
		b.held = slices.Clone(req.Batch)
		resp.BaseOffset = t.ends[p] + 1
	case corrupt, foreignBatch:
		bad := slices.Clone(req.Batch)
		bad[len(bad)-2] ^= 1 // the last byte is the number of headers
		binary.BigEndian.PutUint32(bad[batch.AtCRC:], batch.Checksum(bad))
		if b.do == foreignBatch {
			resp.BaseOffset = b.store(t, p, req.Batch)
			b.store(t, p, bad)
			return
		}
		resp.BaseOffset = b.store(t, p, bad)
	case misplace:
		resp.BaseOffset = b.store(t, p, req.Batch) + 1
	case refuse:
		*resp = wire.ProduceResponse{Code: wire.CodeBackpressure, BaseOffset: -1, AppendTime: -1, ValidLow: -1, ValidHigh: -1, Message: "full"}
	default:
		resp.BaseOffset = b.store(t, p, req.Batch)
	}
}

// store appends a batch and returns its base offset.
func (b *fakeBroker) store(t *fakeTopic, p int32, data []byte) int64 {
	data = slices.Clone(data)
	base := t.ends[p]
	batch.Stamp(data, base, 0)
	h, err := batch.ParseHeader(data)
	if err != nil {
		b.t.Error(err)
	}
	t.parts[p] = append(t.parts[p], data)
	t.ends[p] += int64(h.Count)
	return base
}

// answerFetches answers those that find something or do not wait.
func (b *fakeBroker) answerFetches() {
	b.waiting = slices.DeleteFunc(b.waiting, func(f fakeFetch) bool {
		t, p := b.topic(f.req.Topic), f.req.Partition
		end := t.ends[p]
		resp := wire.FetchResponse{Class: t.class, Durable: end, End: end, NextOffset: end}
		var data []byte
		for _, stored := range t.parts[p] {
			h, err := batch.ParseHeader(stored)
			if err != nil {
				b.t.Error(err)
			}
			if h.NextOffset() > f.req.Offset && (len(data) == 0 || len(data)+len(stored) < 256<<10) {
				data = append(data, stored...)
				resp.NextOffset = h.NextOffset()
			} else if h.NextOffset() > f.req.Offset {
				break
			}
		}
		if len(data) == 0 && f.req.MaxWait > 0 {
			return false
		}
		resp.Batches = data
		b.put(f.l, func(dst []byte) []byte { return wire.AppendFetchResponse(dst, f.corr, &resp) })
		return true
	})
}
