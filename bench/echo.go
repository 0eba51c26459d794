package bench

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mqd-broker/mqd/bench/drive"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/wire"
)

const (
	// echoConns is the number of connections that an Echo serves in its life.
	echoConns = 64
	echoBuf   = 64 << 10
)

// Echo is the floor of the network: a server that acknowledges every produce
// frame, in the same frames as a broker and with the same driver, and does
// nothing with it.
type Echo struct {
	// Addr is its address.
	Addr string

	drv     aio.Driver
	loop    *drive.Loop
	links   []*drive.Link
	err     error
	largest int // frame, bytes

	accept aio.Op
	stop   atomic.Bool
	done   sync.WaitGroup
}

// StartEcho starts an echo server on the loopback interface, on a thread pinned
// to cpu, for frames of up to frameBytes.
func StartEcho(p Platform, cpu int, idle Idle, frameBytes int) (*Echo, error) {
	e := &Echo{largest: frameBytes}
	started := make(chan error, 1)
	e.done.Go(func() {
		o := aio.Options{Entries: 256, ArenaBytes: echoConns*2*echoBuf + 1<<20, RecvBuffers: 64, Files: 1, Helpers: 1}
		err := drive.OnThread(p, cpu, o, func(drv aio.Driver) error {
			e.drv, e.loop = drv, drive.NewLoop(drv, p, idle)
			sock, addr, err := drv.Listen("127.0.0.1:0", aio.ListenAlone)
			if err != nil {
				return err
			}
			e.Addr = addr
			e.accept = aio.Op{Kind: aio.KindAccept, Sock: sock, Owner: e}
			drv.Submit(&e.accept)
			started <- nil
			return e.serve(sock)
		})
		e.err = err
		select {
		case started <- err:
		default:
		}
	})
	if err := <-started; err != nil {
		return nil, fmt.Errorf("echo server: %w", err)
	}
	return e, nil
}

// Stop ends the server and returns what went wrong with it.
func (e *Echo) Stop() error {
	e.stop.Store(true)
	e.done.Wait()
	return e.err
}

func (e *Echo) serve(sock aio.Sock) error {
	for !e.stop.Load() {
		for _, l := range e.links {
			l.Flush()
		}
		if err := e.loop.Turn(drive.Far); err != nil {
			return err
		}
	}
	e.drv.Cancel(&e.accept)
	for e.accept.InFlight() {
		if err := e.loop.Turn(drive.Far); err != nil {
			return err
		}
	}
	for _, l := range e.links {
		if err := l.Close(e.loop); err != nil {
			return err
		}
	}
	return aio.Do(e.drv, &aio.Op{Kind: aio.KindCloseSock, Sock: sock})
}

// Complete implements aio.Completer: it takes a connection.
func (e *Echo) Complete(op *aio.Op) {
	if op.Err != nil {
		return
	}
	// A connection that finds no memory gets no link, and its client no answer.
	if l, err := drive.NewLink(e.drv, op.NewSock, (*echoFramer)(e), echoBuf, e.largest); err == nil {
		e.links = append(e.links, l)
	}
}

// answer acknowledges a frame.
func (e *Echo) answer(l *drive.Link, h wire.Header) error {
	dst := l.Room(wire.ProduceResponseSize)
	if dst == nil {
		return fmt.Errorf("%w: more than %d bytes of acknowledgements wait", ErrConnection, echoBuf)
	}
	l.Filled(wire.AppendProduceResponse(dst, h.Correlation, &wire.ProduceResponse{Class: wire.ClassMemory}))
	return nil
}

// echoFramer has the Echo's links call it.
type echoFramer Echo

func (e *echoFramer) Frame(l *drive.Link, h wire.Header, _ []byte, _ int64) error {
	return (*Echo)(e).answer(l, h)
}
