package uring

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/hostnet"
)

// Listen opens a listening TCP socket. See aio.Driver.
func (d *Driver) Listen(addr string, mode aio.ListenMode) (aio.Sock, string, error) {
	s, bound, err := hostnet.Listen(addr, mode)
	if err == nil && d.stamps {
		if err := wantStamps(s); err != nil {
			d.notes = append(d.notes, "the kernel does not note when it receives: "+err.Error())
		}
	}
	return s, bound, err
}

// Dial opens a TCP connection. See aio.Driver. It gives up after 10 seconds.
func (d *Driver) Dial(addr string) (aio.Sock, error) { return hostnet.Dial(addr) }

// PeerAddr is the address of the other side, "" when unknown.
func (d *Driver) PeerAddr(s aio.Sock) string { return hostnet.PeerAddr(s) }
