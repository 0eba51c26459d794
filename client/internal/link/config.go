// Package link is the client's transport: for each shard of the broker a queue
// of requests and a connection over which they leave, with reconnects,
// heartbeats and few system calls. It knows frames and hello; what the requests
// mean is package client's.
package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// Errors that package client passes on under its own name.
var (
	// ErrClosed: the link was closed.
	ErrClosed = errors.New("mqd: closed")

	// ErrDisconnected: there is no connection, or it died.
	ErrDisconnected = errors.New("mqd: not connected")

	// ErrProtocol: the broker sent something that the protocol does not allow.
	ErrProtocol = errors.New("mqd: protocol violated")
)

// Refusal is a hello that the broker answered with an error.
type Refusal struct {
	Code    wire.Code
	Message string
}

// Error gives the code and what the broker said.
func (r *Refusal) Error() string { return "mqd: hello refused: " + Explain(r.Code, r.Message) }

// Explain is a broker's answer as text: its code, what that means, and what the
// broker adds, unless it only repeats that.
func Explain(code wire.Code, message string) string {
	text := code.String() + ": " + code.Help()
	if message != "" && message != code.Help() {
		text += ": " + message
	}
	return text
}

// Config is what all links of a client share.
type Config struct {
	// Context ends when the client closes.
	Context context.Context
	// Addrs are tried in turn.
	Addrs []string
	// Dial opens a connection.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// ClientID and Tenant go into hello.
	ClientID, Tenant string
	// Timeout bounds an attempt to connect, the handshake included.
	Timeout time.Duration
	// BackoffMin and BackoffMax bound the pause between attempts.
	BackoffMin, BackoffMax time.Duration
	// Log gets connections that come and go.
	Log *slog.Logger
	// OnConnect, if set, follows every attempt.
	OnConnect func(addr string, took time.Duration, err error)
	// OnHello follows every handshake that succeeded, before the connection is
	// used.
	OnHello func(wire.HelloResponse)
	// Counters count.
	Counters Counters
	// Buffers hold large frames, and whatever else a request puts there.
	Buffers BufferPool
}

// Counters are the totals of all links.
type Counters struct {
	Connections                   atomic.Int64 // now
	Connects, ConnectFailures     atomic.Uint64
	FramesSent, Writes, BytesSent atomic.Uint64
	FramesReceived                atomic.Uint64
}

// WhileHeard bounds a wait whose ctx has no deadline: it ends when nothing has come
// from the broker for as long as Timeout.
func (c *Config) WhileHeard(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(c.Timeout)
		defer tick.Stop()
		heard := c.Counters.FramesReceived.Load()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			now := c.Counters.FramesReceived.Load()
			if now == heard {
				cancel(fmt.Errorf("%w: nothing came from the broker for %v", ErrDisconnected, c.Timeout))
				return
			}
			heard = now
		}
	}()
	return ctx, func() { cancel(nil) }
}
