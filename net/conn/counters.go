package conn

import "sync/atomic"

// Counter numbers a counter of a server.
type Counter uint8

// The counters. Closed is split by reason as well, see [Counters.ClosedFor].
const (
	Accepted Counter = iota
	AcceptErrors
	Refused
	Imported
	Exported
	MovesRefused
	Closed
	BytesIn
	BytesOut
	FramesIn
	FramesAssembled
	FramesCopied
	FrameWaits
	BadFrames
	Pauses
	Receives
	Starvations
	Spills
	Sends

	closedFor
	numCounters = closedFor + Counter(numReasons)
)

// CounterInfo describes a counter.
type CounterInfo struct {
	Counter Counter
	// Name is a metric's, unit included.
	Name string
	Help string
}

// CounterTable describes the counters, in order.
var CounterTable = [...]CounterInfo{
	{Accepted, "connections_accepted_total", "connections accepted"},
	{AcceptErrors, "accept_errors_total", "failed accepts, after each of which accepting pauses for 100 ms"},
	{Refused, "connections_refused_total", "connections closed at once because there are too many, from one address too many, or too many in a second"},
	{Imported, "connections_imported_total", "connections taken over from another shard"},
	{Exported, "connections_exported_total", "connections handed to another shard"},
	{MovesRefused, "connection_moves_refused_total", "connections that were to move and stayed"},
	{Closed, "connections_closed_total", "connections that ended, those handed over included"},
	{BytesIn, "received_bytes_total", "bytes received"},
	{BytesOut, "sent_bytes_total", "bytes sent"},
	{FramesIn, "frames_total", "frames taken by protocols"},
	{FramesAssembled, "frames_assembled_total", "frames that did not lie in one receive buffer"},
	{FramesCopied, "frames_copied_total", "frames copied out because receive buffers were scarce"},
	{FrameWaits, "frame_memory_waits_total", "times that a connection waited for frame memory"},
	{BadFrames, "bad_frames_total", "frames whose length was refused"},
	{Pauses, "connection_pauses_total", "times that a connection stopped being read"},
	{Receives, "receives_total", "receives into a receive buffer"},
	{Starvations, "receive_starvations_total", "receives that found no receive buffer"},
	{Spills, "receive_spills_total", "times that unread bytes of a connection were moved out of receive buffers"},
	{Sends, "sends_total", "sends submitted"},
}

// Counters are a server's counters. The loop counts in plain memory and shows
// the values once a turn; anyone may read those.
type Counters struct {
	local [numCounters]uint64
	shown [numCounters]atomic.Uint64
}

// Get is the value of a counter at the end of the newest turn. Any goroutine.
func (c *Counters) Get(n Counter) uint64 { return c.shown[n].Load() }

// ClosedFor is the number of connections that ended for a reason. Any goroutine.
func (c *Counters) ClosedFor(r Reason) uint64 { return c.shown[closedFor+Counter(r)].Load() }

// show publishes what has changed.
func (c *Counters) show() {
	for i, v := range c.local {
		if c.shown[i].Load() != v {
			c.shown[i].Store(v)
		}
	}
}

// Outstanding is what is not home at the moment. Without connections and load
// all of it is zero.
type Outstanding struct {
	// Conns are connections, those that come to their end included.
	Conns int
	// Frames are lent to protocols, Buffers are receive buffers with bytes that
	// somebody needs, and Slabs pieces of frame memory in use.
	Frames, Buffers, Slabs int
	// SendBuffers are pieces of send memory in use, Sends are in flight, and
	// Pieces have been lent by protocols.
	SendBuffers, Sends, Pieces int
	// Closing are refused connections whose sockets are being closed.
	Closing int
	// Works are with a helper.
	Works int
	// Unread are bytes on the Go heap that connections have not read, because
	// they wait or have just been handed over.
	Unread int
	// Spilled are answered bytes that wait for send memory on the Go heap.
	Spilled int
}

// Outstanding counts what is not home. Loop only.
func (s *Server) Outstanding() Outstanding {
	o := s.lent
	o.Conns = s.all.n
	o.Slabs = s.slabs.out()
	o.SendBuffers = s.sends.total - s.sends.nfree
	return o
}
