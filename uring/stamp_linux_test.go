package uring

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

// A driver that has the kernel note when it receives does the same.
func TestConformanceWithStamps(t *testing.T) { conform(t, Config{Stamps: true}) }

// Bytes that stay in the socket's queue because the loop does not ask for them have come
// when the kernel had them.
func TestBytesThatWaitInASocketHaveTheKernelsTime(t *testing.T) {
	const held, slack = int64(20 * time.Millisecond), int64(time.Millisecond)
	d := open(t, small, Config{Stamps: true})
	near, far := pair(t, d)
	var at, stamp int64
	recv := aio.Op{Kind: aio.KindRecv, Sock: far, Owner: &log{then: func(op *aio.Op) {
		if len(op.Data) > 0 {
			at, stamp = op.At, op.Stamp
			d.ReleaseBuf(op.BufID)
		}
	}}}
	d.Submit(&recv)
	for stamp == 0 { // the kernel begins to note some time after the first socket asks for it
		at = 0
		if _, err := unix.Write(int(near), []byte("some bytes")); err != nil {
			t.Fatal(err)
		}
		until(t, d, func() bool { return at != 0 })
	}
	for i := range 3 {
		at = 0
		before := d.clock.Now()
		if _, err := unix.Write(int(near), []byte("some bytes")); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(far), Events: unix.POLLIN}}, -1); n != 1 {
			t.Fatalf("%d sockets have something, %v", n, err)
		}
		there := d.clock.Now()
		for d.clock.Now() < there+held { // the loop does something else
			time.Sleep(time.Millisecond)
		}
		until(t, d, func() bool { return at != 0 })
		switch {
		case stamp == aio.StampUnsound:
			t.Skip("the machine's clock has been set meanwhile")
		case stamp < before-slack || stamp > there+slack || at-stamp < held-slack:
			t.Errorf("receive %d, sent from %d to %d, came at %d and has the time %d", i, before, there, at, stamp)
		}
	}
	d.Cancel(&recv)
	until(t, d, func() bool { return !recv.InFlight() })
}

func TestBytesHaveNoTimeUnlessItIsAskedFor(t *testing.T) {
	d := open(t, small, Config{})
	near, far := pair(t, d)
	stamp := int64(7)
	recv := aio.Op{Kind: aio.KindRecv, Sock: far, Owner: &log{then: func(op *aio.Op) {
		if len(op.Data) > 0 {
			stamp = op.Stamp
			d.ReleaseBuf(op.BufID)
		}
	}}}
	d.Submit(&recv)
	if _, err := unix.Write(int(near), []byte("some bytes")); err != nil {
		t.Fatal(err)
	}
	until(t, d, func() bool { return stamp != 7 })
	if stamp != 0 {
		t.Errorf("they have the time %d", stamp)
	}
	d.Cancel(&recv)
	until(t, d, func() bool { return !recv.InFlight() })
}

// noted is what the kernel writes for times of its own and of the card, in nanoseconds.
func noted(kind uint32, kernel, card int64) []byte {
	b := make([]byte, stampControl)
	binary.NativeEndian.PutUint64(b, stampControl)
	binary.NativeEndian.PutUint32(b[8:], unix.SOL_SOCKET)
	binary.NativeEndian.PutUint32(b[12:], kind)
	for i, at := range []int64{kernel, 0, card} {
		binary.NativeEndian.PutUint64(b[stampCmsg+i*stampSize:], uint64(at/1e9))
		binary.NativeEndian.PutUint64(b[stampCmsg+i*stampSize+8:], uint64(at%1e9))
	}
	return b
}

