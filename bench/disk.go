package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/bench/drive"
	"github.com/mqd-broker/mqd/engine/aio"
)

// DiskOp is what a disk measurement does.
type DiskOp uint8

const (
	// Write is an O_DIRECT write: the device has the bytes, perhaps in a cache.
	Write DiskOp = iota
	// DSYNC is an O_DIRECT write that is durable when it completes.
	DSYNC
	// Read is an O_DIRECT read.
	Read
)

var diskOpNames = [...]string{"write", "dsync", "read"}

// String is the name on the command line.
func (o DiskOp) String() string { return nameOf(diskOpNames[:], int(o)) }

// MarshalText puts the name into JSON.
func (o DiskOp) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// ParseDiskOp reads a name that String gives.
func ParseDiskOp(name string) (DiskOp, error) {
	i, err := parseName("operation", diskOpNames[:], name)
	return DiskOp(i), err
}

// UnmarshalText reads the name from JSON.
func (o *DiskOp) UnmarshalText(text []byte) (err error) {
	*o, err = ParseDiskOp(string(text))
	return err
}

const (
	// MaxDiskSize is the largest operation.
	MaxDiskSize = 1 << 20
	// MaxDiskDepth bounds the operations in flight.
	MaxDiskDepth = 64
	// defaultDiskFile is the size of the file if nothing else is said.
	defaultDiskFile = 128 << 20
)

// DiskOptions are what [Disk] measures.
type DiskOptions struct {
	// Dir is where the file is made, which is removed afterwards.
	Dir string
	// FileBytes is its size, a multiple of 1 MiB. Default 128 MiB.
	FileBytes int64
	Ops       []DiskOp
	Sizes     []int // bytes, multiples of 4096, at most 1 MiB
	Depths    []int // operations in flight
	Idle      []Idle
	// Duration of one case.
	Duration time.Duration
	// CPU is where the thread is pinned, or NoCPU.
	CPU int
}

// DiskResult is one case of [Disk].
type DiskResult struct {
	Op      DiskOp  `json:"op"`
	Size    int     `json:"size"`
	Depth   int     `json:"depth"`
	Idle    Idle    `json:"idle"`
	Latency Summary `json:"latency"`
	Ops     float64 `json:"ops_per_second"`
	Bytes   float64 `json:"bytes_per_second"`
}

// Disk measures a file that has been written before, in place: what a journal
// does. Cases come in the order of idle mode, operation, size, depth.
func Disk(ctx context.Context, p Platform, o DiskOptions, each func(DiskResult)) error {
	d, err := OpenDisk(p, o)
	if err != nil {
		return err
	}
	defer d.Remove()
	for _, idle := range o.Idle {
		for _, op := range o.Ops {
			for _, size := range o.Sizes {
				for _, depth := range o.Depths {
					r, err := d.Measure(ctx, DiskResult{Op: op, Size: size, Depth: depth, Idle: idle}, NoCPU)
					if err != nil {
						return err
					}
					each(r)
				}
			}
		}
	}
	return nil
}

// DiskFile is a file to measure on.
type DiskFile struct {
	p    Platform
	o    DiskOptions
	path string
}

// OpenDisk writes the file, once with zeros.
func OpenDisk(p Platform, o DiskOptions) (*DiskFile, error) {
	if o.FileBytes == 0 {
		o.FileBytes = defaultDiskFile
	}
	if o.FileBytes < MaxDiskSize || o.FileBytes%MaxDiskSize != 0 {
		return nil, fmt.Errorf("%w: file of %d bytes, expected a multiple of %d", ErrConfig, o.FileBytes, MaxDiskSize)
	}
	if o.Dir == "" {
		return nil, fmt.Errorf("%w: no directory to measure in", ErrConfig)
	}
	d := &DiskFile{p: p, o: o, path: filepath.Join(o.Dir, fmt.Sprintf("mqd-bench-%d.dat", os.Getpid()))}
	err := d.onThread(func(drv aio.Driver) error {
		f, _, err := aio.OpenFile(drv, d.path, aio.OpenWrite|aio.OpenCreate|aio.OpenDirect)
		if err != nil {
			return err
		}
		zeros, err := drv.Alloc(MaxDiskSize)
		if err != nil {
			return err
		}
		for off := int64(0); off < o.FileBytes; off += MaxDiskSize {
			if err := aio.WriteAt(drv, f, zeros, off, 0); err != nil {
				return err
			}
		}
		return aio.DoFile(drv, &aio.FileOp{Kind: aio.FileSync, File: f})
	})
	if err != nil {
		d.Remove()
		return nil, fmt.Errorf("disk: %w", err)
	}
	return d, nil
}

// Remove removes the file.
func (d *DiskFile) Remove() {
	_ = d.onThread(func(drv aio.Driver) error {
		return aio.DoFile(drv, &aio.FileOp{Kind: aio.FileRemove, Path: d.path})
	})
}

func (d *DiskFile) onThread(f func(drv aio.Driver) error) error {
	o := aio.Options{
		Entries: 2 * MaxDiskDepth, ArenaBytes: MaxDiskSize * 17, RecvBuffers: 2, RecvBufferBytes: aio.BlockSize, Files: 4, Helpers: 1,
	}
	return drive.OnThread(d.p, d.o.CPU, o, f)
}

