package conn_test

import (
	"encoding/binary"
	"errors"

	"github.com/mqd-broker/mqd/net/conn"
)

var errTestLength = errors.New("length below 5")

// testProtocol answers frames by their command:
//
//	e  echo the frame
//	k  retain the frame until released, then echo it
//	l  take the frame when later is false
//	h  hold the connection until dropped
//	g  lend a piece of as many bytes as the body's u32 says, and when it has been
//	   sent answer a frame more if chatty
//	n  lend nothing
//	m  move to the shard that the body's byte says, and echo there
//	f  finish
//	c  close
type testProtocol struct {
	shard *testShard
	conns map[*conn.Conn]bool

	kept    []*conn.Frame
	held    []*conn.Conn
	later   bool
	waiting []*conn.Conn // said Later
	noMoves bool
	lazy    bool // never establishes
	chatty  bool
	guard   bool   // frames may be nonsense
	memory  []byte // what is lent
	lent    int
	timed   bool // note when frames arrived
	arrived []int64

	ended, stayed int
	taken         int
	broken        []error
	why           []conn.Reason
}

func (p *testProtocol) Opened(c *conn.Conn, app any) {
	p.conns[c] = true
	if !p.lazy {
		c.Establish()
	}
	if frame, ok := app.([]byte); ok {
		c.Write(frame)
	}
}

func (p *testProtocol) FrameSize(_ *conn.Conn, prefix []byte) (int, error) {
	n := binary.BigEndian.Uint32(prefix)
	if n < 5 {
		return 0, errTestLength
	}
	return int(n), nil
}

func (p *testProtocol) Frame(c *conn.Conn, f *conn.Frame) conn.Verdict {
	b := f.Bytes()
	switch b[4] {
	case 'e':
		c.Write(b)
	case 'k':
		f.Retain()
		p.kept = append(p.kept, f)
	case 'l':
		if p.later {
			p.waiting = append(p.waiting, c)
			return conn.Later
		}
		c.Write(b)
	case 'h':
		c.Hold()
		p.held = append(p.held, c)
	case 'g':
		if p.guard && (len(b) < 9 || b[5] != 0 || b[6] > 1) {
			break
		}
		n := int(binary.BigEndian.Uint32(b[5:]))
		if len(p.memory) < n {
			p.memory = must(p.shard.drv.Alloc(n))
		}
		binary.BigEndian.PutUint32(c.Reply(5), uint32(5+n))
		p.lent++
		c.Lend([][]byte{p.memory[:n/2], p.memory[n/2 : n]}, p)
	case 'n':
		p.lent++
		c.Lend(nil, p)
	case 'm':
		if p.guard && len(b) < 6 {
			break
		}
		c.Move(int(b[5]), append([]byte(nil), b...))
	case 'f':
		c.Write(b)
		c.Finish()
	case 'c':
		c.Close()
	}
	p.taken++
	if p.timed {
		at, _ := f.Arrived()
		p.arrived = append(p.arrived, at)
	}
	return conn.Taken
}

func (p *testProtocol) Sent(c *conn.Conn) {
	p.lent--
	if p.chatty {
		copy(c.Reply(5), frame('t', nil))
	}
}

func (p *testProtocol) Broken(c *conn.Conn, _ []byte, err error) {
	p.broken = append(p.broken, err)
	c.Write(frame('!', nil))
}

func (p *testProtocol) Ended(*conn.Conn)    { p.ended++ }
func (p *testProtocol) Stayed(c *conn.Conn) { p.stayed++; c.Write(frame('s', nil)) }

func (p *testProtocol) Closed(c *conn.Conn, why conn.Reason) {
	p.why = append(p.why, why)
	delete(p.conns, c)
}

// release echoes and releases kept frames.
func (p *testProtocol) release() {
	for _, f := range p.kept {
		f.Conn().Write(f.Bytes())
		f.Release()
	}
	p.kept = nil
}

// resume takes what waited.
func (p *testProtocol) resume() {
	p.later = false
	for _, c := range p.waiting {
		c.Resume()
	}
	p.waiting = nil
}

func (p *testProtocol) drop() {
	for _, c := range p.held {
		c.Drop()
	}
	p.held = nil
}
