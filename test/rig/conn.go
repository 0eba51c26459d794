package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// maxAnswer bounds the frames that a Conn takes, in bytes.
const maxAnswer = 128 << 20

// Patience is how long a Conn waits for anything, a fetch's own wait apart.
const Patience = time.Minute

// Conn is a connection to a broker on which a test sees and sends every byte.
// It is for one goroutine.
type Conn struct {
	// Hello is what the broker told; zero before [Conn.Handshake].
	Hello wire.HelloResponse

	nc   net.Conn
	in   *bufio.Reader
	corr uint32
	body []byte
	out  []byte
}

// Dial opens a connection and says nothing on it.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	d := net.Dialer{Timeout: Patience}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return NewConn(nc), nil
}

// NewConn takes a connection that is open and on which nothing was said.
func NewConn(nc net.Conn) *Conn { return &Conn{nc: nc, in: bufio.NewReaderSize(nc, 256<<10)} }

// Open opens a connection and says hello.
func Open(ctx context.Context, addr string) (*Conn, error) {
	c, err := Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := c.Handshake(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.nc.Close() }

// CloseWrite ends what is sent; answers can still be read.
func (c *Conn) CloseWrite() error { return c.nc.(*net.TCPConn).CloseWrite() }

// Handshake says hello.
func (c *Conn) Handshake() error {
	_, body, err := c.Call(wire.AppendHelloRequest(nil, c.Next(), wire.HelloRequest{
		MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, WantedShard: wire.AnyShard, ClientID: "rig",
	}))
	if err != nil {
		return err
	}
	c.Hello, err = wire.DecodeHelloResponse(body)
	return err
}

// Next is a correlation id that was not used yet.
func (c *Conn) Next() uint32 {
	c.corr++
	return c.corr
}

// Write sends bytes as they are.
func (c *Conn) Write(b []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(Patience)); err != nil {
		return err
	}
	_, err := c.nc.Write(b)
	return err
}

// WriteUntil sends bytes until the deadline and returns how many it could.
func (c *Conn) WriteUntil(b []byte, deadline time.Time) (int, error) {
	if err := c.nc.SetWriteDeadline(deadline); err != nil {
		return 0, err
	}
	return c.nc.Write(b)
}

// Read reads one frame. Its body is valid until the next call. The error is io.EOF
// when the broker has closed the connection between two frames.
func (c *Conn) Read() (wire.Header, []byte, error) { return c.ReadWithin(Patience) }

// ReadWithin is Read with another patience.
func (c *Conn) ReadWithin(patience time.Duration) (wire.Header, []byte, error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return wire.Header{}, nil, err
	}
	var head [wire.HeaderSize]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return wire.Header{}, nil, err
	}
	h, err := wire.ParseHeader(head[:], maxAnswer)
	if err != nil {
		return h, nil, fmt.Errorf("answer: %w", err)
	}
	if !h.IsResponse() {
		return h, nil, fmt.Errorf("the broker sent a request: %+v", h)
	}
	if n := h.BodySize(); cap(c.body) < n {
		c.body = make([]byte, n)
	}
	c.body = c.body[:h.BodySize()]
	_, err = io.ReadFull(c.in, c.body)
	return h, c.body, err
}

// Call sends a frame and reads the answer to it, which must be the next one.
// An error response is an error, a *[Refusal].
func (c *Conn) Call(frame []byte) (wire.Header, []byte, error) {
	sent, err := wire.ParseHeader(frame, maxAnswer)
	if err != nil {
		return sent, nil, err
	}
	if err := c.Write(frame); err != nil {
		return sent, nil, err
	}
	h, body, err := c.Read()
	if err != nil {
		return h, nil, fmt.Errorf("no answer to %v: %w", sent.Op, err)
	}
	if h.Correlation != sent.Correlation || h.Op != sent.Op {
		return h, nil, fmt.Errorf("answer to %v %d, expected to %v %d", h.Op, h.Correlation, sent.Op, sent.Correlation)
	}
	if h.IsError() {
		e, err := wire.DecodeErrorResponse(body)
		if err != nil {
			return h, nil, err
		}
		return h, nil, &Refusal{e}
	}
	return h, body, nil
}

