package link

import (
	"errors"
	"net"
	"syscall"
)

// rawWriter writes to a connection without ever waiting.
type rawWriter struct {
	rc   syscall.RawConn
	call func(fd uintptr) bool // made once, so that a write allocates nothing
	p    []byte
	n    int
	err  error
}

// newRawWriter returns nil for connections that are not plain sockets.
func newRawWriter(nc net.Conn) *rawWriter {
	var sc syscall.Conn
	switch nc := nc.(type) {
	case *net.TCPConn:
		sc = nc
	case *net.UnixConn:
		sc = nc
	default:
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	w := &rawWriter{rc: rc}
	w.call = func(fd uintptr) bool {
		for {
			w.n, w.err = syscall.Write(int(fd), w.p)
			if !errors.Is(w.err, syscall.EINTR) {
				return true
			}
		}
	}
	return w
}

// try writes as much of p as fits into the socket's buffer now.
func (w *rawWriter) try(p []byte) (int, error) {
	w.p = p
	err := w.rc.Write(w.call)
	w.p = nil
	switch {
	case err != nil:
		return 0, err
	case errors.Is(w.err, syscall.EAGAIN):
		return 0, nil
	case w.err != nil:
		return 0, w.err
	}
	return w.n, nil
}
