package portable

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/aiotest"
	"github.com/mqd-broker/mqd/engine/aio/hostfs"
	"golang.org/x/sys/unix"
)

// buffered is a filesystem without O_DIRECT.
type buffered struct{ hostfs.FS }

func (b buffered) Open(path string, mode aio.OpenMode) (aio.FSFile, error) {
	if mode&aio.OpenDirect != 0 {
		return nil, &aio.Error{Op: "open", What: path, Off: -1, Err: fmt.Errorf("%w (test)", aio.ErrNoDirect)}
	}
	return b.FS.Open(path, mode)
}

func TestConformance(t *testing.T) { conforms(t, Config{}) }

func TestConformanceWithoutDirectIO(t *testing.T) { conforms(t, Config{FS: buffered{}}) }

func TestConformanceWithOneWorker(t *testing.T) { conforms(t, Config{DataWorkers: 1}) }

func TestConformanceOfTheSimpleVariant(t *testing.T) { conforms(t, Config{Simple: true}) }

func TestConformanceOfTheSimpleVariantWithoutDirectIO(t *testing.T) {
	conforms(t, Config{Simple: true, FS: buffered{}, DataWorkers: 1})
}

func conforms(t *testing.T, c Config) {
	aiotest.Run(t, func(t *testing.T) aiotest.Env {
		flushes := &aiotest.Flushes{FS: c.FS}
		if c.FS == nil {
			flushes.FS = hostfs.New()
		}
		c := c
		c.FS = flushes
		return aiotest.Env{
			Dir:  t.TempDir(),
			Time: aiotest.Real,
			Open: func(o aio.Options) (aio.Driver, error) { return New(o, c) },

			FailFlushes: flushes.Fail,
		}
	})
}

// onBoth runs a test on the driver and on its simple variant.
func onBoth(t *testing.T, test func(t *testing.T, c Config)) {
	for _, simple := range []bool{false, true} {
		t.Run(fmt.Sprintf("simple=%v", simple), func(t *testing.T) { test(t, Config{Simple: simple}) })
	}
}

