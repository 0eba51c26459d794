package aio

import "github.com/mqd-broker/mqd/internal/invariant"

// Kind says what an [Op] does.
type Kind uint8

// The operations of the data path. All complete on the loop that submitted
// them.
const (
	KindNone Kind = iota
	// KindRead reads len(Buf) bytes of File at Off. N is less than len(Buf)
	// only at the end of the file.
	KindRead
	// KindWrite writes Buf to File at Off. It completes with all bytes
	// written or with an error; a driver submits the rest of a short write
	// again, and a write of zero bytes is an error. With FlagDSYNC these bytes
	// (and no earlier write's) are durable at completion.
	KindWrite
	// KindFdatasync flushes File and the device's cache: every write to File
	// that had completed before the submission is durable at completion.
	KindFdatasync
	// KindAccept accepts connections on Sock until it is cancelled: each
	// completion carries a new socket in NewSock and has More set while the
	// operation stays armed.
	KindAccept
	// KindRecv receives on Sock into buffers of the driver's receive pool
	// until it is cancelled: each completion carries Data and BufID, and has
	// More set while the operation stays armed. len(Data) == 0 with a nil Err
	// is the end of the stream. ErrNoBuffers ends it when the pool is empty;
	// the caller arms it again after buffers have come home.
	KindRecv
	// KindSend sends all pieces of Vec on Sock, in order. It completes when
	// every byte has been handed to the kernel, or with an error. The memory
	// may be reused only then.
	KindSend
	// KindShutdown ends both directions of Sock: operations in flight on it
	// complete.
	KindShutdown
	// KindCloseSock closes Sock. Nothing may be in flight on it.
	KindCloseSock
)

// Flags modify an [Op].
type Flags uint8

// FlagDSYNC makes a KindWrite durable before it completes.
const FlagDSYNC Flags = 1

// File is a driver's handle of an open file. It is valid on that driver only.
type File int32

// NoFile is the zero handle's stand-in: no open file.
const NoFile File = -1

// Sock is a handle of a socket. It is valid on every driver of the process, so
// that a connection can be handed over between loops while nothing is in
// flight on it.
type Sock int32

// NoSock stands for no socket.
const NoSock Sock = -1

// BufID names a buffer of a driver's receive pool.
type BufID uint16

// MaxVec is the largest number of pieces in a KindSend.
const MaxVec = 64

// StampUnsound is the [Op].Stamp that is not to be relied upon.
const StampUnsound int64 = -1

// Completer receives completions. Complete runs on the loop, inside Poll. It may
// submit operations, also the one that has just completed (unless op.More).
type Completer interface {
	Complete(op *Op)
}

// Op is one operation of the data path. The caller owns it and embeds it where
// its state lives. Fields of the request are set before Submit and not changed
// by the driver; result fields are valid inside Complete and until the next
// Submit.
type Op struct {
	// Request.
	Kind  Kind
	Flags Flags
	File  File
	Sock  Sock
	Off   int64    // byte offset in File
	Buf   []byte   // memory from Alloc: KindRead, KindWrite
	Vec   [][]byte // memory from Alloc or the receive pool: KindSend, at most MaxVec pieces
	Owner Completer
	// Tag is the owner's, to tell its operations apart.
	Tag uint64

	// Result.
	N       int    // bytes read, written or sent
	Err     error  // nil on success
	More    bool   // KindAccept, KindRecv: the operation is still armed
	NewSock Sock   // KindAccept
	Data    []byte // KindRecv: the bytes; the buffer goes home by ReleaseBuf(BufID)
	BufID   BufID  // KindRecv, when len(Data) > 0
	// At is when the driver took the completion from the kernel, by its clock: KindRecv,
	// when len(Data) > 0.
	At int64
	// Stamp is when the kernel, or the network card, received the newest of the bytes, by
	// the driver's clock: not behind At. 0 where nobody has noted it, StampUnsound where
	// it has been noted by a clock that has jumped.
	Stamp int64

	// Drv is the driver's own state of the operation.
	Drv OpState
}

// OpState is what a driver keeps in an operation. Callers leave it alone.
type OpState struct {
	InFlight bool
	Slot     uint32
	Done     int // bytes already transferred by earlier parts of the operation
	Retries  uint8
}

// InFlight reports whether the operation has been submitted and its last
// completion has not arrived.
func (op *Op) InFlight() bool { return op.Drv.InFlight }

// Begin is called by drivers at Submit: it resets the result and checks that the
// operation is not in flight already.
func (op *Op) Begin() {
	if op.Drv.InFlight {
		invariant.Violated("aio: an operation in flight was submitted again")
	}
	if op.Owner == nil {
		invariant.Violated("aio: an operation without an owner was submitted")
	}
	op.N, op.Err, op.More = 0, nil, false
	op.NewSock, op.Data, op.BufID, op.At, op.Stamp = NoSock, nil, 0, 0, 0
	op.Drv.InFlight, op.Drv.Done, op.Drv.Retries = true, 0, 0
}

// End is called by drivers to deliver a completion. Unless More is set the
// operation is the caller's again before its owner hears of it.
func (op *Op) End() {
	op.Drv.InFlight = op.More
	op.Owner.Complete(op)
}
