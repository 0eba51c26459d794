package images

import (
	"errors"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/net/wire"
)

const (
	sendBytes = 256 << 10 // registered memory that a link sends from
	maxAnswer = 64 << 20
)

// link is the one connection to a node. What the node answers is known when it leaves
// the node, not when it arrives: an acknowledgement on its way counts.
type link struct {
	w    *sim.World
	far  *sim.Driver // of the clients' machine
	addr string

	sock       aio.Sock
	send, recv aio.Op
	vec        [1][]byte
	mem, out   []byte
	broken     bool

	corr    uint32
	waiting map[uint32]answer
	order   []uint32
	left    map[aio.Sock][]byte // what a socket of the node has sent of a frame
	err     error
}

// answer is told what a request came to; h is nil when nobody will ever know.
type answer func(h *wire.Header, body []byte)

func newLink(w *sim.World, addr string) (*link, error) {
	l := &link{w: w, addr: addr, waiting: map[uint32]answer{}, left: map[aio.Sock][]byte{}}
	l.far = w.ClientDriver(aio.Options{Entries: 16, ArenaBytes: sendBytes, RecvBuffers: 16, RecvBufferBytes: 16 << 10, Files: 1})
	var err error
	l.mem, err = l.far.Alloc(sendBytes)
	l.send.Owner, l.recv.Owner = l, l
	return l, err
}

// connect begins a connection, whose first answer is that to hello.
func (l *link) connect(hello answer) error {
	var err error
	if l.sock, err = l.far.Dial(l.addr); err != nil {
		return err
	}
	l.broken, l.out = false, l.out[:0]
	l.recv.Kind, l.recv.Sock = aio.KindRecv, l.sock
	l.far.Submit(&l.recv)
	l.do(func(corr uint32) []byte {
		return wire.AppendHelloRequest(nil, corr, wire.HelloRequest{
			MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, WantedShard: int32(wire.AnyShard), ClientID: "images",
		})
	}, hello)
	return nil
}

// do sends a request.
func (l *link) do(encode func(corr uint32) []byte, then answer) {
	l.corr++
	l.waiting[l.corr] = then
	l.order = append(l.order, l.corr)
	l.out = append(l.out, encode(l.corr)...)
	l.push()
}

func (l *link) push() {
	if l.send.InFlight() || len(l.out) == 0 || l.broken {
		return
	}
	n := copy(l.mem, l.out)
	l.out = l.out[:copy(l.out, l.out[n:])]
	l.vec[0] = l.mem[:n]
	l.send.Kind, l.send.Sock, l.send.Vec = aio.KindSend, l.sock, l.vec[:]
	l.far.Submit(&l.send)
}

// Complete implements aio.Completer. What is received is known already.
func (l *link) Complete(op *aio.Op) {
	switch {
	case op.Kind == aio.KindSend:
		l.broken = l.broken || op.Err != nil
		l.push()
	case errors.Is(op.Err, aio.ErrNoBuffers):
		l.far.Submit(&l.recv)
	case op.Err != nil || len(op.Data) == 0:
		l.broken = true
	default:
		l.far.ReleaseBuf(op.BufID)
		if !op.More {
			l.far.Submit(&l.recv)
		}
	}
}

// lost tells those who wait that there will be no answer.
func (l *link) lost() {
	order := l.order
	l.order, l.left = nil, map[aio.Sock][]byte{}
	for _, corr := range order {
		if then := l.waiting[corr]; then != nil {
			delete(l.waiting, corr)
			then(nil, nil)
		}
	}
}

// tap hears what a shard sends.
type tap struct {
	aio.Driver
	l *link
}

// Submit looks at what is sent before it leaves.
func (t tap) Submit(op *aio.Op) {
	if op.Kind == aio.KindSend {
		b := t.l.left[op.Sock]
		for _, piece := range op.Vec {
			b = append(b, piece...)
		}
		t.l.left[op.Sock] = t.l.parse(b)
	}
	t.Driver.Submit(op)
}

// parse takes whole frames off what was sent and returns the rest.
func (l *link) parse(b []byte) []byte {
	for {
		h, err := wire.ParseHeader(b, maxAnswer)
		if errors.Is(err, wire.ErrShort) || err == nil && len(b) < h.FrameSize() {
			return b
		}
		then := l.waiting[h.Correlation]
		if err != nil || then == nil {
			l.err = errors.Join(errors.New("the node sent no answer to anything"), err)
			return nil
		}
		delete(l.waiting, h.Correlation)
		then(&h, b[wire.HeaderSize:h.FrameSize()])
		b = b[h.FrameSize():]
	}
}
