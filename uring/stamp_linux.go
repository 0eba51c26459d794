package uring

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
	"golang.org/x/sys/unix"
)

// What stands before the bytes of a receive that asks for the kernel's time: struct
// io_uring_recvmsg_out, four numbers of 32 bits of which the second and third are the sizes
// of control data and payload, and the control data: a header of 16 bytes and three
// timespecs, of the kernel, of none, and of the card.
const (
	stampHead    = 16
	stampCmsg    = 16
	stampSize    = 16 // of a timespec
	stampControl = stampCmsg + 3*stampSize
	stampBefore  = stampHead + stampControl
)

// stampFlags ask for the times at which kernel and card receive.
const stampFlags = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE |
	unix.SOF_TIMESTAMPING_RX_HARDWARE | unix.SOF_TIMESTAMPING_RAW_HARDWARE

// wantStamps asks for them on a socket, and on those that it accepts.
func wantStamps(s aio.Sock) error {
	return unix.SetsockoptInt(int(s), unix.SOL_SOCKET, unix.SO_TIMESTAMPING, stampFlags)
}

// stamped splits what a receive has written into a buffer: its bytes, and when the newest
// of them came by the calendar's clock, 0 for unknown.
func stamped(b []byte) (data []byte, wall int64) {
	if len(b) < stampBefore {
		invariant.Violated("uring: a received message begins with its header")
	}
	control := binary.NativeEndian.Uint32(b[4:])
	payload := binary.NativeEndian.Uint32(b[8:])
	if control > stampControl || int(payload) != len(b)-stampBefore {
		invariant.Violated("uring: a received message is as long as it says")
	}
	return b[stampBefore:], stampOf(b[stampHead : stampHead+control])
}

// nearness is how far the card's clock may be from the kernel's that the time of a packet
// counts: cards whose clock nobody keeps, or that count leap seconds, are further away.
const nearness = int64(time.Second)

// stampOf reads control data.
func stampOf(control []byte) int64 {
	if len(control) < stampControl {
		return 0
	}
	level, kind := binary.NativeEndian.Uint32(control[8:]), binary.NativeEndian.Uint32(control[12:])
	if level != unix.SOL_SOCKET || kind != unix.SCM_TIMESTAMPING {
		return 0
	}
	at := func(i int) int64 {
		t := (*unix.Timespec)(unsafe.Pointer(&control[stampCmsg+i*stampSize]))
		return t.Nano()
	}
	kernel, card := at(0), at(2)
	if card != 0 && kernel != 0 && card <= kernel && kernel-card < nearness {
		return card
	}
	return kernel
}

const (
	// calendarFor is for how long a comparison of the two clocks is used.
	calendarFor = int64(time.Millisecond)
	// calendarError is how far apart two readings may be that count as one.
	calendarError = int64(time.Microsecond)
	// calendarStep is how much the clocks may have drifted apart, beside a tenth of the
	// time, that it is no jump; and calendarRest for how long no time counts after one.
	calendarStep = 10 * int64(time.Microsecond)
	calendarRest = int64(time.Second)
)

// calendar brings times of the calendar's clock to the loop's.
type calendar struct {
	offset   int64 // of the calendar's clock
	compared int64 // when, by the loop's; 0: never
	jumped   int64
	// read reads the loop's clock and the calendar's at once; tests have their own.
	read func() (now, wall int64)
}

// readBoth reads both clocks, again when something came in between.
func readBoth() (now, wall int64) {
	for range 3 {
		before := int64(time.Since(start))
		t := time.Now()
		now, wall = int64(t.Sub(start)), t.UnixNano()
		if now-before < calendarError {
			break
		}
	}
	return now, wall
}

// loopTime is a time of the calendar's by the loop's clock, which is now; aio.StampUnsound
// when that cannot be told because the calendar has jumped.
func (c *calendar) loopTime(wall, now int64) int64 {
	if c.compared == 0 || now-c.compared >= calendarFor {
		c.compare()
	}
	if c.jumped != 0 && now-c.jumped < calendarRest {
		return aio.StampUnsound
	}
	if at := wall - c.offset; at > 0 {
		return at
	}
	return aio.StampUnsound
}

func (c *calendar) compare() {
	now, wall := c.read()
	offset := wall - now
	drift := offset - c.offset
	if c.compared != 0 && max(drift, -drift) > calendarStep+(now-c.compared)/10 {
		c.jumped = now
	}
	c.offset, c.compared = offset, now
}
