package uring

import (
	"unsafe"

	"github.com/pawelgaczynski/giouring"
)

// setupParams is struct io_uring_params of linux/io_uring.h. giouring's has the
// same layout but no exported fields, so that nobody could ask for a size of the
// completion queue or learn what the kernel granted.
type setupParams struct {
	sqEntries    uint32
	cqEntries    uint32
	flags        uint32
	sqThreadCPU  uint32
	sqThreadIdle uint32
	features     uint32
	wqFD         uint32
	resv         [3]uint32
	sqOff        sqOffsets
	cqOff        cqOffsets
}

// sqOffsets is struct io_sqring_offsets: where in the mapped ring things are.
type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, resv1 uint32
	userAddr                                                        uint64
}

// cqOffsets is struct io_cqring_offsets.
type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, resv1 uint32
	userAddr                                                        uint64
}

// Sizes of the kernel's structs, in bytes.
const (
	paramsSize = 120
	sqeSize    = 64
	cqeSize    = 16
	bufSize    = 16 // an entry of a buffer ring
)

// The structs that the kernel reads and writes have its sizes.
var (
	_ [0]struct{} = [unsafe.Sizeof(setupParams{}) - paramsSize]struct{}{}
	_ [0]struct{} = [unsafe.Sizeof(giouring.Params{}) - paramsSize]struct{}{}
	_ [0]struct{} = [unsafe.Sizeof(giouring.SubmissionQueueEntry{}) - sqeSize]struct{}{}
	_ [0]struct{} = [unsafe.Sizeof(giouring.CompletionQueueEvent{}) - cqeSize]struct{}{}
	_ [0]struct{} = [unsafe.Sizeof(giouring.BufAndRing{}) - bufSize]struct{}{}
)

// Flags of setup that giouring (liburing 2.5) has under other names or not at
// all come from linux/io_uring.h.
const (
	setupBase = giouring.SetupCQSize | giouring.SetupClamp | giouring.SetupSubmitAll | giouring.SetupRDisabled
	// setupDefer runs completion work only when the owner enters the kernel
	// and says in the ring's flags that there is some, so that polling
	// needs no system call. Since Linux 6.1.
	setupDefer = setupBase | giouring.SetupSingleIssuer | giouring.SetupDeferTaskrun | giouring.SetupTaskrunFlag
	// setupCoop is the same without the promise about when. Since 6.0.
	setupCoop = setupBase | giouring.SetupSingleIssuer | giouring.SetupCoopTaskrun | giouring.SetupTaskrunFlag
)

// setupFlags are the sets of flags to try, best first.
var setupFlags = []uint32{setupDefer, setupCoop}

// forSetup returns the struct in giouring's type.
func (p *setupParams) forSetup() *giouring.Params {
	return (*giouring.Params)(unsafe.Pointer(p))
}

// ringBytes is the size of the mapping that holds both queues' indexes, the
// submission array and the completions.
func (p *setupParams) ringBytes() int {
	sq := int(p.sqOff.array) + int(p.sqEntries)*4
	cq := int(p.cqOff.cqes) + int(p.cqEntries)*cqeSize
	return max(sq, cq)
}