func TestAFilesystemWithoutDirectIOIsNoted(t *testing.T) {
	if onlySimple {
		t.Skip("there is no direct I/O on this system")
	}
	d := open(t, Config{FS: buffered{}})
	newFile(t, d, 0)
	if notes := d.Notes(); len(notes) != 0 {
		t.Fatalf("noted before anything was asked for: %q", notes)
	}
	newFile(t, d, aio.OpenDirect)
	newFile(t, d, aio.OpenDirect)
	notes := d.Notes()
	if len(notes) != 1 || !strings.Contains(notes[0], "page cache") || !strings.Contains(notes[0], "written") {
		t.Fatalf("the notes are %q", notes)
	}
	plain := open(t, Config{})
	newFile(t, plain, aio.OpenDirect)
	if notes := plain.Notes(); len(notes) != 0 {
		t.Fatalf("a filesystem with direct I/O is noted: %q", notes)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]aio.Options{
		"RecvBuffers":     {RecvBuffers: 3},
		"RecvBufferBytes": {RecvBufferBytes: 5000},
		"ArenaBytes":      {ArenaBytes: -1},
		"Files":           {Files: -1},
		"Helpers":         {Helpers: 2000},
	} {
		if _, err := New(o, Config{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(small, Config{DataWorkers: -1}); err == nil || !strings.Contains(err.Error(), "DataWorkers") {
		t.Errorf("DataWorkers: %v", err)
	}
}

// A cancel inside a completion ends the operation later; what has just come is the
// owner's until it returns.
func TestACancelLeavesTheCompletionAlone(t *testing.T) { onBoth(t, aCancelLeavesTheCompletionAlone) }

func aCancelLeavesTheCompletionAlone(t *testing.T, c Config) {
	d := open(t, c)
	near, far := pair(t, d)
	b := memory(t, d, 100)
	check(t, aio.Do(d, &aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}}))
	var got []byte
	o := &log{}
	o.then = func(op *aio.Op) {
		if o.n == 1 {
			d.Cancel(op)
			if !op.InFlight() || op.Err != nil || !op.More {
				t.Errorf("after a cancel: in flight %v, more %v, %v", op.InFlight(), op.More, op.Err)
			}
			got = append(got, op.Data...)
			d.ReleaseBuf(op.BufID)
		}
	}
	op := aio.Op{Kind: aio.KindRecv, Sock: far, Owner: o}
	d.Submit(&op)
	until(t, d, func() bool { return !op.InFlight() })
	isError(t, op.Err, aio.ErrCanceled)
	if o.n != 2 || !bytes.Equal(got, b) || op.Data != nil || op.N != 0 {
		t.Fatalf("%d completions, %d bytes; at the end N is %d", o.n, len(got), op.N)
	}
}

// What an event has told while nobody received is not lost on who receives later.
func TestAReceiveBesideAWaitingSendSeesWhatCameBefore(t *testing.T) {
	onBoth(t, aReceiveBesideAWaitingSendSeesWhatCameBefore)
}

func aReceiveBesideAWaitingSendSeesWhatCameBefore(t *testing.T, c Config) {
	d := open(t, c)
	near, far := pair(t, d)
	piece := memory(t, d, 1<<20)
	flood := aio.Op{Kind: aio.KindSend, Sock: near, Owner: &log{}}
	for range aio.MaxVec {
		flood.Vec = append(flood.Vec, piece)
	}
	d.Submit(&flood)
	check(t, aio.Do(d, &aio.Op{Kind: aio.KindSend, Sock: far, Vec: [][]byte{piece[:500]}}))
	for range 20 {
		_, err := d.Poll(time.Millisecond)
		check(t, err)
	}
	if !flood.InFlight() || !d.socks[near].watched {
		t.Fatalf("64 MiB were sent to a peer that does not receive: %v", flood.Err)
	}
	if got := take(t, d, near, 500); len(got) != 500 {
		t.Fatalf("%d bytes, expected 500", len(got))
	}
	d.Cancel(&flood)
	until(t, d, func() bool { return !flood.InFlight() })
	isError(t, flood.Err, aio.ErrCanceled)
	if flood.N <= 0 || flood.N >= aio.MaxVec<<20 {
		t.Fatalf("the cancelled send says that it has sent %d bytes", flood.N)
	}
}

// Urgent data ends a receive early, and no event says that there is more. Nobody
// should use it, and nobody who does must find the rest of the stream gone.
func TestUrgentDataHoldsNothingUp(t *testing.T) { onBoth(t, urgentDataHoldsNothingUp) }

func urgentDataHoldsNothingUp(t *testing.T, c Config) {
	d := open(t, c)
	near, far := pair(t, d)
	var want []byte
	for i := range 20 {
		text := fmt.Appendf(nil, "part %d;", i)
		want = append(want, text...)
		check(t, unix.Sendto(int(near), text, 0, nil))
		check(t, unix.Sendto(int(near), []byte("!"), unix.MSG_OOB, nil))
	}
	check(t, unix.Sendto(int(near), []byte("end"), 0, nil))
	want = append(want, "end"...)
	var got []byte
	op := aio.Op{Kind: aio.KindRecv, Sock: far, Owner: &log{then: func(op *aio.Op) {
		if len(op.Data) > 0 {
			got = append(got, op.Data...)
			d.ReleaseBuf(op.BufID)
		}
	}}}
	d.Submit(&op)
	until(t, d, func() bool { return bytes.HasSuffix(got, []byte("end")) })
	d.Cancel(&op)
	until(t, d, func() bool { return !op.InFlight() })
	// The kernel keeps some of the urgent bytes to itself.
	got = bytes.ReplaceAll(got, []byte("!"), nil)
	if !bytes.Equal(got, want) {
		t.Fatalf("received %q, expected %q", got, want)
	}
}

// In front of urgent data a receive says EAGAIN while a signal waits for the thread,
// whatever is there.
func TestASignalDoesNotHideWhatIsBehindUrgentData(t *testing.T) {
	k := newFaulty()
	d := open(t, Config{calls: k})
	near, far := pair(t, d)
	var got []byte
	op := aio.Op{Kind: aio.KindRecv, Sock: far, Owner: &log{then: func(op *aio.Op) {
		if len(op.Data) > 0 {
			got = append(got, op.Data...)
			d.ReleaseBuf(op.BufID)
		}
	}}}
	d.Submit(&op)
	check(t, unix.Sendto(int(near), []byte("!"), unix.MSG_OOB, nil))
	until(t, d, func() bool { return int(far) < len(d.socks) && d.socks[far].careful && !d.socks[far].readable })
	k.next(answer{errno: unix.EAGAIN})
	check(t, unix.Sendto(int(near), []byte("rest"), 0, nil))
	until(t, d, func() bool { return bytes.HasSuffix(got, []byte("rest")) })
	d.Cancel(&op)
	until(t, d, func() bool { return !op.InFlight() })
}

// Sends that are submitted while one waits follow it in order.
func TestSendsKeepTheirOrder(t *testing.T) {
	k := newFaulty()
	d := open(t, Config{calls: k})
	near, far := pair(t, d)
	b := memory(t, d, 3000)
	k.next(answer{limit: 7}, answer{errno: unix.EAGAIN}, answer{limit: 3})
	ops, o := make([]aio.Op, 3), &log{}
	for i := range ops {
		ops[i] = aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b[i*1000 : (i+1)*1000]}, Owner: o}
		d.Submit(&ops[i])
	}
	until(t, d, func() bool { return o.n == 3 })
	if got := take(t, d, far, 3000); !bytes.Equal(got, b) {
		t.Fatalf("%d bytes arrived, or in another order", len(got))
	}
}

