package hostnet

import "golang.org/x/sys/unix"

// newSocket makes a TCP socket. A child process that starts between the two calls
// inherits it: the broker starts none.
func newSocket(family int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}

// connOptions are the options of connections. There is no equal of TCP_USER_TIMEOUT: data
// that a peer does not acknowledge is tried for as long as the system does by itself.
var connOptions = []option{
	{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
	{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
	{unix.IPPROTO_TCP, unix.TCP_KEEPALIVE, keepIdle},
	{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepInterval},
	{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepCount},
}
