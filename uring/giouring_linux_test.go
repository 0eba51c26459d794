package uring

import (
	"bytes"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// These tests are about the known bugs of giouring v0.0.0-20230826085535, each
// by its number in the list that the project keeps: what this package does about
// it works, so that neither a change here nor another release of giouring brings
// one back. (Number 16, the linker flag, is held by internal/layers: nothing but
// this package imports giouring.)

// rawRing makes an enabled, unrestricted ring without a driver.
func rawRing(t *testing.T, sq, cq int) *ring {
	t.Helper()
	runtime.LockOSThread()
	r, err := newRing(sq, cq)
	check(t, err)
	check(t, r.enable())
	t.Cleanup(func() {
		r.close()
		runtime.UnlockOSThread()
	})
	return r
}

// run submits e's ring and returns the results of n completions.
func run(t *testing.T, r *ring, n int) []int32 {
	t.Helper()
	var res []int32
	var c [16]giouring.CompletionQueueEvent
	for len(res) < n {
		if _, err := r.check(r.wait(waitSubmit, time.Second)); err != nil {
			t.Fatal(err)
		}
		for _, e := range c[:r.reap(c[:])] {
			res = append(res, e.Res)
		}
	}
	return res
}

func TestGiouringF01EntriesKeepNothingOfAnEarlierOperation(t *testing.T) {
	r := rawRing(t, 2, 4)
	for range 8 {
		e := r.sqe()
		if *e != (giouring.SubmissionQueueEntry{}) {
			t.Fatalf("a new entry is not clear: %+v", e)
		}
		b := unsafe.Slice((*byte)(unsafe.Pointer(e)), sqeSize)
		for i := range b {
			b[i] = 0xff
		}
		e.OpCode, e.Flags = giouring.OpNop, 0
		run(t, r, 1)
	}
	// A write that follows fsync(DATASYNC) in the same place of the queue.
	d := open(t, small, Config{SubmitEntries: 1})
	f := newFile(t, d, 0)
	b := memory(t, d, 4096)
	for range 3 {
		check(t, aio.Fdatasync(d, f))
		check(t, aio.WriteAt(d, f, b, 0, 0))
	}
}

func TestGiouringF02FilesAreRegisteredByTheirOwnDescriptors(t *testing.T) {
	d := open(t, small, Config{})
	var files []aio.File
	var paths []string
	for range 3 {
		path := filepath.Join(t.TempDir(), "f")
		f, _, err := aio.OpenFile(d, path, aio.OpenWrite|aio.OpenCreate|aio.OpenDirect)
		check(t, err)
		files, paths = append(files, f), append(paths, path)
	}
	for i, f := range files {
		b := memory(t, d, 4096)
		b[0] = byte(i)
		check(t, aio.WriteAt(d, f, b, 0, 0))
	}
	for i, path := range paths {
		op := aio.FileOp{Kind: aio.FileRead, Path: path, Len: 8192}
		if err := aio.DoFile(d, &op); err != nil || len(op.Data) != 4096 || op.Data[0] != byte(i) {
			t.Fatalf("file %d holds %d bytes of another: %v", i, len(op.Data), err)
		}
	}
}

func TestGiouringF03FailedRegistrationIsAnError(t *testing.T) {
	r := rawRing(t, 2, 4)
	check(t, r.registerFiles(4))
	if err := r.registerFiles(4); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a second table: %v", err)
	}
	if err := r.setFile(1, 0x7ffffff); !errors.Is(err, unix.EBADF) {
		t.Errorf("a descriptor that is none: %v", err)
	}
	if err := r.setFile(4, 0); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a place behind the table: %v", err)
	}
	if _, err := r.g.RegisterFilesSparse(4); err != nil {
		t.Errorf("giouring now reports errors (%v): its call can be used", err)
	}
}

func TestGiouringF04AWaitHasATimeout(t *testing.T) {
	d := open(t, small, Config{})
	start := d.clock.Now()
	for range 3 {
		_, err := d.Poll(2 * time.Millisecond)
		check(t, err)
	}
	if d.clock.Now()-start < int64(6*time.Millisecond) {
		t.Error("three waits of 2 ms took less than 6 ms")
	}
}

func TestGiouringF05ASendSendsItsBytesAndNothingElse(t *testing.T) {
	d := open(t, small, Config{})
	near, far := pair(t, d)
	b := memory(t, d, 100)
	for _, vec := range [][][]byte{{b}, {b[:10], b[10:11], b[11:]}, {b[:0], b}} {
		op := aio.Op{Kind: aio.KindSend, Sock: near, Vec: vec}
		check(t, aio.Do(d, &op))
		got := make([]byte, 2*len(b))
		n, err := unix.Read(int(far), got)
		if err != nil || !bytes.Equal(got[:n], b) {
			t.Fatalf("%d pieces: the peer got %d bytes, %v", len(vec), n, err)
		}
	}
}

