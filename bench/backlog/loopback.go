package backlog

import (
	"context"
	"errors"
	"net"
	"time"
)

// pieceBytes is what the bare connection writes and reads at a time, as much as a client's
// connection reads.
const pieceBytes = 256 << 10

// loopback sends n bytes over a TCP connection of the loopback interface and returns how
// many arrived in a second: what the network gives when nobody looks at the bytes.
func loopback(ctx context.Context, n int64) (float64, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	sent := make(chan error, 1)
	go func() { sent <- send(ctx, l.Addr().String(), n) }()
	nc, err := l.Accept()
	if err != nil {
		return 0, errors.Join(context.Cause(ctx), err, <-sent)
	}
	defer nc.Close()
	hangUp := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer hangUp()
	buf := make([]byte, pieceBytes)
	begun := time.Now()
	for got := int64(0); got < n; {
		k, err := nc.Read(buf)
		if got += int64(k); err != nil && got < n {
			return 0, errors.Join(context.Cause(ctx), err, <-sent)
		}
	}
	took := time.Since(begun)
	return float64(n) / took.Seconds(), <-sent
}

// send writes n bytes to an address.
func send(ctx context.Context, addr string, n int64) error {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	buf := make([]byte, pieceBytes)
	for n > 0 {
		k, err := nc.Write(buf[:min(n, pieceBytes)])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}
