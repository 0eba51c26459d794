package sim

import (
	"fmt"
	"hash/crc32"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// accept notes what the world must know about an operation at its submission and
// returns after how many nanoseconds it is performed.
func (d *Driver) accept(s *slot) int64 {
	w, op := d.w, s.op
	switch op.Kind {
	case aio.KindRead:
		d.checkMemory(op.Buf)
		return w.draw(w.opt.Latency.Read)
	case aio.KindWrite:
		d.checkMemory(op.Buf)
		s.crc = crc32.Checksum(op.Buf, castagnoli)
		delay := w.draw(w.opt.Latency.Write)
		if op.Flags&aio.FlagDSYNC != 0 && w.opt.DSYNC == DSYNCFlushes {
			delay += w.draw(w.opt.Latency.Flush)
		}
		return delay
	case aio.KindFdatasync:
		if h := d.handle(op.File); h != nil {
			s.mark = h.ino.dev.seq
		}
		return w.draw(w.opt.Latency.Flush)
	}
	return w.draw(w.opt.Latency.Call)
}

func (d *Driver) checkMemory(b []byte) {
	if len(b) > 0 && !d.w.knows(d, b) {
		invariant.Violated("sim: I/O memory comes from Alloc or the receive pool")
	}
}

// perform does the operation in slot id, whose time has come.
func (d *Driver) perform(id uint32) {
	s := &d.slots[id]
	switch op := s.op; op.Kind {
	case aio.KindRead:
		n, err := d.read(op)
		d.finish(id, result{n: n, err: err})
	case aio.KindWrite:
		if crc32.Checksum(op.Buf, castagnoli) != s.crc {
			invariant.Violated("sim: memory under a write was changed")
		}
		n, err := d.write(op)
		d.finish(id, result{n: n, err: err})
	case aio.KindFdatasync:
		d.finish(id, result{err: d.fdatasync(op, s.mark)})
	default:
		d.finish(id, result{err: &aio.Error{Op: "submit", What: "operation", Off: -1, Err: syscall.EINVAL}})
	}
}

// opError is a failure of a data operation on a file.
func opError(what string, op *aio.Op, err error) error {
	off := op.Off
	if op.Kind == aio.KindFdatasync {
		off = -1
	}
	return &aio.Error{Op: what, What: fmt.Sprintf("file %d", op.File), Off: off, Err: err}
}

// checkIO is the rules for a data operation on a file.
func (h *handle) checkIO(buf []byte, off int64) error {
	switch {
	case off < 0:
		return syscall.EINVAL
	case h.mode&aio.OpenDirect == 0:
		return nil
	case off%aio.BlockSize != 0, len(buf)%aio.BlockSize != 0, address(buf)%aio.BlockSize != 0:
		return syscall.EINVAL
	}
	return nil
}

func (d *Driver) read(op *aio.Op) (int, error) {
	h := d.handle(op.File)
	if h == nil {
		return 0, opError("read", op, syscall.EBADF)
	}
	if err := h.checkIO(op.Buf, op.Off); err != nil {
		return 0, opError("read", op, err)
	}
	n, err := h.ino.readAt(op.Buf, op.Off)
	if err != nil {
		return 0, opError("read", op, err)
	}
	return n, nil
}

// readAt reads what there is of b before the end of the file.
func (f *inode) readAt(b []byte, off int64) (int, error) {
	n := int(max(0, min(int64(len(b)), f.size-off)))
	if f.isBad(off, off+int64(n)) {
		return 0, syscall.EIO
	}
	f.cur.read(b[:n], off)
	return n, nil
}

func (d *Driver) write(op *aio.Op) (int, error) {
	h := d.handle(op.File)
	if h == nil || h.mode&aio.OpenWrite == 0 {
		return 0, opError("write", op, syscall.EBADF)
	}
	if err := h.checkIO(op.Buf, op.Off); err != nil {
		return 0, opError("write", op, err)
	}
	if len(op.Buf) == 0 {
		return 0, opError("write", op, aio.ErrShort)
	}
	if !d.finishWrite(op) {
		return 0, opError("write", op, syscall.ENOSPC)
	}
	return len(op.Buf), nil
}

// finishWrite puts the bytes of a write on the disk; false when it is full.
func (d *Driver) finishWrite(op *aio.Op) bool {
	h := d.handle(op.File)
	if h == nil || h.checkIO(op.Buf, op.Off) != nil {
		return true
	}
	v := h.ino.dev
	dsync := op.Flags&aio.FlagDSYNC != 0
	if !v.write(h.ino, op.Buf, op.Off, dsync) {
		return false
	}
	if dsync && d.w.opt.DSYNC == DSYNCFlushes {
		v.flush(h.ino, v.seq)
	}
	return true
}

func (d *Driver) fdatasync(op *aio.Op, mark uint64) error {
	h := d.handle(op.File)
	if h == nil {
		return opError("fdatasync", op, syscall.EBADF)
	}
	h.ino.dev.flush(h.ino, mark)
	return nil
}