// Refusal is an error response.
type Refusal struct{ wire.ErrorResponse }

// Error says what the broker said.
func (r *Refusal) Error() string { return fmt.Sprintf("refused: %v: %s", r.Code, r.Message) }

// Ping asks whether the broker is there.
func (c *Conn) Ping() error {
	_, body, err := c.Call(wire.AppendPingRequest(c.out[:0], c.Next()))
	if err != nil {
		return err
	}
	return wire.DecodePing(body)
}

// CreateTopic creates a topic.
func (c *Conn) CreateTopic(name string, partitions uint32, configs ...wire.Config) (wire.TopicID, error) {
	_, body, err := c.Call(wire.AppendTopicCreateRequest(nil, c.Next(), wire.TopicCreateRequest{
		Name: name, Partitions: partitions, Configs: configs,
	}))
	if err != nil {
		return wire.TopicID{}, err
	}
	r, err := wire.DecodeTopicCreateResponse(body)
	if err == nil && r.Code != wire.CodeNone {
		err = fmt.Errorf("create topic %s: %v: %s", name, r.Code, r.Message)
	}
	return r.ID, err
}

// Topic looks a topic up.
func (c *Conn) Topic(name string) (wire.TopicMetadata, error) {
	_, body, err := c.Call(wire.AppendMetadataRequest(nil, c.Next(), wire.MetadataRequest{Topics: []string{name}}))
	if err != nil {
		return wire.TopicMetadata{}, err
	}
	r, err := wire.DecodeMetadataResponse(body)
	if err != nil {
		return wire.TopicMetadata{}, err
	}
	if len(r.Topics) != 1 {
		return wire.TopicMetadata{}, fmt.Errorf("metadata of %d topics, expected 1", len(r.Topics))
	}
	return r.Topics[0], nil
}

// Describe describes a topic.
func (c *Conn) Describe(name string) (wire.TopicDescribeResponse, error) {
	_, body, err := c.Call(wire.AppendTopicDescribeRequest(nil, c.Next(), wire.TopicDescribeRequest{Name: name}))
	if err != nil {
		return wire.TopicDescribeResponse{}, err
	}
	r, err := wire.DecodeTopicDescribeResponse(body)
	if err == nil && r.Code != wire.CodeNone {
		err = fmt.Errorf("describe topic %s: %v: %s", name, r.Code, r.Message)
	}
	return r, err
}

// Produce appends a batch.
func (c *Conn) Produce(r wire.ProduceRequest) (wire.ProduceResponse, error) {
	c.out = wire.AppendProduceRequest(c.out[:0], c.Next(), &r)
	_, body, err := c.Call(c.out)
	if err != nil {
		return wire.ProduceResponse{}, err
	}
	return wire.DecodeProduceResponse(body)
}

// Fetch reads. The batches are valid until the next call.
func (c *Conn) Fetch(r wire.FetchRequest) (wire.FetchResponse, error) {
	c.out = wire.AppendFetchRequest(c.out[:0], c.Next(), &r)
	_, body, err := c.Call(c.out)
	if err != nil {
		return wire.FetchResponse{}, err
	}
	return wire.DecodeFetchResponse(body)
}

// Bounds are the start of the log and the end of what can be read.
func (c *Conn) Bounds(topic wire.TopicID, partition int32) (start, end int64, err error) {
	for _, q := range []struct {
		time int64
		to   *int64
	}{{wire.TimeStart, &start}, {wire.TimeEnd, &end}} {
		_, body, err := c.Call(wire.AppendListOffsetsRequest(nil, c.Next(), wire.ListOffsetsRequest{
			Topic: topic, Partition: partition, Time: q.time,
		}))
		if err != nil {
			return 0, 0, err
		}
		r, err := wire.DecodeListOffsetsResponse(body)
		if err != nil {
			return 0, 0, err
		}
		if r.Code != wire.CodeNone {
			return 0, 0, fmt.Errorf("list offsets of partition %d: %v", partition, r.Code)
		}
		*q.to = r.Offset
	}
	return start, end, nil
}
