package native_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/wire"
)

// client speaks the protocol as frames, with nothing of package client.
type client struct {
	r          *rig
	sock       aio.Sock
	send, recv aio.Op
	out        []byte
	buf        []byte
	got        []byte
	eof        bool
	err        error
	deaf       bool
	lenient    bool // correlation ids may be used twice
	closed     bool
	closeOp    aio.Op

	corr    uint32
	hello   wire.HelloResponse
	answers map[uint32]answer
	order   []uint32 // correlation ids as answers came
}

// answer is a response frame.
type answer struct {
	h    wire.Header
	body []byte
}

// raw dials and says nothing.
func (r *rig) raw() *client {
	r.t.Helper()
	c := &client{r: r, sock: must(r.far.Dial(r.addr)), answers: map[uint32]answer{}}
	c.buf = must(r.far.Alloc(64 << 10))
	c.listen()
	r.clients = append(r.clients, c)
	return c
}

// dial dials and says hello.
func (r *rig) dial() *client { return r.dialShard(wire.AnyShard) }

func (r *rig) dialShard(want int32) *client {
	r.t.Helper()
	c := r.raw()
	corr := c.sayHello(want)
	c.hello = must(wire.DecodeHelloResponse(c.wait(corr).body))
	return c
}

func (c *client) sayHello(want int32) uint32 {
	return c.do(func(corr uint32) []byte {
		return wire.AppendHelloRequest(nil, corr, wire.HelloRequest{MinProtocol: 1, MaxProtocol: 1, WantedShard: want, ClientID: "test"})
	})
}

// do sends the request that frame makes and returns its correlation id.
func (c *client) do(frame func(corr uint32) []byte) uint32 {
	c.corr++
	c.write(frame(c.corr))
	return c.corr
}

// wait waits for the answer to a request.
func (c *client) wait(corr uint32) answer {
	c.r.t.Helper()
	c.r.until("an answer", func() bool { _, ok := c.answers[corr]; return ok || c.ended() })
	a, ok := c.answers[corr]
	if !ok {
		c.r.t.Fatalf("the connection ended without an answer to %d", corr)
	}
	return a
}

func (c *client) answered(corr uint32) bool { _, ok := c.answers[corr]; return ok }

func (c *client) listen() {
	c.recv.Kind, c.recv.Sock, c.recv.Owner = aio.KindRecv, c.sock, c
	c.r.far.Submit(&c.recv)
}

// stopReading makes the client one that reads nothing.
func (c *client) stopReading() {
	c.deaf = true
	c.r.far.Cancel(&c.recv)
	c.r.until("receive cancelled", func() bool { return !c.recv.InFlight() })
}

func (c *client) startReading() {
	c.deaf = false
	c.listen()
}

func (c *client) write(b []byte) {
	c.out = append(c.out, b...)
	c.push()
}

func (c *client) push() {
	if c.send.InFlight() || len(c.out) == 0 || c.closed || c.err != nil {
		return
	}
	n := copy(c.buf, c.out)
	c.out = c.out[n:]
	c.send.Kind, c.send.Sock, c.send.Owner = aio.KindSend, c.sock, c
	c.send.Vec = [][]byte{c.buf[:n]}
	c.r.far.Submit(&c.send)
}

func (c *client) Complete(op *aio.Op) {
	switch {
	case op.Kind == aio.KindSend:
		if op.Err != nil {
			c.err = op.Err
			return
		}
		c.push()
	case op.Kind == aio.KindCloseSock, errors.Is(op.Err, aio.ErrCanceled):
	case errors.Is(op.Err, aio.ErrNoBuffers):
		c.listen()
	case op.Err != nil:
		c.err = op.Err
	case len(op.Data) > 0:
		c.got = append(c.got, op.Data...)
		c.r.far.ReleaseBuf(op.BufID)
		c.parse()
		if !op.More && !c.deaf {
			c.listen()
		}
	default:
		c.eof = true
	}
}

// parse takes whole frames off what was received.
func (c *client) parse() {
	for {
		h, err := wire.ParseHeader(c.got, 64<<20)
		if errors.Is(err, wire.ErrShort) || err == nil && len(c.got) < h.FrameSize() {
			return
		}
		if err != nil || !h.IsResponse() {
			c.r.t.Fatalf("not a response: %+v, %v", h, err)
		}
		if _, twice := c.answers[h.Correlation]; twice && !c.lenient {
			c.r.t.Fatalf("request %d was answered twice", h.Correlation)
		}
		c.answers[h.Correlation] = answer{h, append([]byte(nil), c.got[wire.HeaderSize:h.FrameSize()]...)}
		c.order = append(c.order, h.Correlation)
		c.got = c.got[h.FrameSize():]
	}
}

