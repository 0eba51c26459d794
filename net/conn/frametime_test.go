package conn_test

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/conn"
)

// Who waits for frame memory waits as long as a frame may take, and then ends for the
// broker's fault and not its own.
func TestAWaitForFrameMemoryEndsWithTheFramesTime(t *testing.T) {
	const limit = 20 * time.Second
	r := newRig(t, rigOptions{seed: 49, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 64},
		srv: conn.Options{LargeFrames: 1}, door: conn.DoorOptions{FrameLimit: 1 << 20, FrameTimeout: limit}})
	s := r.shards[0]
	has, waits, patient := r.dial(), r.dial(), r.dial()
	large := frame('k', noise(200_000, 1))
	has.write(large)
	r.until("the memory is taken", func() bool { return len(s.proto.kept) == 1 })
	waits.write(large)
	r.until("one waits for it", func() bool { return s.srv.Counters().Get(conn.FrameWaits) == 1 })
	began := r.w.Now()
	r.advance(limit / 2)
	patient.write(large) // in the middle of the other's wait
	r.until("another waits", func() bool { return s.srv.Counters().Get(conn.FrameWaits) == 2 })
	r.advance(limit/2 - time.Second)
	if waits.ended() {
		t.Errorf("ended after %v of %v", time.Duration(r.w.Now()-began), limit)
	}
	r.advance(3 * time.Second)
	r.endedFor(conn.ReasonOverload)
	if !waits.ended() || patient.ended() || has.ended() {
		t.Errorf("ended: who waits %v, who came later %v, who has the memory %v", waits.ended(), patient.ended(), has.ended())
	}
	s.proto.release()
	r.until("the other has it", func() bool { return len(s.proto.kept) == 1 })
	s.proto.release()
	equalFrames(t, patient.waitFor(1), large)
	r.closeAll()
	r.home()
}
