package main

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is the kernel's struct dm_ioctl, with room for one target behind it: see
// linux/dm-ioctl.h.
type mapping struct {
	version            [3]uint32
	size, start        uint32
	targets            uint32
	open               int32
	flags, event, none uint32
	device             uint64
	name               [128]byte
	id                 [129]byte
	rest               [7]byte

	first, sectors uint64
	status         int32
	next           uint32
	kind           [16]byte
	words          [64]byte
}

// mappingHeader is the size of struct dm_ioctl, and commands are requests of ioctl with it.
const mappingHeader = 312

const (
	create = 3
	resume = 6
	load   = 9
)

// linear makes /dev/dm-N of a whole device.
func linear(name, device string) error {
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer control.Close()
	d, err := os.Open(device)
	if err != nil {
		return err
	}
	defer d.Close()
	bytes, err := d.Seek(0, 2)
	if err != nil {
		return err
	}
	for _, command := range []uintptr{create, load, resume} {
		m := mapping{version: [3]uint32{4}, start: mappingHeader, sectors: uint64(bytes / 512)}
		m.size = uint32(unsafe.Sizeof(m))
		copy(m.name[:], name)
		if command == load {
			m.targets = 1
			copy(m.kind[:], "linear")
			copy(m.words[:], device+" 0")
		}
		request := 3<<30 | mappingHeader<<16 | 0xfd<<8 | command
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, control.Fd(), request, uintptr(unsafe.Pointer(&m))); errno != 0 {
			return fmt.Errorf("command %d: %w", command, errno)
		}
	}
	return nil
}
