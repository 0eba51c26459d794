package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// memRegion is a region in memory whose operations wait until a test performs them,
// in the order that it chooses.
type memRegion struct {
	data []byte
	wait []*aio.Op
	log  []string // what was submitted
	// refuse, if set, gives the error with which an operation fails.
	refuse func(op *aio.Op) error
	quiet  bool // no log
}

func newMemRegion(size int) *memRegion { return &memRegion{data: make([]byte, size)} }

func (r *memRegion) Size() int64    { return int64(len(r.data)) }
func (r *memRegion) BlockSize() int { return BlockSize }

func (r *memRegion) Write(op *aio.Op, buf []byte, off int64, how aio.Flags) {
	op.Kind, op.Buf, op.Off, op.Flags = aio.KindWrite, buf, off, how
	r.submit(op)
}

func (r *memRegion) Flush(op *aio.Op) {
	op.Kind, op.Buf, op.Off, op.Flags = aio.KindFdatasync, nil, 0, 0
	r.submit(op)
}

func (r *memRegion) Read(op *aio.Op, buf []byte, off int64) {
	op.Kind, op.Buf, op.Off, op.Flags = aio.KindRead, buf, off, 0
	r.submit(op)
}

func (r *memRegion) submit(op *aio.Op) {
	op.Begin()
	r.wait = append(r.wait, op)
	if !r.quiet && op.Kind != aio.KindRead {
		r.log = append(r.log, opName(op))
	}
}

// opName is "flush", or "write" or "dsync" and what is written.
func opName(op *aio.Op) string {
	if op.Kind == aio.KindFdatasync {
		return "flush"
	}
	name := "write"
	if op.Flags&aio.FlagDSYNC != 0 {
		name = "dsync"
	}
	if op.Off < RingStart {
		return name + " anchor"
	}
	return fmt.Sprintf("%s %d", name, binary.BigEndian.Uint64(op.Buf[offLSN:]))
}

// perform ends the i-th waiting operation.
func (r *memRegion) perform(i int) {
	op := r.wait[i]
	r.wait = append(r.wait[:i], r.wait[i+1:]...)
	if r.refuse != nil {
		op.Err = r.refuse(op)
	}
	if op.Err == nil {
		switch op.Kind {
		case aio.KindRead:
			op.N = copy(op.Buf, r.data[op.Off:])
		case aio.KindWrite:
			op.N = copy(r.data[op.Off:], op.Buf)
		}
	}
	op.End()
}

// settle performs everything, oldest first, until nothing waits.
func (r *memRegion) settle() {
	for len(r.wait) > 0 {
		r.perform(0)
	}
}

// took returns what was submitted since the last call.
func (r *memRegion) took() []string {
	l := r.log
	r.log = nil
	return l
}

// memDriver is as much of a driver as opening and replaying need.
type memDriver struct {
	aio.Driver
	region *memRegion
	now    int64
	rand   uint64
}

func (d *memDriver) Alloc(n int) ([]byte, error) { return make([]byte, n), nil }
func (d *memDriver) Clock() aio.Clock            { return d }
func (d *memDriver) Now() int64                  { d.now += 1000; return d.now }
func (d *memDriver) Wall() int64                 { return d.Now() }
func (d *memDriver) Rand() uint64                { d.rand++; return d.rand }

func (d *memDriver) Poll(time.Duration) (int, error) {
	n := len(d.region.wait)
	d.region.settle()
	return n, nil
}

// recorder is an observer that remembers.
type recorder struct {
	written, flushed uint64
	calls            int
	err              error
	then             func()
}

func (o *recorder) JournalProgress(written, flushed uint64) {
	if written < o.written || flushed < o.flushed || flushed > written {
		panic(fmt.Sprintf("watermarks went from %d/%d to %d/%d", o.written, o.flushed, written, flushed))
	}
	o.written, o.flushed = written, flushed
	o.calls++
	if o.then != nil {
		o.then()
	}
}

func (o *recorder) JournalFailed(err error) {
	if o.err != nil {
		panic("JournalFailed was called twice")
	}
	o.err = err
}

// bench is a journal in memory under test.
type bench struct {
	t      testing.TB
	d      *memDriver
	region *memRegion
	opts   Options
	obs    *recorder
	j      *Journal
	now    int64
	base   int64
}

