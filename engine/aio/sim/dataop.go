package sim

import (
	"fmt"
	"hash/crc32"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim/disk"
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
			s.mark = h.ino.Mark()
		}
		return w.draw(w.opt.Latency.Flush)
	case aio.KindSend:
		d.acceptSend(s)
	}
	return w.draw(w.opt.Latency.Call)
}

func (d *Driver) checkMemory(b []byte) {
	if len(b) > 0 && !d.w.knows(d, b) {
		invariant.Violated("sim: I/O memory comes from Alloc or the receive pool")
	}
}

// perform does the operation in slot id, whose time has come.
func (d *Driver) perform(id uint32, subj *subject) {
	s := &d.slots[id]
	op := s.op
	var fault *Fault
	if len(d.w.faults) > 0 {
		fault = d.w.strike(subj)
	}
	switch op.Kind {
	case aio.KindRead:
		n, err := d.read(op, fault)
		d.finish(id, result{n: n, err: err})
	case aio.KindWrite:
		if crc32.Checksum(op.Buf, castagnoli) != s.crc {
			invariant.Violated("sim: memory under a write was changed")
		}
		if err := d.write(op, fault); err != nil || op.Drv.Done == len(op.Buf) {
			d.finish(id, result{n: op.Drv.Done, err: err})
			return
		}
		d.w.at(d.w.draw(d.w.opt.Latency.Write), event{kind: evOp, d: d, slot: id, gen: s.gen})
	case aio.KindFdatasync:
		d.finish(id, result{err: d.fdatasync(op, s.mark, fault)})
	case aio.KindAccept, aio.KindRecv, aio.KindSend, aio.KindShutdown, aio.KindCloseSock:
		if fault != nil && fault.Effect == Fail {
			d.finish(id, result{sock: aio.NoSock, err: sockError(sockOps[op.Kind], op.Sock, fault.Err)})
			return
		}
		d.performSock(id)
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

func (d *Driver) read(op *aio.Op, fault *Fault) (int, error) {
	h := d.handle(op.File)
	if h == nil {
		return 0, opError("read", op, syscall.EBADF)
	}
	if err := h.checkIO(op.Buf, op.Off); err != nil {
		return 0, opError("read", op, err)
	}
	if fault != nil {
		return 0, opError("read", op, fault.Err)
	}
	n, err := h.ino.ReadAt(op.Buf, op.Off)
	if err != nil {
		return 0, opError("read", op, err)
	}
	return n, nil
}

// write performs a part of a write: all of it, but for a fault.
func (d *Driver) write(op *aio.Op, fault *Fault) error {
	h := d.handle(op.File)
	if h == nil || h.mode&aio.OpenWrite == 0 {
		return opError("write", op, syscall.EBADF)
	}
	if err := h.checkIO(op.Buf, op.Off); err != nil {
		return opError("write", op, err)
	}
	dsync := disk.Cached
	if op.Flags&aio.FlagDSYNC != 0 {
		dsync = disk.Durable
	}
	data, off := op.Buf[op.Drv.Done:], op.Off+int64(op.Drv.Done)
	at, err := d.w.spoil(h.ino, fault, &data, off, &dsync)
	switch {
	case err != nil:
		return opError("write", op, err)
	case len(data) == 0:
		return opError("write", op, aio.ErrShort)
	case !d.w.put(h.ino, data, at, dsync):
		return opError("write", op, syscall.ENOSPC)
	}
	op.Drv.Done += len(data)
	return nil
}

// spoil applies a fault to a write of data at off; it returns where the write
// goes instead, or why it fails.
func (w *World) spoil(f *disk.Inode, fault *Fault, data *[]byte, off int64, dsync *disk.Durability) (int64, error) {
	if fault == nil {
		return off, nil
	}
	switch fault.Effect {
	case Fail:
		if fault.Err == syscall.EIO {
			f.Tear(*data, off, &w.rng)
		}
		return off, fault.Err
	case Shorten:
		*data = (*data)[:max(0, min(fault.Bytes, int64(len(*data))))]
	case Lie:
		*dsync = disk.Cached
	case Misdirect:
		return off + fault.Bytes, nil
	}
	return off, nil
}

// put brings bytes to the disk; false when it is full.
func (w *World) put(f *disk.Inode, data []byte, off int64, dsync disk.Durability) bool {
	if !f.Write(data, off, dsync) {
		return false
	}
	if dsync == disk.Durable && w.opt.DSYNC == DSYNCFlushes {
		f.Flush(f.Mark())
	}
	return true
}

func (d *Driver) fdatasync(op *aio.Op, mark uint64, fault *Fault) error {
	h := d.handle(op.File)
	if h == nil {
		return opError("fdatasync", op, syscall.EBADF)
	}
	if err := d.w.flush(h.ino, mark, fault); err != nil {
		return opError("fdatasync", op, err)
	}
	return nil
}

// flush flushes the device of f, or fails to.
func (w *World) flush(f *disk.Inode, mark uint64, fault *Fault) error {
	switch {
	case fault == nil:
		f.Flush(mark)
	case fault.Effect == Fail:
		f.FailFlush(mark, &w.rng)
		return fault.Err
	}
	return nil
}
