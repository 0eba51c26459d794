package hostnet

import "golang.org/x/sys/unix"

// newSocket makes a TCP socket that no child process inherits.
func newSocket(family int) (int, error) {
	return unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}

// connOptions are the options of connections.
var connOptions = []option{
	{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
	{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
	{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepIdle},
	{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepInterval},
	{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepCount},
	{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds())},
}