const testSize = 64 * BlockSize

// newBench makes a journal in a region of size bytes and opens it.
func newBench(t testing.TB, size int, o Options) *bench {
	t.Helper()
	b := &bench{t: t, region: newMemRegion(size), opts: o, now: 1000}
	b.d = &memDriver{region: b.region}
	if err := Create(b.d, b.region, Identity{UUID: [16]byte{1, 2, 3}, Shard: 7, Created: 5}); err != nil {
		t.Fatal(err)
	}
	b.reopen()
	return b
}

// scan replays the region and returns the result and the entries found.
func (b *bench) scan() (*Result, []found) {
	b.t.Helper()
	res, list, err := scanAll(b.d, b.region)
	if err != nil {
		b.t.Fatal(err)
	}
	return res, list
}

// found is an entry that a replay handed out.
type found struct {
	lsn  uint64
	e    Entry
	body string
}

func scanAll(d aio.Driver, r Region) (*Result, []found, error) {
	var list []found
	res, err := Scan(d, r, func(h *Header, e *Entry, body []byte) error {
		list = append(list, found{h.LSN, *e, string(body)})
		return nil
	})
	return res, list, err
}

// reopen replays the region and begins a new life.
func (b *bench) reopen() *Result {
	b.t.Helper()
	b.region.wait = nil
	res, _ := b.scan()
	b.obs = &recorder{}
	o := b.opts
	o.Observer = b.obs
	j, err := Open(b.d, b.region, res, o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.j = j
	b.region.took()
	return res
}

// add appends a batch with n bytes of payload and returns the LSN.
func (b *bench) add(n int, need Need) uint64 {
	b.t.Helper()
	lsn, err := b.try(n, need)
	if err != nil {
		b.t.Fatal(err)
	}
	return lsn
}

func (b *bench) try(n int, need Need) (uint64, error) {
	e := Entry{Kind: KindBatch, Slot: 3, Term: 9, Topic: [16]byte{0xaa}, Partition: 4, BaseOffset: b.base}
	lsn, err := b.j.Append(&e, testBatch(b.base, n), need)
	if err == nil {
		b.base++
	}
	return lsn, err
}

// turn is a turn of a shard's loop, a microsecond after the last.
func (b *bench) turn() {
	b.now += 1000
	b.j.Kick(b.now)
	b.j.Timer(b.now, b.now)
}

// run turns until nothing waits.
func (b *bench) run() {
	b.turn()
	for len(b.region.wait) > 0 {
		b.region.settle()
		b.turn()
	}
}

// silence lets ms milliseconds pass without an append.
func (b *bench) silence(ms int) {
	b.now += int64(ms) * 1e6
	b.run()
}

// write appends a batch, writes it and waits for it.
func (b *bench) write(n int, need Need) uint64 {
	b.t.Helper()
	lsn := b.add(n, need)
	b.run()
	if b.obs.err != nil {
		b.t.Fatal(b.obs.err)
	}
	return lsn
}

// wantLog holds what was submitted since the last call against want.
func (b *bench) wantLog(want ...string) {
	b.t.Helper()
	if got := b.region.took(); !slices.Equal(got, want) {
		b.t.Fatalf("submitted %q, expected %q", got, want)
	}
}

// testBatch is a record batch as far as the journal looks at it.
func testBatch(base int64, payload int) []byte {
	b := make([]byte, 61+payload)
	for i := range b[61:] {
		b[61+i] = byte(int64(i) + base*7)
	}
	binary.BigEndian.PutUint64(b, uint64(base))
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	binary.BigEndian.PutUint64(b[43:], uint64(base))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

// wantBases holds the base offsets of a replay against from .. from+n-1.
func wantBases(t testing.TB, list []found, from, n int64) {
	t.Helper()
	if int64(len(list)) != n {
		t.Fatalf("replay found %d entries, expected %d", len(list), n)
	}
	for i, f := range list {
		if f.e.BaseOffset != from+int64(i) {
			t.Fatalf("entry %d has base offset %d, expected %d", i, f.e.BaseOffset, from+int64(i))
		}
	}
}
