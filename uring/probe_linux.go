package uring

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// disabledFile is the sysctl kernel.io_uring_disabled (since Linux 6.6): 0
// allows io_uring to all, 1 to CAP_SYS_ADMIN and the group of
// kernel.io_uring_group, 2 to nobody.
const disabledFile = "/proc/sys/kernel/io_uring_disabled"

// Features is what the kernel offers.
type Features struct {
	// Flags are the setup flags that the driver would use, Kernel the
	// IORING_FEAT bits.
	Flags, Kernel uint32
	// LastOp is the highest operation that the kernel knows.
	LastOp uint8
	// Deferred: completions wait until the loop enters (Linux 6.1).
	Deferred bool
	// Disabled is the value of kernel.io_uring_disabled, "" where there is no
	// such setting.
	Disabled string
}

// need is an operation without which the driver cannot work.
type need struct {
	op   uint8
	name string
	// since is the first release that has the operation in the form used.
	since string
}

// needs are what the kernel must have. A receive that completes many times has no
// number of its own; it came with SEND_ZC in 6.0.
var needs = []need{
	{giouring.OpReadFixed, "READ_FIXED", "5.1"},
	{giouring.OpWriteFixed, "WRITE_FIXED", "5.1"},
	{giouring.OpFsync, "FSYNC", "5.1"},
	{giouring.OpPollAdd, "POLL_ADD", "5.13, multishot"},
	{giouring.OpSendmsg, "SENDMSG", "5.3"},
	{giouring.OpRecvmsg, "RECVMSG", "5.3"},
	{giouring.OpAccept, "ACCEPT", "5.19, multishot"},
	{giouring.OpAsyncCancel, "ASYNC_CANCEL", "5.5"},
	{giouring.OpClose, "CLOSE", "5.6"},
	{giouring.OpRead, "READ", "5.6"},
	{giouring.OpWrite, "WRITE", "5.6"},
	{giouring.OpSend, "SEND", "5.6"},
	{giouring.OpRecv, "RECV", "6.0, multishot"},
	{giouring.OpSendZC, "SEND_ZC", "6.0"},
}

// kernel is what Probe asks; tests put another in its place.
type kernel interface {
	// setup makes a small ring with flags, and closes it: the features, and
	// the table of operations.
	setup(flags uint32) (features uint32, ops *giouring.Probe, err error)
	// sysctl is the text of the setting, false where there is none.
	sysctl() (string, bool)
}

// Probe asks the kernel whether the driver can work here. The error says what is
// missing, or what forbids io_uring and how to allow it; it wraps ErrUnsupported
// or ErrForbidden. Any goroutine may call it.
func Probe() (Features, error) { return probe(host{}) }

func probe(k kernel) (Features, error) {
	f := Features{}
	f.Disabled, _ = k.sysctl()
	var ops *giouring.Probe
	err := error(unix.EINVAL)
	for _, flags := range setupFlags {
		f.Flags = flags
		if f.Kernel, ops, err = k.setup(flags); !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	if err != nil {
		disabled, known := k.sysctl()
		return f, explain(err, disabled, known, 0)
	}
	f.Deferred = f.Flags&giouring.SetupDeferTaskrun != 0
	f.LastOp = ops.LastOp
	return f, missing(ops)
}

// missing names the operations that the driver needs and the kernel has not.
func missing(ops *giouring.Probe) error {
	var names []string
	for _, n := range needs {
		if !ops.IsSupported(n.op) {
			names = append(names, fmt.Sprintf("%s (Linux %s)", n.name, n.since))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w: it lacks %s; Linux 6.0 or newer has all", ErrUnsupported, strings.Join(names, ", "))
}

// setupError explains why a ring could not be made.
func setupError(err error, locked uint64) error {
	disabled, known := host{}.sysctl()
	return explain(err, disabled, known, locked)
}

// explain turns the kernel's answer to io_uring_setup into one that tells what to
// do.
func explain(err error, disabled string, known bool, locked uint64) error {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: there is no io_uring_setup: it is newer than the kernel, or not built in, or a seccomp filter hides it: %w", ErrUnsupported, err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: it refuses SINGLE_ISSUER with COOP_TASKRUN, which came with Linux 6.0: %w", ErrUnsupported, err)
	case errors.Is(err, unix.EPERM) && known && disabled != "0":
		return fmt.Errorf("%w: kernel.io_uring_disabled is %s; allow it with: sysctl -w kernel.io_uring_disabled=0"+
			" (where it is 1, CAP_SYS_ADMIN or membership of the group in kernel.io_uring_group is enough): %w", ErrForbidden, disabled, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		state := "this kernel has no setting kernel.io_uring_disabled"
		if known {
			state = "kernel.io_uring_disabled is " + disabled
		}
		return fmt.Errorf("%w: %s, so a seccomp filter or security module forbids it (the default profiles of Docker and containerd do);"+
			" allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile: %w", ErrForbidden, state, err)
	case errors.Is(err, unix.ENOMEM) && locked == 0:
		return fmt.Errorf("uring: %w: not even the smallest ring fits; raise LimitMEMLOCK (infinity is best): %w", ErrLockedMemory, err)
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("uring: %w: the ring alone needs %d bytes; raise LimitMEMLOCK (infinity is best): %w", ErrLockedMemory, locked, err)
	}
	return fmt.Errorf("uring: io_uring_setup: %w", err)
}

// host is the machine's kernel.
type host struct{}

func (host) sysctl() (string, bool) {
	text, err := os.ReadFile(disabledFile)
	return strings.TrimSpace(string(text)), err == nil
}

// probeEntries is the size of the probe's rings.
const probeEntries = 2

func (host) setup(flags uint32) (uint32, *giouring.Probe, error) {
	p := setupParams{flags: flags, cqEntries: 2 * probeEntries}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, probeEntries, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return 0, nil, errno
	}
	defer unix.Close(int(fd))
	ops := &giouring.Probe{}
	_, _, errno = unix.Syscall6(unix.SYS_IO_URING_REGISTER, fd, uintptr(giouring.RegisterProbe),
		uintptr(unsafe.Pointer(ops)), uintptr(len(ops.Ops)), 0, 0)
	if errno != 0 {
		return 0, nil, fmt.Errorf("io_uring_register(PROBE): %w", errno)
	}
	return p.features, ops, nil
}
