package fusedisk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// workers is the number of requests that are answered at the same time.
const workers = 4

// Server shows disks as files of a directory. Close ends it.
type Server struct {
	dir string
	fd  int

	mu    sync.Mutex
	nodes map[uint64]*Disk
	names map[string]uint64
	next  uint64
	err   error // what ended a worker before its time

	running sync.WaitGroup
}

// Serve mounts a filesystem on a directory that is there. The process must be root
// and should have called [Isolate].
func Serve(dir string) (*Server, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("fusedisk: /dev/fuse: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := unix.Mount("fusedisk", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("fusedisk: mount FUSE on %s: %w", dir, err)
	}
	s := &Server{dir: dir, fd: fd, nodes: map[uint64]*Disk{}, names: map[string]uint64{}, next: rootNode + 1}
	for range workers {
		s.running.Go(s.work)
	}
	return s, nil
}

// Add shows a disk as a file, whose path it returns. The name must be free.
func (s *Server) Add(name string, d *Disk) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name], s.nodes[s.next] = s.next, d
	s.next++
	return filepath.Join(s.dir, name)
}

// Remove shows a disk no longer. It must not be attached.
func (s *Server) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, s.names[name])
	delete(s.names, name)
}

// Close unmounts the directory. Nothing may be attached any more. The error tells
// of requests that could not be answered.
func (s *Server) Close() error {
	err := unix.Unmount(s.dir, 0)
	if err != nil {
		err = errors.Join(fmt.Errorf("fusedisk: unmount %s: %w", s.dir, err), unix.Unmount(s.dir, unix.MNT_DETACH))
	}
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	const patience = time.Minute // only a request that hangs takes so long
	select {
	case <-ended:
		err = errors.Join(err, unix.Close(s.fd))
	case <-time.After(patience):
		err = errors.Join(err, fmt.Errorf("fusedisk: %s is still in use", s.dir))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(err, s.err)
}

// work answers requests until the filesystem is unmounted.
func (s *Server) work() {
	in, out := make([]byte, maxRequest), make([]byte, 0, maxTransfer+outHeaderSize)
	for {
		n, err := unix.Read(s.fd, in)
		switch err {
		case nil:
		case unix.EINTR, unix.EAGAIN, unix.ENOENT: // ENOENT: the request was withdrawn
			continue
		case unix.ENODEV:
			return
		default:
			s.failed(os.NewSyscallError("read /dev/fuse", err))
			return
		}
		r, err := parseRequest(in[:n])
		if err != nil {
			s.failed(err)
			return
		}
		out = s.answer(out[:0], &r)
		if len(out) == 0 {
			continue
		}
		// ENOENT: nobody waits for the answer any more.
		if _, err := unix.Write(s.fd, finish(out)); err != nil && err != unix.ENOENT && err != unix.ENODEV {
			s.failed(os.NewSyscallError(fmt.Sprintf("answer request %d on /dev/fuse", r.op), err))
			return
		}
	}
}

func (s *Server) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, err)
}

// answer appends the answer to a request; nothing to those that get none.
func (s *Server) answer(out []byte, r *request) []byte {
	switch r.op {
	case opForget, opBatchForget, opInterrupt:
		return out
	}
	body, errno := s.body(appendHeader(out, r.unique, 0), r)
	if errno != 0 {
		return appendHeader(out, r.unique, errno)
	}
	return body
}

// body appends what an answer says behind its header.
func (s *Server) body(out []byte, r *request) ([]byte, unix.Errno) {
	switch r.op {
	case opInit:
		return appendInit(out), 0
	case opDestroy, opRelease, opFlush:
		return out, 0
	case opLookup:
		return s.lookup(out, r)
	}
	if r.node == rootNode {
		if r.op == opGetattr {
			return appendAttrOut(out, rootNode, -1), 0
		}
		return out, unix.ENOSYS
	}
	s.mu.Lock()
	d := s.nodes[r.node]
	s.mu.Unlock()
	if d == nil {
		return out, unix.ESTALE
	}
	switch r.op {
	case opGetattr, opSetattr: // the size is what it is
		return appendAttrOut(out, r.node, d.size), 0
	case opOpen:
		out = order.AppendUint64(out, 0)
		out = order.AppendUint32(out, openDirect)
		return order.AppendUint32(out, 0), 0
	case opRead, opWrite:
		return transfer(out, r, d)
	case opFsync:
		if d.Flush() != nil {
			return out, unix.EIO
		}
		return out, 0
	case opFallocate: // that of a discard; ENOSYS would be remembered
		return out, unix.EOPNOTSUPP
	}
	return out, unix.ENOSYS
}

func (s *Server) lookup(out []byte, r *request) ([]byte, unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node, ok := s.names[string(bytes.TrimRight(r.body, "\x00"))]
	if r.node != rootNode || !ok {
		return out, unix.ENOENT
	}
	return appendEntry(out, node, s.nodes[node].size), 0
}

// transfer reads or writes. A read across the end is short, as in any file.
func transfer(out []byte, r *request, d *Disk) ([]byte, unix.Errno) {
	off, size, ok := r.transfer()
	if !ok || off < 0 {
		return out, unix.EINVAL
	}
	if r.op == opWrite {
		if d.WriteAt(r.body[writeInSize:], off) != nil {
			return out, unix.ENOSPC
		}
		out = order.AppendUint32(out, uint32(size))
		return order.AppendUint32(out, 0), 0
	}
	size = int(max(0, min(int64(size), d.size-off)))
	if size == 0 {
		return out, 0
	}
	at := len(out)
	out = out[:at+size]
	if d.ReadAt(out[at:], off) != nil {
		return out, unix.EIO
	}
	return out, 0
}
