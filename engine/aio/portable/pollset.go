package portable

import (
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollSet is a poller by poll(2), which every Unix has. It is told all sockets at every
// wait, so that its cost grows with their number, and of each only what the driver does
// not know yet: it reports states and not changes.
type pollSet struct {
	pipe    [2]int // what ring writes to the second comes out of the first
	drained [64]byte
	watched []int32
	set     []unix.PollFd
}

var _ poller = (*pollSet)(nil)

func newPollSet() (*pollSet, error) {
	p := &pollSet{}
	if err := unix.Pipe(p.pipe[:]); err != nil {
		return nil, fmt.Errorf("portable: pipe: %w", err)
	}
	for _, fd := range p.pipe {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			p.close()
			return nil, fmt.Errorf("portable: pipe: %w", err)
		}
	}
	return p, nil
}

func (p *pollSet) add(fd int) error {
	p.watched = append(p.watched, int32(fd))
	return nil
}

func (p *pollSet) remove(fd int) {
	if i := slices.Index(p.watched, int32(fd)); i >= 0 {
		last := len(p.watched) - 1
		p.watched[i] = p.watched[last]
		p.watched = p.watched[:last]
	}
}

func (p *pollSet) wait(d *Driver, wait time.Duration) syscall.Errno {
	p.set = append(p.set[:0], unix.PollFd{Fd: int32(p.pipe[0]), Events: unix.POLLIN})
	for _, fd := range p.watched {
		s, events := &d.socks[fd], int16(0)
		if s.in != nil && !s.readable {
			events |= unix.POLLIN
		}
		if len(s.out) > 0 && !s.writable {
			events |= unix.POLLOUT
		}
		if events != 0 {
			p.set = append(p.set, unix.PollFd{Fd: fd, Events: events})
		}
	}
	const longest = math.MaxInt32
	ms := min((max(wait, 0)+time.Millisecond-1)/time.Millisecond, longest)
	if _, err := unix.Poll(p.set, int(ms)); err != nil {
		return errnoOf(err)
	}
	if p.set[0].Revents != 0 {
		p.drain()
	}
	for _, e := range p.set[1:] {
		// A socket that is broken is both: the call on it says how.
		const broken = unix.POLLHUP | unix.POLLERR | unix.POLLNVAL
		if e.Revents != 0 {
			d.note(int(e.Fd), e.Revents&(unix.POLLIN|broken) != 0, e.Revents&(unix.POLLOUT|broken) != 0, false)
		}
	}
	return 0
}

func (p *pollSet) drain() {
	for {
		if n, err := unix.Read(p.pipe[0], p.drained[:]); n < len(p.drained) && err != unix.EINTR {
			return
		}
	}
}

// ring writes a byte. In a pipe that is full there are some to end the wait.
func (p *pollSet) ring() { _, _ = unix.Write(p.pipe[1], anyByte) }

// anyByte is what goes through the pipe.
var anyByte = []byte{1}

func (p *pollSet) close() {
	for _, fd := range p.pipe {
		_ = unix.Close(fd)
	}
}
