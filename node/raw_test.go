package node

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
)

// anyShard is the wish of a connection that has none.
const anyShard = -1

// raw is a connection that says what a test wants it to say.
type raw struct {
	t     testing.TB
	c     net.Conn
	r     *bufio.Reader
	last  uint32 // correlation
	hello wire.HelloResponse
	early map[uint32]answer // that came before somebody asked for them
}

// answer is a response frame.
type answer struct {
	h    wire.Header
	body []byte
}

// open opens a connection without saying hello.
func (r *rig) open() *raw {
	r.t.Helper()
	c, err := r.w.DialConn(r.cfg.Listen)
	if err != nil {
		r.t.Fatalf("dial: %v", err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	return &raw{t: r.t, c: c, r: bufio.NewReader(c), early: map[uint32]answer{}}
}

// connect opens a connection that wants a shard, and shakes hands.
func (r *rig) connect(shard int32) *raw {
	r.t.Helper()
	c := r.open()
	c.send(c.helloFrame(shard))
	if err := c.welcomed(); err != nil {
		r.t.Fatalf("hello: %v", err)
	}
	return c
}

func (c *raw) helloFrame(shard int32) []byte {
	c.last++
	return wire.AppendHelloRequest(nil, c.last, wire.HelloRequest{
		MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, WantedShard: shard, ClientID: "raw", Tenant: "tenant",
	})
}

// welcomed takes the answer to the hello.
func (c *raw) welcomed() error {
	a, err := c.next()
	if err != nil {
		return err
	}
	if a.h.Op != wire.OpHello || a.h.IsError() {
		return fmt.Errorf("answered by %v, flags %x", a.h.Op, a.h.Flags)
	}
	c.hello, err = wire.DecodeHelloResponse(a.body)
	return err
}

func (c *raw) send(b []byte) {
	c.t.Helper()
	if _, err := c.c.Write(b); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// next reads a frame.
func (c *raw) next() (answer, error) {
	head := make([]byte, wire.HeaderSize)
	if _, err := io.ReadFull(c.r, head); err != nil {
		return answer{}, err
	}
	h, err := wire.ParseHeader(head, 64<<20)
	if err != nil {
		return answer{}, err
	}
	body := make([]byte, h.BodySize())
	_, err = io.ReadFull(c.r, body)
	return answer{h, body}, err
}

// wait reads until the answer to a request has come.
func (c *raw) wait(correlation uint32) answer {
	c.t.Helper()
	for {
		if a, ok := c.early[correlation]; ok {
			delete(c.early, correlation)
			return a
		}
		a, err := c.next()
		if err != nil {
			c.t.Fatalf("waiting for answer %d: %v", correlation, err)
		}
		c.early[a.h.Correlation] = a
	}
}

// mustEnd waits for the end of the connection; whatever comes before is dropped.
func (c *raw) mustEnd() {
	c.t.Helper()
	for {
		if _, err := c.next(); err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				c.t.Fatal("the connection does not end")
			}
			return
		}
	}
}

// produce sends a batch and returns its correlation.
func (c *raw) produce(topic wire.TopicID, partition int32, data []byte) uint32 {
	c.t.Helper()
	c.last++
	c.send(wire.AppendProduceRequest(nil, c.last, &wire.ProduceRequest{Topic: topic, Partition: partition, Batch: data}))
	return c.last
}

// produced waits for the outcome of a produce.
func (c *raw) produced(correlation uint32) wire.ProduceResponse {
	c.t.Helper()
	a := c.wait(correlation)
	r, err := wire.DecodeProduceResponse(a.body)
	if err != nil || a.h.IsError() {
		c.t.Fatalf("produce answered with %x: %v", a.body, err)
	}
	return r
}

// fetch asks and returns the correlation.
func (c *raw) fetch(q wire.FetchRequest) uint32 {
	c.t.Helper()
	c.last++
	c.send(wire.AppendFetchRequest(nil, c.last, &q))
	return c.last
}

func (c *raw) fetched(correlation uint32) wire.FetchResponse {
	c.t.Helper()
	a := c.wait(correlation)
	r, err := wire.DecodeFetchResponse(a.body)
	if err != nil || a.h.IsError() {
		c.t.Fatalf("fetch answered with %x: %v", a.body, err)
	}
	return r
}

// ping asks for an answer, which shows that everything sent before has arrived.
func (c *raw) ping() {
	c.t.Helper()
	c.last++
	c.send(wire.AppendPingRequest(nil, c.last))
	if a := c.wait(c.last); a.h.Op != wire.OpPing {
		c.t.Fatalf("ping answered by %v", a.h.Op)
	}
}

// metadata asks for one topic.
func (c *raw) metadata(topic string) wire.TopicMetadata {
	c.t.Helper()
	c.last++
	c.send(wire.AppendMetadataRequest(nil, c.last, wire.MetadataRequest{Topics: []string{topic}}))
	a := c.wait(c.last)
	r, err := wire.DecodeMetadataResponse(a.body)
	if err != nil || len(r.Topics) != 1 {
		c.t.Fatalf("metadata: %+v, %v", r, err)
	}
	return r.Topics[0]
}

// batchOf is a record batch with one value in each record.
func batchOf(t testing.TB, values ...[]byte) []byte {
	t.Helper()
	b := batch.NewBuilder(nil, batch.MaxSize)
	for _, v := range values {
		if err := b.Append(&batch.Record{Value: v, Timestamp: 1}); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish(batch.CodecNone)
}

// valuesOf are the values of the records in batches, by offset.
func valuesOf(t testing.TB, batches []byte) (values [][]byte, offsets []int64) {
	t.Helper()
	var d batch.Decoder
	for len(batches) > 0 {
		b, rest, err := batch.Split(batches)
		if err != nil {
			t.Fatal(err)
		}
		_, it, err := d.Open(b)
		if err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			rec := it.Record()
			values = append(values, append([]byte(nil), rec.Value...))
			offsets = append(offsets, rec.Offset)
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		batches = rest
	}
	return values, offsets
}
