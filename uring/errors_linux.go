package uring

import "errors"

var (
	// ErrForbidden: the kernel has io_uring, and something forbids this
	// process to use it. The error that wraps it says what, and how to allow
	// it.
	ErrForbidden = errors.New("io_uring is forbidden")
	// ErrUnsupported: the kernel has no io_uring, or an older one than this
	// driver needs (Linux 6.0).
	ErrUnsupported = errors.New("io_uring is not supported by this kernel")
	// ErrLockedMemory: RLIMIT_MEMLOCK is too small even for the ring.
	ErrLockedMemory = errors.New("limit of locked memory too small")
)
