package portable

import (
	"fmt"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

// simple are calls that every Unix has. It makes a write durable by a flush behind it,
// and its sockets are non-blocking.
type simple struct{ rest [aio.MaxVec][]byte }

var _ calls = (*simple)(nil)

// simpleNote says what the variant is, and what it is not.
var simpleNote = fmt.Sprintf("this is the portable driver's variant for development: poll for sockets, waits of whole milliseconds, "+
	"and %s behind every durable write. What is flushed is as safe as elsewhere, and takes longer; what is acknowledged "+
	"before that (durability written) survives the death of the process, but maybe not that of the kernel", flushName)

func (*simple) pread(fd int, b []byte, off int64) (int, syscall.Errno) {
	n, err := unix.Pread(fd, b, off)
	return n, errnoOf(err)
}

func (*simple) pwrite(fd int, b []byte, off int64, durable bool) (int, syscall.Errno) {
	if durable {
		return -1, unix.EOPNOTSUPP
	}
	n, err := unix.Pwrite(fd, b, off)
	return n, errnoOf(err)
}

func (*simple) fdatasync(fd int) syscall.Errno { return errnoOf(flush(fd)) }

// accept gives sockets that nothing waits for and no child inherits.
func (*simple) accept(fd int) (int, syscall.Errno) {
	conn, _, err := unix.Accept(fd)
	if err != nil {
		return -1, errnoOf(err)
	}
	unix.CloseOnExec(conn)
	if err := unix.SetNonblock(conn, true); err != nil {
		_ = unix.Close(conn)
		return -1, errnoOf(err)
	}
	return conn, 0
}

func (*simple) recv(fd int, b []byte) (int, syscall.Errno) {
	n, err := unix.Read(fd, b)
	return n, errnoOf(err)
}

// send needs no flag against SIGPIPE: Go's runtime ignores it for sockets.
func (s *simple) send(fd int, vec [][]byte, skip int) (int, syscall.Errno) {
	n := 0
	for _, p := range vec {
		if skip >= len(p) {
			skip -= len(p)
			continue
		}
		s.rest[n] = p[skip:]
		skip = 0
		n++
	}
	sent, err := unix.Writev(fd, s.rest[:n])
	return sent, errnoOf(err)
}

func (*simple) sleep(w *worker) { <-w.bell }

func (*simple) wake(w *worker) {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// errnoOf is the kernel's answer in an error of package unix.
func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if errno, ok := err.(syscall.Errno); ok {
		return errno
	}
	return unix.EIO
}
