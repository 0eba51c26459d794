package sim

import (
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
)

// Cancel ends an armed operation; file operations run to their end.
func (d *Driver) Cancel(op *aio.Op) {}

// ReleaseBuf gives a receive buffer home.
func (d *Driver) ReleaseBuf(id aio.BufID) {}

// FreeBufs is the number of receive buffers that are home.
func (d *Driver) FreeBufs() int { return d.opt.RecvBuffers }

// Listen fails: this world has no network.
func (d *Driver) Listen(addr string, _ aio.ListenMode) (aio.Sock, string, error) {
	return aio.NoSock, "", fsError("listen", addr, syscall.ENETUNREACH)
}

// Dial fails: this world has no network.
func (d *Driver) Dial(addr string) (aio.Sock, error) {
	return aio.NoSock, fsError("dial", addr, syscall.ENETUNREACH)
}

// PeerAddr is "": there are no peers.
func (d *Driver) PeerAddr(aio.Sock) string { return "" }
