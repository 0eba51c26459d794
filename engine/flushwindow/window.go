// Package flushwindow follows what has been acknowledged before it is flushed.
package flushwindow

// Window knows how many bytes a power cut would take, and when a flush is due. Rounds
// have numbers that grow. The zero Window holds nothing.
type Window struct {
	bytes  int64  // acknowledged, or about to be, and not flushed
	newest uint64 // newest round with such bytes

	// The flush that is due: what the window held then has to be among it. A round
	// that still fills, or waits behind another, is not yet.
	due      bool
	dueRound uint64
	dueBytes int64

	// The flush that is under way.
	flying      uint64
	flyingBytes int64
}

// Bytes is what is not flushed.
func (w *Window) Bytes() int64 { return w.bytes }

// Add counts n bytes of a round. A flush is due when limit bytes are waiting for one.
func (w *Window) Add(round uint64, n, limit int64) {
	w.bytes += n
	w.newest = round
	if !w.due && w.bytes-w.flyingBytes >= limit {
		w.Want()
	}
}

// Want makes a flush due of all that the window holds now.
func (w *Window) Want() {
	if w.bytes > 0 {
		w.due, w.dueRound, w.dueBytes = true, w.newest, w.bytes
	}
}

// Due reports whether a flush is due.
func (w *Window) Due() bool { return w.due }

// Submitted notes that a flush has been submitted that covers rounds up to round. It
// is due still when that is not enough.
func (w *Window) Submitted(round uint64) {
	if w.due && round >= w.dueRound {
		w.due = false
		w.flying, w.flyingBytes = w.dueRound, w.dueBytes
	}
}

// Flushed takes off what is flushed, now that rounds up to round are.
func (w *Window) Flushed(round uint64) {
	switch {
	case round >= w.newest:
		w.bytes, w.flyingBytes, w.due = 0, 0, false
	case w.flyingBytes > 0 && round >= w.flying:
		w.bytes -= w.flyingBytes
		w.dueBytes -= w.flyingBytes
		w.flyingBytes = 0
	}
}