// A descriptor that was closed elsewhere and is in use again is a new socket.
func TestAnotherSocketWithTheNumberOfAnOldOne(t *testing.T) {
	d, e := open(t, Config{}), open(t, Config{})
	for range 5 {
		near, far := pair(t, d)
		b := memory(t, d, 10)
		check(t, aio.Do(d, &aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}}))
		if got := take(t, d, far, 10); !bytes.Equal(got, b) {
			t.Fatalf("%d bytes came", len(got))
		}
		for _, s := range []aio.Sock{near, far} {
			check(t, aio.Do(e, &aio.Op{Kind: aio.KindCloseSock, Sock: s}))
		}
	}
	if d.watched != 0 {
		t.Fatalf("%d sockets are watched on which nothing waits", d.watched)
	}
}

func TestCloseEndsWhatWasNeverPolled(t *testing.T) {
	d, err := New(small, Config{})
	check(t, err)
	l, _, err := d.Listen("127.0.0.1:0", aio.ListenAlone)
	check(t, err)
	o := &log{}
	d.Submit(&aio.Op{Kind: aio.KindAccept, Sock: l, Owner: o})
	d.SubmitFile(&aio.FileOp{Kind: aio.FileStatFS, Path: t.TempDir(), Owner: quietFile{}})
	check(t, d.Close())
	if o.n != 0 {
		t.Fatal("an owner was told of an end by Close")
	}
	check(t, unix.Close(int(l)))
	if _, err := d.Poll(0); err != aio.ErrClosed {
		t.Fatalf("polling a closed driver: %v", err)
	}
}

type quietFile struct{}

func (quietFile) CompleteFile(*aio.FileOp) {}

func TestTheSimpleVariantSaysSo(t *testing.T) {
	d := open(t, Config{Simple: true, FS: buffered{}})
	if notes := d.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "development") || !strings.Contains(notes[0], flushName) {
		t.Fatalf("the notes are %q", notes)
	}
	newFile(t, d, aio.OpenDirect)
	if notes := d.Notes(); len(notes) != 2 {
		t.Fatalf("with files that go through the page cache the notes are %q", notes)
	}
}

// The simple variant has no durable writes: each is a write and a flush, and fails if
// the flush does.
func TestADurableWriteOfTheSimpleVariantIsFlushed(t *testing.T) {
	k := &faulty{calls: newCalls(true)}
	d := open(t, Config{Simple: true, calls: k})
	f := newFile(t, d, aio.OpenDirect)
	b := memory(t, d, 2*block)
	k.next()
	check(t, aio.WriteAt(d, f, b, 0, aio.FlagDSYNC))
	want := []request{{"write", 0, 2 * block, true}, {"write", 0, 2 * block, false}, {"fdatasync", 0, 0, false}}
	if got := k.requests(); !slices.Equal(got, want) {
		t.Fatalf("%v, expected %v", got, want)
	}
	k.next(answer{}, answer{}, answer{errno: unix.EIO})
	isError(t, aio.WriteAt(d, f, b, 0, aio.FlagDSYNC), unix.EIO)
}

// Many sockets on one driver, some with sends that wait: each is told what is its own,
// and none that has gone is asked for.
func TestTheSimpleVariantTellsSocketsApart(t *testing.T) {
	d := open(t, Config{Simple: true})
	const n = 20
	var near, far [n]aio.Sock
	for i := range n {
		near[i], far[i] = pair(t, d)
	}
	mem := memory(t, d, n*100)
	for i := n - 1; i >= 0; i-- {
		check(t, aio.Do(d, &aio.Op{Kind: aio.KindSend, Sock: near[i], Vec: [][]byte{mem[i*100:][:100]}}))
	}
	var ops [n]aio.Op
	var got [n][]byte
	for i := range n {
		ops[i] = aio.Op{Kind: aio.KindRecv, Sock: far[i], Owner: &log{then: func(op *aio.Op) {
			if len(op.Data) > 0 {
				got[i] = append(got[i], op.Data...)
				d.ReleaseBuf(op.BufID)
				d.Cancel(op)
			}
		}}}
		d.Submit(&ops[i])
	}
	until(t, d, func() bool { return d.InFlight() == 0 })
	for i := range n {
		isError(t, ops[i].Err, aio.ErrCanceled)
		if !bytes.Equal(got[i], mem[i*100:][:100]) {
			t.Fatalf("socket %d received %d bytes, or another's", i, len(got[i]))
		}
	}
	if d.watched != 0 || len(d.poller.(*pollSet).watched) != 0 {
		t.Fatalf("%d sockets are watched on which nothing waits", d.watched)
	}
}