// TestGiouringF06F07F08F11F12WhatItPreparesWronglyIsForbidden: operations with
// paths or addresses, commands, messages between rings, worker limits, updates of
// buffers.
func TestGiouringF06F07F08F11F12WhatItPreparesWronglyIsForbidden(t *testing.T) {
	d := open(t, small, Config{})
	for _, op := range []uint8{
		giouring.OpOpenat, giouring.OpOpenat2, giouring.OpMkdirat, giouring.OpRenameat, giouring.OpUnlinkat,
		giouring.OpLinkat, giouring.OpSymlinkat, giouring.OpStatx, giouring.OpSetxattr, giouring.OpFilesUpdate,
		giouring.OpConnect, giouring.OpSocket, giouring.OpUringCmd, giouring.OpMsgRing, giouring.OpSendZC,
		giouring.OpTimeout, giouring.OpLinkTimeout, giouring.OpSplice, giouring.OpFallocate,
	} {
		e := d.ring.sqe()
		e.OpCode, e.UserData = op, ignoreData
		if res := run(t, d.ring, 1); res[0] != -int32(unix.EACCES) {
			t.Errorf("operation %d: %d, expected EACCES", op, res[0])
		}
	}
	for _, flag := range []uint8{giouring.SqeIOLink, giouring.SqeIODrain, giouring.SqeAsync} {
		e := d.ring.sqe()
		e.OpCode, e.Flags, e.UserData = giouring.OpNop, flag, ignoreData
		if res := run(t, d.ring, 1); res[0] != -int32(unix.EACCES) {
			t.Errorf("flag %x: %d, expected EACCES", flag, res[0])
		}
	}
	var arg [64]byte
	for _, op := range []uint32{
		giouring.RegisterIOWQMaxWorkers, giouring.RegisterBuffers, giouring.RegisterBuffers2, giouring.RegisterBuffersUpdate,
		giouring.RegisterFiles, giouring.RegisterFiles2, giouring.RegisterEventFD, giouring.RegisterPersonality, giouring.RegisterRestrictions,
	} {
		if _, err := d.ring.register(op, unsafe.Pointer(&arg), 1); !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EBADFD) {
			t.Errorf("register call %d: %v, expected EACCES", op, err)
		}
	}
}

// noPlaceNotes counts the notes about the thread's table. A plain user may have others:
// the limit of locked memory is one for all rings of a user, and the kernel gives back
// later what a ring has had.
func noPlaceNotes(d *Driver) int {
	n := 0
	for _, note := range d.Notes() {
		if strings.Contains(note, "table of rings is full") {
			n++
		}
	}
	return n
}

func TestGiouringF09RingsOfAThreadGiveTheirPlaceBack(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := range 40 {
		d, err := New(small, Config{})
		check(t, err)
		if !d.ring.registered || noPlaceNotes(d) != 0 {
			t.Errorf("ring %d has no place in the thread's table of 16: %v", i, d.Notes())
		}
		check(t, d.Close())
	}
}

func TestGiouringF09MoreRingsThanPlacesStillWork(t *testing.T) {
	var all []*Driver
	for range 18 {
		all = append(all, open(t, small, Config{}))
	}
	last := all[len(all)-1]
	if last.ring.registered || noPlaceNotes(last) != 1 {
		t.Fatalf("18 rings in a table of 16: %v", last.Notes())
	}
	f := newFile(t, last, 0)
	check(t, aio.WriteAt(last, f, memory(t, last, 4096), 0, 0))
}

func TestGiouringF10EveryPlaceOfABufferRingIsReached(t *testing.T) {
	const n = maxRecvBuffers
	b, err := newBufRing(n, aio.BlockSize)
	check(t, err)
	t.Cleanup(b.close)
	seen := map[uint64]bool{}
	for i := range n {
		e := b.entry(uint16(i))
		if int(e.Bid) != i || e.Len != aio.BlockSize || seen[e.Addr] {
			t.Fatalf("entry %d: %+v", i, e)
		}
		seen[e.Addr] = true
	}
	// Around the 16 bits of the tail.
	for i := range 70_000 {
		id := uint16(i * 7 % n)
		b.taken(id, 1)
		at := b.tail
		b.release(aio.BufID(id))
		b.show()
		if e := b.entry(at); e.Bid != id || e.Addr != uint64(addressOf(b.bufMem))+uint64(id)*aio.BlockSize {
			t.Fatalf("buffer %d went home as %+v", id, e)
		}
		if shown := b.entry(0).Tail; shown != b.tail {
			t.Fatalf("the kernel sees tail %d, it is %d", shown, b.tail)
		}
	}
	if b.free != n {
		t.Fatalf("%d of %d buffers are home", b.free, n)
	}
}

func TestGiouringF13WhatTheKernelGrantedCanBeRead(t *testing.T) {
	d := open(t, small, Config{SubmitEntries: 8, CompletionEntries: 64})
	p := d.ring.setup
	if p.sqEntries != 8 || p.cqEntries != 64 {
		t.Errorf("asked for 8 and 64 entries, got %d and %d", p.sqEntries, p.cqEntries)
	}
	if p.features&giouring.FeatNoDrop == 0 || p.features&giouring.FeatExtArg == 0 {
		t.Errorf("features 0x%x", p.features)
	}
	if p.sqOff.array == 0 || p.cqOff.cqes == 0 {
		t.Errorf("offsets %+v %+v", p.sqOff, p.cqOff)
	}
}

