package portable

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/hostfs"
	"github.com/mqd-broker/mqd/engine/aio/hostnet"
	"github.com/mqd-broker/mqd/engine/aio/openfiles"
	"github.com/mqd-broker/mqd/engine/fifo"
	"github.com/mqd-broker/mqd/internal/invariant"
	"golang.org/x/sys/unix"
)

const (
	// dataWorkers is the number of threads for reads, writes and flushes. A disk
	// has most of its throughput at this depth, and a round of the journal finds
	// a free one beside background writes.
	dataWorkers = 8
	// maxRecvBuffers is the largest receive pool.
	maxRecvBuffers = 4096
)

// Config is what only this driver has. The zero value is the right one outside
// tests.
type Config struct {
	// FS is the blocking filesystem of the workers; its files must have the
	// methods Fd and Direct of *hostfs.File. Default: hostfs.New().
	FS aio.FS
	// DataWorkers is the number of threads for reads, writes and flushes, 1 to
	// 1024. Default 8.
	DataWorkers int
	// Simple picks the variant for development, which uses only what every Unix has.
	// Outside Linux it is all there is.
	Simple bool

	calls calls // tests put faults in its place
}

// Driver is the portable driver. See the package comment and aio.Driver.
type Driver struct {
	sys    calls
	simple bool
	fs     *buffering
	files  openfiles.Table
	arena  *arena
	recv   *recvPool
	clock  clock
	rand   *rand.ChaCha8

	data, slow crew
	waker      waker

	poller poller
	// socks are the sockets by descriptor.
	socks []sock
	// watched is the number of sockets that the poller knows.
	watched int
	// todo are operations on sockets that the next Poll starts.
	todo fifo.Queue[*aio.Op]
	// ready are sockets that can go on, as far as is known.
	ready fifo.Queue[int32]

	// done are operations that have ended, whose owners are told next.
	done fifo.Queue[ending]
	// refused are file operations that ended without a worker.
	refused fifo.Queue[task]

	inFlight int // operations of all kinds
	polling  bool
	closing  bool
	closed   bool
}

var _ aio.Driver = (*Driver)(nil)

// New makes a driver. Options.Entries has no meaning here: nothing needs a place in
// a queue of the kernel.
func New(opts aio.Options, cfg Config) (*Driver, error) {
	opts = opts.WithDefaults()
	if cfg.FS == nil {
		cfg.FS = hostfs.New()
	}
	if cfg.DataWorkers == 0 {
		cfg.DataWorkers = dataWorkers
	}
	cfg.Simple = cfg.Simple || onlySimple
	if cfg.calls == nil {
		cfg.calls = newCalls(cfg.Simple)
	}
	if err := validate(opts, cfg); err != nil {
		return nil, err
	}
	d := &Driver{
		sys:    cfg.calls,
		simple: cfg.Simple,
		fs:     &buffering{FS: aio.Watched(cfg.FS, opts.FlushFailed)},
		files:  openfiles.New(opts.Files),
		rand:   newRand(),
	}
	if err := d.build(opts); err != nil {
		d.release()
		return nil, err
	}
	d.data.init(d, cfg.DataWorkers)
	d.slow.init(d, opts.Helpers)
	return d, nil
}

func validate(o aio.Options, c Config) error {
	for _, v := range [...]struct {
		name     string
		n        int
		min, max int
	}{
		{"RecvBuffers", o.RecvBuffers, 1, maxRecvBuffers},
		{"RecvBufferBytes", o.RecvBufferBytes, aio.BlockSize, maxTransfer},
		{"Files", o.Files, 1, 1 << 20},
		{"Helpers", o.Helpers, 1, 1024},
		{"DataWorkers", c.DataWorkers, 1, 1024},
	} {
		if v.n < v.min || v.n > v.max {
			return fmt.Errorf("portable: option %s is %d, it must be between %d and %d", v.name, v.n, v.min, v.max)
		}
	}
	switch {
	case bits.OnesCount(uint(o.RecvBuffers)) != 1:
		return fmt.Errorf("portable: option RecvBuffers is %d, it must be a power of two", o.RecvBuffers)
	case o.RecvBufferBytes%aio.BlockSize != 0:
		return fmt.Errorf("portable: option RecvBufferBytes is %d, it must be a multiple of %d", o.RecvBufferBytes, aio.BlockSize)
	case o.ArenaBytes < 1:
		return fmt.Errorf("portable: option ArenaBytes is %d, it must be positive", o.ArenaBytes)
	}
	return nil
}