// Measure measures one case. Unless companion is NoCPU, another thread polls and
// yields on that CPU meanwhile, as a client's would.
func (d *DiskFile) Measure(ctx context.Context, r DiskResult, companion int) (DiskResult, error) {
	if r.Size < aio.BlockSize || r.Size > MaxDiskSize || r.Size%aio.BlockSize != 0 || r.Depth < 1 || r.Depth > MaxDiskDepth {
		return r, fmt.Errorf("%w: %d operations of %d bytes, expected 1 to %d of a multiple of %d up to %d bytes",
			ErrConfig, r.Depth, r.Size, MaxDiskDepth, aio.BlockSize, MaxDiskSize)
	}
	defer drive.WithoutGC()()
	defer d.accompany(companion)()
	err := d.onThread(func(drv aio.Driver) error {
		f, _, err := aio.OpenFile(drv, d.path, aio.OpenWrite|aio.OpenDirect)
		if err != nil {
			return err
		}
		m := &diskRun{drv: drv, clock: drv.Clock(), r: r, fileBytes: d.o.FileBytes, lat: NewLatency()}
		if err := m.run(ctx, drive.NewLoop(drv, d.p, r.Idle), f, d.o.Duration); err != nil {
			return err
		}
		r = m.r
		return nil
	})
	if err != nil {
		return r, fmt.Errorf("disk: %s of %d bytes, %d in flight: %w", r.Op, r.Size, r.Depth, err)
	}
	return r, nil
}

// accompany has a thread poll and yield on cpu until the returned function is
// called.
func (d *DiskFile) accompany(cpu int) (end func()) {
	if cpu == NoCPU {
		return func() {}
	}
	var stop atomic.Bool
	done := make(chan error, 1)
	o := aio.Options{Entries: 16, ArenaBytes: 1 << 16, RecvBuffers: 2, RecvBufferBytes: aio.BlockSize, Files: 1, Helpers: 1}
	go func() {
		done <- drive.OnThread(d.p, cpu, o, func(drv aio.Driver) error {
			l := drive.NewLoop(drv, d.p, Poll)
			for !stop.Load() {
				if err := l.Turn(drive.Far); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	return func() {
		stop.Store(true)
		<-done // without it the figure only lacks company
	}
}

// diskRun is one case under way.
type diskRun struct {
	drv       aio.Driver
	clock     aio.Clock
	r         DiskResult
	fileBytes int64
	lat       *Latency

	next        int64 // offset
	from, until int64
	ops         [MaxDiskDepth]aio.Op
	began       [MaxDiskDepth]int64
	count       int64
	flying      int
	err         error
}

func (m *diskRun) run(ctx context.Context, l *drive.Loop, f aio.File, duration time.Duration) error {
	buf, err := m.drv.Alloc(m.r.Size * min(m.r.Depth, MaxDiskSize*16/m.r.Size))
	if err != nil {
		return err
	}
	start := m.clock.Now()
	m.from = start + int64(duration)/10 // before, it warms up
	m.until = m.from + int64(duration)
	for i := range m.r.Depth {
		at := i * m.r.Size % len(buf)
		m.ops[i] = aio.Op{Kind: aio.KindWrite, File: f, Buf: buf[at : at+m.r.Size], Owner: m, Tag: uint64(i)}
		switch m.r.Op {
		case DSYNC:
			m.ops[i].Flags = aio.FlagDSYNC
		case Read:
			m.ops[i].Kind = aio.KindRead
		}
		m.submit(i, start)
	}
	for m.flying > 0 {
		if err := l.Turn(drive.Far); err != nil {
			return err
		}
		if ctx.Err() != nil {
			m.until = 0
		}
	}
	seconds := duration.Seconds()
	m.r.Latency = m.lat.Summary()
	m.r.Ops = float64(m.count) / seconds
	m.r.Bytes = m.r.Ops * float64(m.r.Size)
	if m.err == nil {
		m.err = ctx.Err()
	}
	return m.err
}

func (m *diskRun) submit(i int, now int64) {
	op := &m.ops[i]
	op.Off = m.next
	if m.next += int64(m.r.Size); m.next+int64(m.r.Size) > m.fileBytes {
		m.next = 0
	}
	m.began[i] = now
	m.flying++
	m.drv.Submit(op)
}

// Complete implements aio.Completer.
func (m *diskRun) Complete(op *aio.Op) {
	now := m.clock.Now()
	m.flying--
	if op.Err != nil || op.N != m.r.Size {
		m.until = 0
		if m.err = op.Err; m.err == nil {
			m.err = fmt.Errorf("%d of %d bytes at %d", op.N, m.r.Size, op.Off)
		}
		return
	}
	i := int(op.Tag)
	if m.began[i] >= m.from {
		m.lat.Record(now-m.began[i], 1)
		if now < m.until {
			m.count++
		}
	}
	if now < m.until {
		m.submit(i, now)
	}
}

// DiskHeader is the first line of the table of [DiskResult.Row].
func DiskHeader() string {
	return fmt.Sprintf("%-6s %-6s %8s %5s  %10s %9s  %10s %10s %10s", "idle", "op", "bytes", "depth", "ops/s", "MB/s", "p50", "p99", "p99.9")
}

// Row is the result as one line.
func (r DiskResult) Row() string {
	return fmt.Sprintf("%-6s %-6s %8d %5d  %10.0f %9.1f  %10s %10s %10s", r.Idle, r.Op, r.Size, r.Depth, r.Ops, r.Bytes/1e6,
		Micros(r.Latency.P50), Micros(r.Latency.P99), Micros(r.Latency.P999))
}
