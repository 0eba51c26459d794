package conn

import (
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// probeWait bounds a turn of the wait for the probe's socket to close.
const probeWait = 50 * time.Millisecond

// probe notes that its socket is closed.
type probe struct{ closed bool }

// Complete receives the completion of the close.
func (p *probe) Complete(*aio.Op) { p.closed = true }

// Probe reports whether addr, "host:port", can be listened on: it opens a socket
// that does not share the port, and closes it. Shards share the port with each
// other, and the kernel would let them share it with another broker of the same
// user as well; this is how that one is noticed. It returns the address bound,
// with port 0 replaced, for the shards to listen on. It blocks: at start, before
// a loop runs on d.
func Probe(d aio.Driver, addr string) (string, error) {
	sock, bound, err := d.Listen(addr, aio.ListenAlone)
	if err != nil {
		return "", fmt.Errorf("conn: probe: %w", err)
	}
	var p probe
	op := aio.Op{Kind: aio.KindCloseSock, Sock: sock, Owner: &p}
	d.Submit(&op)
	for !p.closed {
		if _, err := d.Poll(probeWait); err != nil {
			return "", fmt.Errorf("conn: probe: %w", err)
		}
	}
	return bound, nil
}
