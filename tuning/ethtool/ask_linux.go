package ethtool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// request is the kernel's struct ifreq: the name of an interface, and where the rest is.
type request struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// Ask asks the driver of a card, which needs no privilege. Errors: ENODEV where there is no
// such card, EOPNOTSUPP where it does not know, as of the loopback, and what a filter of
// system calls answers.
func Ask(card string) (c Coalescing, err error) {
	if card == "" || len(card) >= unix.IFNAMSIZ {
		return c, fmt.Errorf("ethtool: %q: %w", card, unix.ENODEV)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return c, fmt.Errorf("ethtool: a socket to ask with: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	answer := new([4 * coalesceNumbers]byte)
	binary.NativeEndian.PutUint32(answer[:], unix.ETHTOOL_GCOALESCE)
	r := &request{data: unsafe.Pointer(answer)}
	copy(r.name[:], card)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(r)))
	runtime.KeepAlive(answer)
	if errno != 0 {
		return c, fmt.Errorf("ethtool: %s: %w", card, errno)
	}
	return coalescing(answer), nil
}
