package admin

import (
	"errors"
	"net"
	"testing"
	"time"
)

func TestConnectionsBeyondTheLimitWait(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limit(inner, 2)
	accepted := make(chan net.Conn)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	next := func() net.Conn {
		t.Helper()
		select {
		case c := <-accepted:
			return c
		case <-time.After(patience):
			t.Fatal("a connection with a place is not accepted")
			return nil
		}
	}
	first := next()
	defer next().Close()
	// Both places are taken: the third one is accepted when one is given back, and not
	// before. Closing twice gives back one.
	if n := len(l.(*limited).places); n != 2 {
		t.Errorf("%d places are taken", n)
	}
	select {
	case <-accepted:
		t.Error("a connection without a place is accepted")
	default:
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	_ = first.Close() // it is closed
	defer next().Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
}