func TestTheCardsTimeCountsIfItsClockIsKept(t *testing.T) {
	const second, now = int64(time.Second), int64(1_800_000_000_123_456_789)
	for i, x := range []struct {
		control []byte
		want    int64
	}{
		{nil, 0},
		{noted(unix.SCM_TIMESTAMPING, now, 0)[:stampControl-1], 0},
		{noted(unix.SCM_TIMESTAMPING+1, now, 0), 0},
		{noted(unix.SCM_TIMESTAMPING, 0, 0), 0},
		{noted(unix.SCM_TIMESTAMPING, now, 0), now},
		{noted(unix.SCM_TIMESTAMPING, now, now-7_000), now - 7_000},
		{noted(unix.SCM_TIMESTAMPING, now, now+1), now},         // after the kernel had it
		{noted(unix.SCM_TIMESTAMPING, now, now-37*second), now}, // counts leap seconds
		{noted(unix.SCM_TIMESTAMPING, now, 55*second), now},     // since it was switched on
		{noted(unix.SCM_TIMESTAMPING, 0, 55*second), 0},         // and nothing to compare it with
	} {
		if got := stampOf(x.control); got != x.want {
			t.Errorf("case %d: %d, want %d", i, got, x.want)
		}
	}
}

// A calendar that goes its way, drifts or jumps.
func TestTimesBehindAJumpOfTheCalendarDoNotCount(t *testing.T) {
	const us, ms, second = int64(1000), int64(1_000_000), int64(1_000_000_000)
	var now, offset int64
	c := calendar{read: func() (int64, int64) { return now, now + offset }}
	for i, x := range []struct {
		now, offset int64 // of the calendar from then on
		ago         int64 // the packet came so long before
		want        int64 // how long before it is taken for; -1: unsound
	}{
		{1 * second, 50 * second, 5 * us, 5 * us},
		{1*second + ms/2, 50*second + 1*us, 5 * us, 4 * us}, // not compared again yet
		{1*second + ms, 50*second + 1*us, 5 * us, 5 * us},
		{2 * second, 50*second + 90*ms, 5 * us, 5 * us},               // slewed by somebody
		{2*second + 1*ms, 50*second + 90*ms + 100*us, 5 * us, 5 * us}, // within a tenth
		{2*second + 2*ms, 50*second + 91*ms, 5 * us, -1},              // a jump
		{3*second + ms, 50*second + 91*ms, 5 * us, -1},
		{3*second + 2*ms, 50*second + 91*ms, 5 * us, 5 * us},
		{4 * second, 0, 5 * us, -1}, // back
		{6 * second, 0, 5 * us, 5 * us},
		{6*second + ms, 0, 7 * second, -1}, // before the loop's clock began
	} {
		now, offset = x.now, x.offset
		got := c.loopTime(now-x.ago+offset, now)
		if want := now - x.want; x.want < 0 && got != aio.StampUnsound || x.want >= 0 && got != want {
			t.Errorf("step %d: %d, want %d before %d", i, got, x.want, now)
		}
	}
}

func TestBothClocksAreReadTogether(t *testing.T) {
	before, wallBefore := int64(time.Since(start)), time.Now().UnixNano()
	now, wall := readBoth()
	after, wallAfter := int64(time.Since(start)), time.Now().UnixNano()
	if now < before || now > after || wallBefore <= wallAfter && (wall < wallBefore || wall > wallAfter) {
		t.Errorf("%d and %d, between %d and %d, %d and %d", now, wall, before, after, wallBefore, wallAfter)
	}
}

func BenchmarkReceive(b *testing.B) {
	for _, name := range []string{"plain", "stamps"} {
		b.Run(name, func(b *testing.B) {
			d := open(b, small, Config{Stamps: name == "stamps"})
			near, far := pair(b, d)
			got := 0
			recv := aio.Op{Kind: aio.KindRecv, Sock: far, Owner: &log{then: func(op *aio.Op) {
				if got += len(op.Data); len(op.Data) > 0 {
					d.ReleaseBuf(op.BufID)
				}
			}}}
			d.Submit(&recv)
			msg := make([]byte, 200)
			for i := range b.N {
				if _, err := unix.Write(int(near), msg); err != nil {
					b.Fatal(err)
				}
				for got < (i+1)*len(msg) {
					if _, err := d.Poll(0); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.StopTimer()
			d.Cancel(&recv)
			until(b, d, func() bool { return !recv.InFlight() })
		})
	}
}
