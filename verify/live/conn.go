package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

const (
	// protocol is the version of the batch protocol that is spoken here.
	protocol = 1
	// helloFrame bounds a frame before the broker has told its own limit, in bytes.
	helloFrame = 64 << 10
)

// errAnswer is an answer that the protocol does not allow.
var errAnswer = errors.New("the broker's answer is not what the protocol says")

// conn is a connection on which one request is under way at a time.
type conn struct {
	c       net.Conn
	timeout time.Duration
	limit   uint32 // bytes of a frame
	corr    uint32
	out, in []byte
}

// dial connects and says hello.
func dial(ctx context.Context, o *Options) (*conn, error) {
	d := net.Dialer{Timeout: o.Timeout}
	nc, err := d.DialContext(ctx, "tcp", o.Server)
	if err != nil {
		return nil, err
	}
	c := &conn{c: nc, timeout: o.Timeout, limit: helloFrame}
	body, err := c.ask(wire.OpHello, func(dst []byte, corr uint32) []byte {
		return wire.AppendHelloRequest(dst, corr, wire.HelloRequest{MinProtocol: protocol, MaxProtocol: protocol, WantedShard: wire.AnyShard, ClientID: o.ClientID})
	})
	if err == nil {
		var h wire.HelloResponse
		if h, err = wire.DecodeHelloResponse(body); err == nil {
			c.limit = h.MaxFrame
		}
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *conn) close() { _ = c.c.Close() } // everything that matters has been read

// ask sends a request and returns the body of its answer, which is valid until the next
// request.
func (c *conn) ask(op wire.Op, request func(dst []byte, corr uint32) []byte) ([]byte, error) {
	c.corr++
	c.out = request(c.out[:0], c.corr)
	if err := c.c.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	if _, err := c.c.Write(c.out); err != nil {
		return nil, err
	}
	var head [wire.HeaderSize]byte
	if _, err := io.ReadFull(c.c, head[:]); err != nil {
		return nil, err
	}
	h, err := wire.ParseHeader(head[:], c.limit)
	if err != nil {
		return nil, err
	}
	n := h.BodySize()
	if cap(c.in) < n {
		c.in = make([]byte, n)
	}
	body := c.in[:n]
	if _, err := io.ReadFull(c.c, body); err != nil {
		return nil, err
	}
	if h.IsError() {
		e, err := wire.DecodeErrorResponse(body)
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%v: %v: %s", op, e.Code, e.Message)
	}
	if h.Op != op || h.Correlation != c.corr || h.Flags&wire.FlagResponse == 0 {
		return nil, fmt.Errorf("%w: expected that of %v, number %d, found one of %v, number %d", errAnswer, op, c.corr, h.Op, h.Correlation)
	}
	return body, nil
}

// metadata looks a topic up, or all for "".
func (c *conn) metadata(topic string) (wire.MetadataResponse, error) {
	r := wire.MetadataRequest{All: topic == ""}
	if topic != "" {
		r.Topics = []string{topic}
	}
	body, err := c.ask(wire.OpMetadata, func(dst []byte, corr uint32) []byte { return wire.AppendMetadataRequest(dst, corr, r) })
	if err != nil {
		return wire.MetadataResponse{}, err
	}
	return wire.DecodeMetadataResponse(body)
}

// offset is the offset of a partition at a time, which may be one with a meaning of its
// own.
func (c *conn) offset(p *partition, at int64) (int64, wire.Code, error) {
	body, err := c.ask(wire.OpListOffsets, func(dst []byte, corr uint32) []byte {
		return wire.AppendListOffsetsRequest(dst, corr, wire.ListOffsetsRequest{Topic: p.id, Partition: p.number, Time: at})
	})
	if err != nil {
		return 0, 0, err
	}
	r, err := wire.DecodeListOffsetsResponse(body)
	return r.Offset, r.Code, err
}

// fetch reads from an offset on.
func (c *conn) fetch(p *partition, offset int64) (wire.FetchResponse, error) {
	body, err := c.ask(wire.OpFetch, func(dst []byte, corr uint32) []byte {
		return wire.AppendFetchRequest(dst, corr, &wire.FetchRequest{Topic: p.id, Partition: p.number, Offset: offset, MaxBytes: fetchBytes})
	})
	if err != nil {
		return wire.FetchResponse{}, err
	}
	return wire.DecodeFetchResponse(body)
}
