package uring

import (
	"unsafe"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// maxTransfer is the most that one entry reads or writes, in bytes; what remains
// of a longer operation follows in another.
const maxTransfer = 1 << 30

// message is what the kernel needs for a gathered send: the header and its
// vector, in mapped memory, one for each slot.
type message struct {
	hdr unix.Msghdr
	iov [aio.MaxVec]unix.Iovec
}

// messages is the array of messages, mapped in chunks that stay where they are
// while the kernel reads them. Pages cost memory only once they are used.
type messages struct {
	chunks [][]byte
	each   uint32 // messages in a chunk
}

const messageSize = int(unsafe.Sizeof(message{}))

// grow adds a chunk.
func (m *messages) grow() error {
	mem, err := mapAnon(int(m.each) * messageSize)
	if err == nil {
		m.chunks = append(m.chunks, mem)
	}
	return err
}

func (m *messages) at(slot uint32) *message {
	return (*message)(unsafe.Pointer(&m.chunks[slot/m.each][int(slot%m.each)*messageSize]))
}

func (m *messages) close() {
	for _, mem := range m.chunks {
		_ = unix.Munmap(mem)
	}
}

// prepare fills a cleared entry for what is left of op.
func (d *Driver) prepare(e *giouring.SubmissionQueueEntry, i uint32, op *aio.Op) {
	e.UserData = d.slots.userData(i)
	switch op.Kind {
	case aio.KindRead, aio.KindWrite:
		d.prepareTransfer(e, op)
	case aio.KindFdatasync:
		e.OpCode = giouring.OpFsync
		e.Flags = giouring.SqeFixedFile
		e.Fd = int32(op.File)
		e.OpcodeFlags = giouring.FsyncDatasync
	case aio.KindAccept:
		e.OpCode = giouring.OpAccept
		e.IoPrio = giouring.AcceptMultishot
		e.Fd = int32(op.Sock)
		e.OpcodeFlags = unix.SOCK_CLOEXEC
	case aio.KindRecv:
		e.OpCode = giouring.OpRecv
		e.IoPrio = giouring.RecvMultishot
		e.Flags = giouring.SqeBufferSelect
		e.Fd = int32(op.Sock)
		if d.stamps {
			m := d.messages.at(i)
			m.hdr = unix.Msghdr{}
			m.hdr.SetControllen(stampControl)
			e.OpCode = giouring.OpRecvmsg
			e.Addr = addrOf(unsafe.Pointer(&m.hdr))
			e.Len = 1
		}
	case aio.KindSend:
		d.prepareSend(e, i, op)
	case aio.KindCloseSock:
		e.OpCode = giouring.OpClose
		e.Fd = int32(op.Sock)
	default:
		invariant.Violated("uring: an operation that has an entry is of a kind that needs one")
	}
}

// prepareTransfer fills an entry that reads or writes what is left of op.Buf.
func (d *Driver) prepareTransfer(e *giouring.SubmissionQueueEntry, op *aio.Op) {
	rest := op.Buf[op.Drv.Done:]
	rest = rest[:min(len(rest), maxTransfer)]
	e.Flags = giouring.SqeFixedFile
	e.Fd = int32(op.File)
	e.Off = uint64(op.Off) + uint64(op.Drv.Done)
	e.Addr = addrOf(unsafe.Pointer(unsafe.SliceData(rest)))
	e.Len = uint32(len(rest))
	piece := d.arena.buffer(rest)
	if op.Kind == aio.KindRead {
		e.OpCode = giouring.OpRead
		if piece != noBuffer {
			e.OpCode = giouring.OpReadFixed
		}
	} else {
		e.OpCode = giouring.OpWrite
		if piece != noBuffer {
			e.OpCode = giouring.OpWriteFixed
		}
		if op.Flags&aio.FlagDSYNC != 0 {
			e.OpcodeFlags = unix.RWF_DSYNC
		}
	}
	if piece != noBuffer {
		e.BufIG = uint16(piece)
	}
}

// prepareSend fills an entry that sends what is left of op.Vec: a plain send if
// that is one piece, else a message.
func (d *Driver) prepareSend(e *giouring.SubmissionQueueEntry, i uint32, op *aio.Op) {
	e.Fd = int32(op.Sock)
	// The kernel goes on by itself after a short send; a peer that has gone
	// is an error and not a signal.
	e.OpcodeFlags = unix.MSG_WAITALL | unix.MSG_NOSIGNAL
	m := d.messages.at(i)
	skip, n := op.Drv.Done, 0
	for _, p := range op.Vec {
		if skip >= len(p) {
			skip -= len(p)
			continue
		}
		m.iov[n].Base = unsafe.SliceData(p[skip:])
		m.iov[n].SetLen(len(p) - skip)
		skip = 0
		n++
	}
	if n == 1 {
		e.OpCode = giouring.OpSend
		e.Addr = addrOf(unsafe.Pointer(m.iov[0].Base))
		e.Len = uint32(min(m.iov[0].Len, maxTransfer))
		return
	}
	m.hdr = unix.Msghdr{Iov: &m.iov[0]}
	m.hdr.SetIovlen(n)
	e.OpCode = giouring.OpSendmsg
	e.Addr = addrOf(unsafe.Pointer(&m.hdr))
	e.Len = 1
}

// prepareCancel fills an entry that cancels the operation with this user data.
// Its own completion says nothing that the operation's does not.
func prepareCancel(e *giouring.SubmissionQueueEntry, userData uint64) {
	e.OpCode = giouring.OpAsyncCancel
	e.Fd = -1
	e.Addr = userData
	e.UserData = ignoreData
}

// prepareWakePoll fills an entry that completes whenever fd is written to.
func prepareWakePoll(e *giouring.SubmissionQueueEntry, fd int) {
	e.OpCode = giouring.OpPollAdd
	e.Fd = int32(fd)
	e.Len = giouring.PollAddMulti
	e.OpcodeFlags = unix.POLLIN
	e.UserData = wakeData
}
