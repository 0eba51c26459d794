package client

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"github.com/mqd-broker/mqd/net/wire"
)

// sink is a broker that acknowledges everything and keeps nothing: what is
// measured against it is the client, two sockets and little else.
func sink(b *testing.B, partitions int) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go sinkServe(nc, partitions)
		}
	}()
	return l.Addr().String()
}

func sinkServe(nc net.Conn, partitions int) {
	defer nc.Close()
	buf := make([]byte, 1<<20)
	var out []byte
	r, w := 0, 0
	offset := int64(0)
	for {
		if w-r < wire.HeaderSize || w-r < frameSize(buf[r:w]) {
			if len(out) > 0 {
				if _, err := nc.Write(out); err != nil {
					return
				}
				out = out[:0]
			}
			if r > len(buf)/2 {
				w = copy(buf, buf[r:w])
				r = 0
			}
			n, err := nc.Read(buf[w:])
			if err != nil {
				return
			}
			w += n
			continue
		}
		h := must(wire.ParseHeader(buf[r:w], 1<<20))
		body := buf[r+wire.HeaderSize : r+h.FrameSize()]
		r += h.FrameSize()
		switch h.Op {
		case wire.OpHello:
			out = wire.AppendHelloResponse(out, h.Correlation, wire.HelloResponse{Protocol: 1, Shards: 1, MaxFrame: 1 << 20, MaxBatch: 1<<20 - 100})
		case wire.OpMetadata:
			out = wire.AppendMetadataResponse(out, h.Correlation, wire.MetadataResponse{Shards: 1, Topics: []wire.TopicMetadata{
				{Name: "alerts", Class: wire.ClassFlushed, PartitionShards: make([]uint16, partitions)}}})
		case wire.OpProduce:
			_ = must(wire.DecodeProduceRequest(body))
			out = wire.AppendProduceResponse(out, h.Correlation, &wire.ProduceResponse{Class: wire.ClassFlushed, BaseOffset: offset})
			offset += 64
		}
	}
}

func frameSize(b []byte) int {
	h, err := wire.ParseHeader(b, 1<<20)
	if err != nil {
		return 1 << 30
	}
	return h.FrameSize()
}

func benchClient(b *testing.B, partitions int, opts ...ProducerOption) (*Client, *Producer) {
	c, err := Dial(b.Context(), []string{sink(b, partitions)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close(context.Background()) })
	p, err := c.Producer("alerts", opts...)
	if err != nil {
		b.Fatal(err)
	}
	return c, p
}

// BenchmarkAppend is one goroutine that appends 180-byte records as fast as it
// can, over one connection.
func BenchmarkAppend(b *testing.B) {
	for name, opts := range map[string][]ProducerOption{
		"defaults":    nil,
		"64-messages": {WithBatchMessages(64), WithBatchBytes(64 << 10)},
	} {
		b.Run(name, func(b *testing.B) {
			c, p := benchClient(b, 8, opts...)
			ctx := b.Context()
			r := Record{Value: bytes.Repeat([]byte("v"), 180)}
			b.SetBytes(180)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Append(ctx, r); err != nil {
					b.Fatal(err)
				}
			}
			if err := p.Flush(ctx); err != nil {
				b.Fatal(err)
			}
			s := c.Stats()
			b.ReportMetric(float64(s.RecordsAcked)/b.Elapsed().Seconds(), "msg/s")
			b.ReportMetric(float64(s.RecordsAcked)/float64(s.BatchesAcked), "msg/batch")
			b.ReportMetric(float64(s.FramesSent)/float64(s.Writes), "frames/write")
		})
	}
}

// BenchmarkSend is one record at a time, there and back.
func BenchmarkSend(b *testing.B) {
	_, p := benchClient(b, 1)
	ctx := b.Context()
	r := Record{Value: bytes.Repeat([]byte("v"), 180)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Send(ctx, r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPingPong is the floor of BenchmarkSend: the same bytes through two
// sockets and nothing else.
func BenchmarkPingPong(b *testing.B) {
	nc, err := net.Dial("tcp", sink(b, 1))
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	frame := wire.AppendProduceRequest(nil, 1, &wire.ProduceRequest{Batch: make([]byte, 61+190)})
	in := make([]byte, wire.ProduceResponseSize)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := nc.Write(frame); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(nc, in); err != nil {
			b.Fatal(err)
		}
	}
}
