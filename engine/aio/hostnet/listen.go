package hostnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

const (
	// listenBacklog is the number of connections that may wait for accept; the
	// kernel caps it at net.core.somaxconn.
	listenBacklog = 4096
	// dialTimeout bounds Dial.
	dialTimeout = 10 * time.Second

	// A peer that has gone without a word is found out: after keepIdle of
	// silence it is probed every keepInterval, keepCount times; data that it
	// does not acknowledge for userTimeout ends the connection. (The kernel's
	// own patience is about 15 minutes.)
	keepIdle     = 30               // seconds
	keepInterval = 10               // seconds
	keepCount    = 3                // probes
	userTimeout  = 30 * time.Second // of unacknowledged data, on Linux
)

// Listen opens a listening TCP socket on addr ("host:port") and returns the address
// really bound. Accepted sockets inherit its options: no delay, keep-alive. It may
// block to look a name up. Errors are of type *aio.Error.
func Listen(addr string, mode aio.ListenMode) (aio.Sock, string, error) {
	fd, bound, err := listen(addr, mode)
	if err != nil {
		return aio.NoSock, "", &aio.Error{Op: "listen", What: addr, Off: -1, Err: err}
	}
	return aio.Sock(fd), bound, nil
}

func listen(addr string, mode aio.ListenMode) (fd int, bound string, err error) {
	tcp, err := resolve(addr)
	if err != nil {
		return -1, "", err
	}
	fd, sa, err := socketFor(tcp)
	if err != nil {
		return -1, "", err
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	// REUSEADDR lets a restarted broker have its port in spite of old
	// connections; two listeners still exclude each other.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return -1, "", err
	}
	if mode == aio.ListenShared {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			return -1, "", err
		}
	}
	if err := setConnOptions(fd); err != nil {
		return -1, "", err
	}
	if err := unix.Bind(fd, sa); err != nil {
		return -1, "", err
	}
	if err := unix.Listen(fd, listenBacklog); err != nil {
		return -1, "", err
	}
	sa, err = unix.Getsockname(fd)
	return fd, addrString(sa), err
}

// resolve turns "host:port" into an address. The port is never left out.
func resolve(addr string) (*net.TCPAddr, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, err
	}
	return net.ResolveTCPAddr("tcp", addr)
}

// socketFor makes a socket of the address's family, and the address in the
// kernel's form. The empty host is every address, IPv4 ones included.
func socketFor(tcp *net.TCPAddr) (int, unix.Sockaddr, error) {
	if ip4 := tcp.IP.To4(); ip4 != nil {
		fd, err := newSocket(unix.AF_INET)
		return fd, &unix.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(ip4)}, err
	}
	fd, err := newSocket(unix.AF_INET6)
	if tcp.IP == nil && errors.Is(err, unix.EAFNOSUPPORT) {
		fd, err = newSocket(unix.AF_INET)
		return fd, &unix.SockaddrInet4{Port: tcp.Port}, err
	}
	if err != nil {
		return -1, nil, err
	}
	sa := &unix.SockaddrInet6{Port: tcp.Port}
	only := 0
	if tcp.IP != nil {
		sa.Addr = [16]byte(tcp.IP.To16())
		only = 1
	}
	if tcp.Zone != "" {
		iface, err := net.InterfaceByName(tcp.Zone)
		if err != nil {
			_ = unix.Close(fd)
			return -1, nil, err
		}
		sa.ZoneId = uint32(iface.Index)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only); err != nil {
		_ = unix.Close(fd)
		return -1, nil, err
	}
	return fd, sa, nil
}

// option is an option of a socket.
type option struct{ level, name, value int }

func setConnOptions(fd int) error {
	for _, o := range connOptions {

		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return fmt.Errorf("setting option %d of level %d: %w", o.name, o.level, err)
		}
	}
	return nil
}

// Dial opens a TCP connection to addr. It gives up after 10 seconds. Errors are of
// type *aio.Error.
func Dial(addr string) (aio.Sock, error) {
	fd, err := dial(addr)
	if err != nil {
		return aio.NoSock, &aio.Error{Op: "dial", What: addr, Off: -1, Err: err}
	}
	return aio.Sock(fd), nil
}

func dial(addr string) (int, error) {
	tcp, err := resolve(addr)
	if err != nil {
		return -1, err
	}
	if tcp.IP == nil {
		tcp.IP = net.IPv4(127, 0, 0, 1)
	}
	fd, sa, err := socketFor(tcp)
	if err != nil {
		return -1, err
	}
	if err = setConnOptions(fd); err == nil {
		err = connect(fd, sa)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// connect connects without blocking, so that the wait can be bounded, and leaves
// the socket blocking: a ring waits by itself on such a one, and who does not want
// to wait says so with every call.
func connect(fd int, sa unix.Sockaddr) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	if err := unix.Connect(fd, sa); err != nil {
		if err != unix.EINPROGRESS && err != unix.EINTR {
			return err
		}
		if err := awaitConnect(fd); err != nil {
			return err
		}
	}
	return unix.SetNonblock(fd, false)
}

func awaitConnect(fd int) error {
	deadline := time.Now().Add(dialTimeout)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return unix.ETIMEDOUT
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(left.Milliseconds())+1)
		switch {
		case err == unix.EINTR || err == nil && n == 0:
			continue
		case err != nil:
			return err
		}
		code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			return err
		}
		if code != 0 {
			return unix.Errno(code)
		}
		return nil
	}
}

// PeerAddr is the address of the other side as host:port, "" when unknown.
func PeerAddr(s aio.Sock) string {
	sa, err := unix.Getpeername(int(s))
	if err != nil {
		return ""
	}
	return addrString(sa)
}

// addrString writes an address as host:port; an IPv4 address that came in an
// IPv6 one in its own form.
func addrString(sa unix.Sockaddr) string {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)).String()
	case *unix.SockaddrInet6:
		ip := netip.AddrFrom16(sa.Addr).Unmap()
		if sa.ZoneId != 0 {
			if iface, err := net.InterfaceByIndex(int(sa.ZoneId)); err == nil {
				ip = ip.WithZone(iface.Name)
			}
		}
		return netip.AddrPortFrom(ip, uint16(sa.Port)).String()
	}
	return ""
}