func TestGiouringF14FlagsThatItBreaksAreNotUsed(t *testing.T) {
	const setupNoSQArray = 1 << 16 // IORING_SETUP_NO_SQARRAY
	for _, flags := range setupFlags {
		if flags&(setupNoSQArray|giouring.SetupNoMmap|giouring.SetupRegisteredFdOnly|giouring.SetupSQPoll|giouring.SetupIOPoll) != 0 {
			t.Errorf("setup flags 0x%x", flags)
		}
	}
}

func TestGiouringF15OnlyWhatIsReadyIsReaped(t *testing.T) {
	r := rawRing(t, 4, 8)
	for i := range 3 {
		e := r.sqe()
		e.OpCode, e.UserData = giouring.OpNop, uint64(i+1)
	}
	if _, err := r.check(r.enter(submitAndReap)); err != nil {
		t.Fatal(err)
	}
	var got [8]giouring.CompletionQueueEvent
	if n := r.reap(got[:2]); n != 2 || got[0].UserData != 1 || got[1].UserData != 2 {
		t.Fatalf("%d: %v", n, got)
	}
	if n := r.reap(got[:]); n != 1 || got[0].UserData != 3 || got[1].UserData != 2 || got[2] != (giouring.CompletionQueueEvent{}) {
		t.Fatalf("%d: %v", n, got)
	}
	if n := r.reap(got[:]); n != 0 {
		t.Fatalf("%d completions of nothing", n)
	}
}

func TestStructsHaveTheKernelsLayout(t *testing.T) {
	var p setupParams
	var q giouring.SubmissionQueueEntry
	var c giouring.CompletionQueueEvent
	var b giouring.BufAndRing
	var reg giouring.BufReg
	var up giouring.FilesUpdate
	var res giouring.Restriction
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		// struct io_uring_params
		{"params.cq_entries", unsafe.Offsetof(p.cqEntries), 4},
		{"params.flags", unsafe.Offsetof(p.flags), 8},
		{"params.features", unsafe.Offsetof(p.features), 20},
		{"params.wq_fd", unsafe.Offsetof(p.wqFD), 24},
		{"params.sq_off", unsafe.Offsetof(p.sqOff), 40},
		{"params.sq_off.array", unsafe.Offsetof(p.sqOff) + unsafe.Offsetof(p.sqOff.array), 64},
		{"params.cq_off", unsafe.Offsetof(p.cqOff), 80},
		{"params.cq_off.cqes", unsafe.Offsetof(p.cqOff) + unsafe.Offsetof(p.cqOff.cqes), 100},
		// struct io_uring_sqe
		{"sqe.fd", unsafe.Offsetof(q.Fd), 4},
		{"sqe.off", unsafe.Offsetof(q.Off), 8},
		{"sqe.addr", unsafe.Offsetof(q.Addr), 16},
		{"sqe.len", unsafe.Offsetof(q.Len), 24},
		{"sqe.rw_flags", unsafe.Offsetof(q.OpcodeFlags), 28},
		{"sqe.user_data", unsafe.Offsetof(q.UserData), 32},
		{"sqe.buf_index", unsafe.Offsetof(q.BufIG), 40},
		{"sqe.personality", unsafe.Offsetof(q.Personality), 42},
		{"sqe.file_index", unsafe.Offsetof(q.SpliceFdIn), 44},
		{"sqe.addr3", unsafe.Offsetof(q.Addr3), 48},
		// struct io_uring_cqe
		{"cqe.res", unsafe.Offsetof(c.Res), 8},
		{"cqe.flags", unsafe.Offsetof(c.Flags), 12},
		// struct io_uring_buf, io_uring_buf_reg
		{"buf.len", unsafe.Offsetof(b.Len), 8},
		{"buf.bid", unsafe.Offsetof(b.Bid), 12},
		{"buf.tail", unsafe.Offsetof(b.Tail), 14},
		{"buf_reg", unsafe.Sizeof(reg), 40},
		{"buf_reg.bgid", unsafe.Offsetof(reg.Bgid), 12},
		// struct io_uring_files_update, io_uring_restriction
		{"files_update.fds", unsafe.Offsetof(up.Fds), 8},
		{"restriction", unsafe.Sizeof(res), 16},
		{"restriction.sqe_op", unsafe.Offsetof(res.OpFlags), 2},
		{"getevents_arg", unsafe.Sizeof(getEventsArg{}), 24},
		{"getevents_arg.ts", unsafe.Offsetof(getEventsArg{}.ts), 16},
		{"msghdr", unsafe.Sizeof(unix.Msghdr{}), 56},
	} {
		if f.got != f.want {
			t.Errorf("%s is at or of %d, expected %d", f.name, f.got, f.want)
		}
	}
}
