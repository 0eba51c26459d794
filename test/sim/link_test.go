package sim

import (
	"errors"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/wire"
)

const (
	sendBytes = 64 << 10 // registered memory that a link sends from
	maxAnswer = 64 << 20
)

// stage says how far a link has come.
type stage uint8

const (
	unconnected stage = iota
	greeting          // hello is on its way
	ready
	leaving // operations are in flight on the socket, which is to be closed
	closing
)

// link is a client's connection. It comes and goes; requests in flight on one that
// breaks are told so.
type link struct {
	r     *run
	stage stage
	sock  aio.Sock
	again int64 // time of the next attempt to connect

	send, recv, end aio.Op
	vec             [1][]byte
	mem             []byte
	out, got        []byte

	corr    uint32
	hello   wire.HelloResponse
	waiting map[uint32]request
	order   []uint32 // correlation ids of those waiting, as they were sent
	// broken is called when a connection has ended, after the requests have been told.
	broken func()

	kafka bool        // it speaks Kafka's protocol
	calls []kafkaCall // waiting, in the order in which they were sent
}

// request is told of its answer. body is valid during the call; with lost there is
// none, and the request may have been carried out or not.
type request func(h wire.Header, body []byte, lost bool)

func (r *run) newLink(broken func()) *link {
	mem, err := r.far.Alloc(sendBytes)
	if err != nil {
		r.failf("client memory: %v", err)
	}
	l := &link{r: r, mem: mem, waiting: map[uint32]request{}, broken: broken, sock: aio.NoSock}
	l.send.Owner, l.recv.Owner, l.end.Owner = l, l, l
	r.links = append(r.links, l)
	return l
}

// keep brings the link on: connects one that is not, closes one that has ended.
func (l *link) keep(now int64) {
	switch l.stage {
	case unconnected:
		if now >= l.again && l.r.n != nil {
			l.connect(now)
		}
	case ready:
		l.overdue(now)
	case leaving:
		if !l.send.InFlight() && !l.recv.InFlight() {
			l.stage = closing
			l.end.Kind, l.end.Sock = aio.KindCloseSock, l.sock
			l.r.far.Submit(&l.end)
		}
	}
}

func (l *link) connect(now int64) {
	addr := l.r.addr
	if l.kafka {
		addr = l.r.n.Node().KafkaAddr()
	}
	sock, err := l.r.far.Dial(addr)
	if err != nil {
		l.again = now + 300_000
		return
	}
	l.sock, l.stage, l.out, l.got = sock, greeting, l.out[:0], l.got[:0]
	l.recv.Kind, l.recv.Sock = aio.KindRecv, sock
	l.r.far.Submit(&l.recv)
	if l.kafka {
		l.stage = ready
		return
	}
	want := int32(wire.AnyShard)
	if l.r.rng.IntN(2) == 0 {
		want = int32(l.r.rng.IntN(l.r.cfg.Shards))
	}
	l.do(func(dst []byte, corr uint32) []byte {
		return wire.AppendHelloRequest(dst, corr, wire.HelloRequest{
			MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, WantedShard: want, ClientID: "sim",
		})
	}, func(h wire.Header, body []byte, lost bool) {
		if lost {
			return
		}
		if h.IsError() {
			l.r.refusal(h, body)
			l.drop()
			return
		}
		l.hello, err = wire.DecodeHelloResponse(body)
		if err != nil {
			l.r.failf("hello: %v", err)
		}
		l.stage = ready
	})
}

// do sends the frame that encode appends.
func (l *link) do(encode func(dst []byte, corr uint32) []byte, answer request) {
	l.corr++
	l.waiting[l.corr] = answer
	l.order = append(l.order, l.corr)
	l.out = encode(l.out, l.corr)
	l.push()
}

func (l *link) push() {
	if l.send.InFlight() || len(l.out) == 0 || l.stage >= leaving {
		return
	}
	n := copy(l.mem, l.out)
	l.out = l.out[:copy(l.out, l.out[n:])]
	l.vec[0] = l.mem[:n]
	l.send.Kind, l.send.Sock, l.send.Vec = aio.KindSend, l.sock, l.vec[:]
	l.r.far.Submit(&l.send)
}

// Complete implements aio.Completer.
func (l *link) Complete(op *aio.Op) {
	switch {
	case op.Kind == aio.KindCloseSock:
		l.stage, l.sock, l.again = unconnected, aio.NoSock, l.r.w.Now()+int64(l.r.rng.IntN(400_000))
	case op.Kind == aio.KindSend:
		if op.Err != nil {
			l.drop()
			return
		}
		l.push()
	case errors.Is(op.Err, aio.ErrNoBuffers):
		if l.stage < leaving {
			l.r.far.Submit(&l.recv)
		}
	case op.Err != nil || len(op.Data) == 0:
		l.drop()
	default:
		l.got = append(l.got, op.Data...)
		l.r.far.ReleaseBuf(op.BufID)
		l.parse()
		if !op.More && l.stage < leaving {
			l.r.far.Submit(&l.recv)
		}
	}
}

// parse takes whole frames off what was received.
func (l *link) parse() {
	if l.kafka {
		l.parseKafka()
		return
	}
	at := 0
	for l.stage < leaving {
		h, err := wire.ParseHeader(l.got[at:], maxAnswer)
		if errors.Is(err, wire.ErrShort) || err == nil && len(l.got)-at < h.FrameSize() {
			break
		}
		if err != nil || !h.IsResponse() {
			l.r.failf("not an answer: %+v, %v", h, err)
		}
		answer := l.waiting[h.Correlation]
		if answer == nil {
			l.r.failf("an answer to no request: %+v", h)
		}
		delete(l.waiting, h.Correlation)
		body := l.got[at+wire.HeaderSize : at+h.FrameSize()]
		at += h.FrameSize()
		answer(h, body, false)
	}
	l.got = l.got[:copy(l.got, l.got[at:])]
}

// drop ends the connection. What is unanswered stays so.
func (l *link) drop() {
	if l.stage == unconnected || l.stage >= leaving {
		return
	}
	l.stage = leaving
	if l.recv.InFlight() {
		l.r.far.Cancel(&l.recv)
	}
	if l.send.InFlight() {
		l.r.far.Cancel(&l.send)
	}
	order := l.order
	l.order = nil
	for _, corr := range order {
		if answer := l.waiting[corr]; answer != nil {
			delete(l.waiting, corr)
			answer(wire.Header{}, nil, true)
		}
	}
	l.loseCalls()
	if l.broken != nil {
		l.broken()
	}
}

// tidy forgets the order of requests that have been answered.
func (l *link) tidy() {
	if len(l.waiting) == 0 {
		l.order = l.order[:0]
	}
}
