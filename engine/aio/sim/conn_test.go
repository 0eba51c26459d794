package sim_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// server runs a loop of its own that sends back what it receives.
type server struct {
	w    *sim.World
	addr string
	d    *sim.Driver
	stop chan struct{}
	done sync.WaitGroup
	err  error
}

func serve(t *testing.T, w *sim.World) *server {
	t.Helper()
	s := &server{w: w, stop: make(chan struct{})}
	started := make(chan struct{})
	s.done.Add(1)
	go func() {
		defer s.done.Done()
		s.d = w.Driver(aio.Options{RecvBuffers: 8})
		listener, addr, err := s.d.Listen("127.0.0.1:0", aio.ListenAlone)
		s.addr, s.err = addr, err
		s.d.Submit(&aio.Op{Kind: aio.KindAccept, Sock: listener, Owner: s})
		close(started)
		for s.err == nil {
			select {
			case <-s.stop:
				return
			default:
				if _, err := s.d.Poll(time.Hour); err != nil {
					return
				}
			}
		}
	}()
	<-started
	t.Cleanup(func() {
		close(s.stop)
		s.d.Wake()
		s.done.Wait()
		if s.err != nil {
			t.Error(s.err)
		}
	})
	return s
}

// Complete accepts a connection.
func (s *server) Complete(op *aio.Op) {
	if op.Err != nil {
		s.err = op.Err
		return
	}
	e := &session{s: s}
	e.in = aio.Op{Kind: aio.KindRecv, Sock: op.NewSock, Owner: e}
	e.out = aio.Op{Kind: aio.KindSend, Sock: op.NewSock, Owner: e}
	s.d.Submit(&e.in)
}

// session is a connection of the server: it receives one piece at a time.
type session struct {
	s       *server
	in, out aio.Op
	closing aio.Op
	queue   []piece
	ended   bool
}

type piece struct {
	data []byte
	id   aio.BufID
}

func (e *session) Complete(op *aio.Op) {
	switch {
	case op == &e.closing:
		return
	case op == &e.out:
		e.s.d.ReleaseBuf(e.queue[0].id)
		e.queue = e.queue[1:]
		e.ended = e.ended || op.Err != nil
	case len(op.Data) > 0:
		e.queue = append(e.queue, piece{op.Data, op.BufID})
	case !errors.Is(op.Err, aio.ErrNoBuffers):
		e.ended = true
	}
	busy := e.out.InFlight()
	switch {
	case len(e.queue) > 0 && !busy:
		e.out.Vec = [][]byte{e.queue[0].data}
		e.s.d.Submit(&e.out)
	case e.ended && !busy && !e.in.InFlight():
		e.closing = aio.Op{Kind: aio.KindCloseSock, Sock: e.in.Sock, Owner: e}
		e.s.d.Submit(&e.closing)
	}
	if !e.in.InFlight() && !e.ended {
		e.s.d.Submit(&e.in)
	}
}

func realTime() *sim.World { return sim.New(sim.Options{Seed: 1, Mode: sim.RealTime}) }

func dial(t *testing.T, s *server) net.Conn {
	t.Helper()
	c, err := s.w.DialConn(s.addr)
	must(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return c
}

func TestConnTalksToALoopInAnotherGoroutine(t *testing.T) {
	s := serve(t, realTime())
	var all sync.WaitGroup
	for i := range 4 {
		c := dial(t, s)
		all.Add(2)
		want := fill(byte(i+1), 300_000)
		go func() {
			defer all.Done()
			if n, err := c.Write(want); n != len(want) || err != nil {
				t.Errorf("wrote %d bytes, %v", n, err)
			}
		}()
		go func() {
			defer all.Done()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("read other bytes, or %v", err)
			}
		}()
	}
	all.Wait()
}

func TestConnHalfCloses(t *testing.T) {
	s := serve(t, realTime())
	c := dial(t, s)
	_, err := c.Write([]byte("last words"))
	must(t, err)
	must(t, c.(interface{ CloseWrite() error }).CloseWrite())
	if _, err := c.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Fatalf("writing after CloseWrite: %v", err)
	}
	got, err := io.ReadAll(c)
	must(t, err)
	if string(got) != "last words" {
		t.Fatalf("read %q", got)
	}
}

func TestConnDeadlines(t *testing.T) {
	w := realTime()
	s := serve(t, w)
	c := dial(t, s)
	b := make([]byte, 10)
	must(t, c.SetDeadline(time.Unix(1, 0)))
	if _, err := c.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a read after its deadline: %v", err)
	}
	must(t, c.SetDeadline(time.Time{}))
	_, err := c.Write([]byte("x"))
	must(t, err)
	_, err = c.Read(b)
	must(t, err)
	// A deadline ends a read that waits.
	must(t, c.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
	_, err = c.Read(b)
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("a read over its deadline: %v", err)
	}
	must(t, c.SetWriteDeadline(time.Unix(1, 0)))
	if _, err := c.Write(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a write after its deadline: %v", err)
	}
}

func TestConnEnds(t *testing.T) {
	w := realTime()
	s := serve(t, w)
	c := dial(t, s)
	waits := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		waits <- err
	}()
	must(t, c.Close())
	if err := <-waits; !errors.Is(err, net.ErrClosed) {
		t.Fatalf("a read under Close: %v", err)
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("closing twice: %v", err)
	}
	c = dial(t, s)
	go func() {
		_, err := c.Read(make([]byte, 1))
		waits <- err
	}()
	w.Kill()
	if err := <-waits; !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("a read while the server dies: %v", err)
	}
	if _, err := w.DialConn(s.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dialling a dead server: %v", err)
	}
}

func TestConnAddressesAreTCPs(t *testing.T) {
	s := serve(t, realTime())
	c := dial(t, s)
	if got := c.RemoteAddr().String(); got != s.addr || c.RemoteAddr().Network() != "tcp" {
		t.Fatalf("the remote address is %s, the server listens on %s", got, s.addr)
	}
	if c.LocalAddr().String() == c.RemoteAddr().String() {
		t.Fatal("both ends have one address")
	}
}

func TestConnNeedsRealTime(t *testing.T) {
	w := sim.New(sim.Options{})
	_, addr, err := w.Driver(aio.Options{}).Listen(":0", aio.ListenAlone)
	must(t, err)
	if _, err := w.DialConn(addr); err == nil {
		t.Fatal("a goroutine's connection in a world that nothing moves")
	}
}
