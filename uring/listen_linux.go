package uring

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/hostnet"
)

// Listen opens a listening TCP socket. See aio.Driver.
func (d *Driver) Listen(addr string, mode aio.ListenMode) (aio.Sock, string, error) {
	return hostnet.Listen(addr, mode)
}

// Dial opens a TCP connection. See aio.Driver. It gives up after 10 seconds.
func (d *Driver) Dial(addr string) (aio.Sock, error) { return hostnet.Dial(addr) }

// PeerAddr is the address of the other side, "" when unknown.
func (d *Driver) PeerAddr(s aio.Sock) string { return hostnet.PeerAddr(s) }
