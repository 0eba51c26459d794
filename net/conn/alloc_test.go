package conn_test

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/conn"
)

// pump is a client that allocates nothing: it sends the same bytes again and
// counts what comes back.
type pump struct {
	r          *rig
	send, recv aio.Op
	got        int
}

func (p *pump) Complete(op *aio.Op) {
	if op.Kind != aio.KindRecv || len(op.Data) == 0 {
		return
	}
	p.got += len(op.Data)
	p.r.far.ReleaseBuf(op.BufID)
	if !op.More {
		p.r.far.Submit(op)
	}
}

// round sends what is in the send and waits until n bytes have come back.
func (p *pump) round(n int) {
	p.got = 0
	p.r.far.Submit(&p.send)
	for p.got < n || p.send.InFlight() {
		if p.r.turn() == 0 {
			p.r.w.Step()
		}
	}
}

func newPump(r *rig, stream []byte) *pump {
	sock := must(r.far.Dial(r.addr))
	p := &pump{r: r}
	mem := must(r.far.Alloc(len(stream)))
	copy(mem, stream)
	p.send = aio.Op{Kind: aio.KindSend, Sock: sock, Owner: p, Vec: [][]byte{mem}}
	p.recv = aio.Op{Kind: aio.KindRecv, Sock: sock, Owner: p}
	r.far.Submit(&p.recv)
	return p
}

// quiet answers without allocating: it replies with as many bytes as it got, or
// lends the frame itself.
type quiet struct {
	testProtocol
	frame *conn.Frame
	piece [1][]byte
}

func (q *quiet) Frame(c *conn.Conn, f *conn.Frame) conn.Verdict {
	b := f.Bytes()
	if b[4] == 'z' && q.frame == nil {
		f.Retain()
		q.frame, q.piece[0] = f, b
		c.Lend(q.piece[:], q)
		return conn.Taken
	}
	copy(c.Reply(len(b)), b)
	return conn.Taken
}

func (q *quiet) Sent(*conn.Conn) {
	q.frame.Release()
	q.frame = nil
}

func TestFramesAndAnswersAllocateNothing(t *testing.T) {
	for name, o := range map[string]rigOptions{
		"in place":  {seed: 80},
		"assembled": {seed: 81, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 64}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, o)
			s := r.shards[0]
			q := &quiet{testProtocol: testProtocol{shard: s, conns: map[*conn.Conn]bool{}}}
			door := must(s.srv.Open(q, conn.DoorOptions{}))
			r.addr = must(door.Listen("127.0.0.1:0"))
			var stream []byte
			for i := range 40 {
				stream = append(stream, frame('e', noise(i*20, i))...)
				stream = append(stream, frame('z', noise(i*40, i))...)
			}
			p := newPump(r, stream)
			for range 200 {
				p.round(len(stream))
			}
			if n := testing.AllocsPerRun(200, func() { p.round(len(stream)) }); n != 0 {
				t.Errorf("%v allocations for 80 frames", n)
			}
			if n := s.srv.Counters().Get(conn.FramesAssembled); name == "assembled" && n == 0 {
				t.Error("no frame was assembled: the test shows nothing")
			}
		})
	}
}