// build makes what the driver has of the kernel.
func (d *Driver) build(o aio.Options) (err error) {
	if d.poller, err = newPoller(d.simple); err != nil {
		return err
	}
	d.waker.poller = d.poller
	if d.arena, err = newArena(o.ArenaBytes); err != nil {
		return err
	}
	d.recv, err = newRecvPool(o.RecvBuffers, o.RecvBufferBytes)
	return err
}

// release gives back what build has made. Nothing is in flight.
func (d *Driver) release() {
	d.waker.settle()
	if d.poller != nil {
		d.poller.close()
	}
	if d.arena != nil {
		d.arena.close()
	}
	if d.recv != nil {
		d.recv.close()
	}
}

// Name is "portable".
func (d *Driver) Name() string { return "portable" }

// Notes are what the driver has had to do without so far: that it is the variant for
// development, and files that went through the page cache. See aio.Driver.
func (d *Driver) Notes() []string {
	notes := d.fs.notes()
	if d.simple {
		notes = append([]string{simpleNote}, notes...)
	}
	return notes
}

// Clock is the kernel's clock.
func (d *Driver) Clock() aio.Clock { return d.clock }

// Rand returns 64 random bits of a generator with a seed from the kernel.
func (d *Driver) Rand() uint64 { return d.rand.Uint64() }

// FS is the blocking filesystem that the workers use. Where there is no O_DIRECT it
// opens files without.
func (d *Driver) FS() aio.FS { return d.fs }

// Alloc returns zeroed I/O memory. See aio.Driver.
func (d *Driver) Alloc(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b, err := d.arena.alloc(n)
	if err != nil {
		return nil, &aio.Error{Op: "alloc", What: "I/O memory", Off: -1, Err: err}
	}
	return b, nil
}

// ReleaseBuf gives a receive buffer home.
func (d *Driver) ReleaseBuf(id aio.BufID) { d.recv.release(id) }

// FreeBufs is the number of receive buffers that are home.
func (d *Driver) FreeBufs() int { return len(d.recv.free) }

// InFlight is the number of operations of all kinds that have not completed.
func (d *Driver) InFlight() int { return d.inFlight }

// Listen opens a listening TCP socket. See aio.Driver.
func (d *Driver) Listen(addr string, mode aio.ListenMode) (aio.Sock, string, error) {
	return hostnet.Listen(addr, mode)
}

// Dial opens a TCP connection. See aio.Driver. It gives up after 10 seconds.
func (d *Driver) Dial(addr string) (aio.Sock, error) {
	s, err := hostnet.Dial(addr)
	if err == nil && d.simple {
		if err := unix.SetNonblock(int(s), true); err != nil {
			return aio.NoSock, &aio.Error{Op: "dial", What: addr, Off: -1, Err: errors.Join(err, unix.Close(int(s)))}
		}
	}
	return s, err
}

// PeerAddr is the address of the other side, "" when unknown.
func (d *Driver) PeerAddr(s aio.Sock) string { return hostnet.PeerAddr(s) }

// Wake ends the present or next blocking Poll. Any thread may call it.
func (d *Driver) Wake() { d.waker.wake() }

// Close ends the driver. See aio.Driver: operations on sockets are cancelled, those
// of workers are waited for. Owners are not told. Sockets stay open: they belong to
// the process.
func (d *Driver) Close() error {
	if d.closed {
		return nil
	}
	if d.polling {
		invariant.Violated("portable: a completion does not close the driver")
	}
	d.closing = true
	for i := range d.socks {
		d.abandon(i)
	}
	var errs []error
	for d.inFlight > 0 && len(errs) == 0 {
		if _, err := d.Poll(closePoll); err != nil {
			errs = append(errs, fmt.Errorf("portable: closing with %d operations in flight: %w", d.inFlight, err))
		}
	}
	d.closed = true
	d.data.close()
	d.slow.close()
	errs = append(errs, d.files.Close())
	d.release()
	return errors.Join(errs...)
}

// begin counts an operation that has been submitted.
func (d *Driver) begin() {
	if d.closed {
		invariant.Violated("portable: nothing is submitted to a closed driver")
	}
	d.inFlight++
}