func (c *client) ended() bool { return c.eof || c.err != nil }

func (c *client) close() {
	c.closed = true
	c.r.far.Cancel(&c.recv)
	c.r.far.Cancel(&c.send)
	c.r.until("client idle", func() bool { return !c.recv.InFlight() && !c.send.InFlight() })
	c.closeOp.Kind, c.closeOp.Sock, c.closeOp.Owner = aio.KindCloseSock, c.sock, c
	c.r.far.Submit(&c.closeOp)
	c.r.until("client closed", func() bool { return !c.closeOp.InFlight() })
}

// create makes a topic with a class.
func (c *client) create(name string, partitions uint32, configs ...wire.Config) wire.TopicID {
	c.r.t.Helper()
	a := must(wire.DecodeTopicCreateResponse(c.wait(c.do(func(corr uint32) []byte {
		return wire.AppendTopicCreateRequest(nil, corr, wire.TopicCreateRequest{Name: name, Partitions: partitions, Configs: configs})
	})).body))
	if a.Code != wire.CodeNone {
		c.r.t.Fatalf("create %s: %v: %s", name, a.Code, a.Message)
	}
	return a.ID
}

func (c *client) beginProduce(r wire.ProduceRequest) uint32 {
	return c.do(func(corr uint32) []byte { return wire.AppendProduceRequest(nil, corr, &r) })
}

func (c *client) produce(id wire.TopicID, b []byte) wire.ProduceResponse {
	c.r.t.Helper()
	return must(wire.DecodeProduceResponse(c.wait(c.beginProduce(wire.ProduceRequest{Topic: id, Batch: b})).body))
}

func (c *client) mustProduce(id wire.TopicID, b []byte) int64 {
	c.r.t.Helper()
	a := c.produce(id, b)
	if a.Code != wire.CodeNone {
		c.r.t.Fatalf("produce: %+v", a)
	}
	return a.BaseOffset
}

func (c *client) beginFetch(r wire.FetchRequest) uint32 {
	return c.do(func(corr uint32) []byte { return wire.AppendFetchRequest(nil, corr, &r) })
}

func (c *client) fetch(r wire.FetchRequest) wire.FetchResponse {
	c.r.t.Helper()
	return c.fetched(c.beginFetch(r))
}

func (c *client) fetched(corr uint32) wire.FetchResponse {
	c.r.t.Helper()
	a := c.wait(corr)
	if a.h.IsError() {
		c.r.t.Fatalf("fetch: %+v", must(wire.DecodeErrorResponse(a.body)))
	}
	return must(wire.DecodeFetchResponse(a.body))
}

// refused waits for the error response to a request.
func (c *client) refused(corr uint32) wire.ErrorResponse {
	c.r.t.Helper()
	a := c.wait(corr)
	if !a.h.IsError() {
		c.r.t.Fatalf("request %d was not refused: %+v", corr, a.h)
	}
	return must(wire.DecodeErrorResponse(a.body))
}

// records makes a record batch of messages.
func records(codec batch.Codec, values ...[]byte) []byte {
	b := batch.NewBuilder(nil, batch.MaxSize)
	for i, v := range values {
		if err := b.Append(&batch.Record{Timestamp: int64(1000 + i), Value: v}); err != nil {
			panic(err)
		}
	}
	return b.Finish(codec)
}

// values are n messages of a size each, all different.
func values(n, size, seed int) [][]byte {
	vs := make([][]byte, n)
	for i := range vs {
		v := make([]byte, size)
		x := uint32(seed*1000+i)*2654435761 + 1
		for j := range v {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
			v[j] = byte(x)
		}
		vs[i] = v
	}
	return vs
}

// plainBatch makes a plain batch of messages.
func plainBatch(values ...[]byte) []byte {
	body := 0
	for _, v := range values {
		body += len(v)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(12+8*len(values)+body))
	b = binary.BigEndian.AppendUint32(b, uint32(len(values)))
	b = binary.BigEndian.AppendUint32(b, uint32(body))
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
		b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(v))
		b = append(b, v...)
	}
	return b
}

// messages are the values in the batches of a fetch's answer from an offset on.
func messages(b []byte, from int64) [][]byte {
	var vs [][]byte
	var d batch.Decoder
	for len(b) > 0 {
		first, rest, err := batch.Split(b)
		if err != nil {
			panic(err)
		}
		_, it, err := d.Open(first)
		if err != nil {
			panic(err)
		}
		for it.Next() {
			if r := it.Record(); r.Offset >= from {
				vs = append(vs, append([]byte(nil), r.Value...))
			}
		}
		if it.Err() != nil {
			panic(it.Err())
		}
		b = rest
	}
	return vs
}
