package aio

import (
	"sync/atomic"
	"time"
)

// Clock tells the time. Monotonic time never goes back and has no relation to
// the calendar; wall time is the calendar's and may jump.
type Clock interface {
	// Now is monotonic time in nanoseconds.
	Now() int64
	// Wall is Unix time in nanoseconds.
	Wall() int64
}

// Options sizes a driver. Zero fields take the defaults.
type Options struct {
	// Entries is the number of operations that can be in flight, a power of
	// two. Default 1024.
	Entries int
	// ArenaBytes is the memory that Alloc hands out. Default 64 MiB.
	ArenaBytes int64
	// RecvBuffers is the number of buffers in the receive pool, a power of
	// two, at most 4096. Default 256.
	RecvBuffers int
	// RecvBufferBytes is the size of each, a multiple of 4096. Default 64 KiB.
	RecvBufferBytes int
	// Files is the size of the table of open files. Default 1024.
	Files int
	// Helpers is the number of helper threads for file operations. Default 4.
	Helpers int
	// FlushFailed is set where a flush fails that a file operation or a job makes, before
	// its owner is told: whoever acknowledges on another flush has to know it at once.
	// See [Watched]. Nil: nobody looks at it.
	FlushFailed *atomic.Bool
}

// WithDefaults returns o with its zero fields set.
func (o Options) WithDefaults() Options {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.Entries, 1024)
	def(&o.RecvBuffers, 256)
	def(&o.RecvBufferBytes, 64<<10)
	def(&o.Files, 1024)
	def(&o.Helpers, 4)
	if o.ArenaBytes == 0 {
		o.ArenaBytes = 64 << 20
	}
	return o
}

// Driver performs the I/O of one shard. All methods but Wake are called by the
// thread that owns it (for io_uring: the locked thread that created it).
type Driver interface {
	// Name is the driver's name for people: "io_uring", "portable", "sim".
	Name() string
	// Notes are one-line remarks about what the driver had to do without
	// (registered buffers, say), for the log at start.
	Notes() []string
	// Clock is the driver's clock.
	Clock() Clock
	// Rand returns 64 random bits.
	Rand() uint64

	// Alloc returns n bytes of memory for I/O, aligned to BlockSize, for the driver's
	// life. What is in them is not defined. ErrNoMemory when the arena is used up.
	Alloc(n int) ([]byte, error)

	// Submit queues op. It never blocks and reports every failure by
	// completing op with an error, never from inside Submit.
	Submit(op *Op)
	// SubmitFile queues op for the helpers.
	SubmitFile(op *FileOp)
	// SubmitJob queues a job for the helpers.
	SubmitJob(op *JobOp)
	// FS is the blocking filesystem that the helpers use.
	FS() FS
	// Cancel asks for an early end of an armed KindAccept, KindRecv or a
	// KindSend, which then completes with ErrCanceled or as it would have.
	Cancel(op *Op)
	// Poll submits what is queued and delivers completions, a bounded number a
	// call. With wait 0 it does not block; with wait > 0 it blocks until there
	// is a completion, a Wake, or that time has passed. It returns the number
	// of completions delivered. An error means that the driver itself is broken.
	Poll(wait time.Duration) (int, error)
	// Wake ends the present or next blocking Poll. Any thread may call it.
	Wake()
	// InFlight is the number of operations, file operations included, that
	// are submitted and not completed.
	InFlight() int

	// ReleaseBuf gives a buffer of the receive pool home.
	ReleaseBuf(id BufID)
	// FreeBufs is the number of receive buffers that are home.
	FreeBufs() int

	// Listen opens a listening TCP socket on addr ("host:port"). It may block,
	// at start only. The address really bound is returned.
	Listen(addr string, mode ListenMode) (Sock, string, error)
	// Dial opens a TCP connection to addr. It may block, so it is not for
	// shards that serve.
	Dial(addr string) (Sock, error)
	// PeerAddr is the address of the other side, "" when unknown.
	PeerAddr(s Sock) string

	// Close ends the driver: operations in flight are cancelled or waited for,
	// memory is unmapped, files are closed.
	Close() error
}

// Warmer is a driver that has been made in a hurry and works, but not as fast as it can.
type Warmer interface {
	// Warm makes up for that. The driver's thread calls it before it serves, when
	// nothing that is of use stands in memory from Alloc, and nothing is in flight.
	Warm() error
}

// ListenMode says whether a port may be shared.
type ListenMode uint8

const (
	// ListenAlone fails when anything else listens on the port.
	ListenAlone ListenMode = iota
	// ListenShared lets several shards listen on the same port (SO_REUSEPORT).
	ListenShared
)
