package uring

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
)

// allowedOps are the operations that the ring takes; the kernel completes any
// other with EACCES. None of them opens, creates, renames or removes.
var allowedOps = []uint8{
	giouring.OpNop,
	giouring.OpReadFixed, giouring.OpWriteFixed,
	giouring.OpRead, giouring.OpWrite, // memory that could not be registered
	giouring.OpFsync,
	giouring.OpAccept, giouring.OpRecv, giouring.OpSend, giouring.OpSendmsg, giouring.OpRecvmsg,
	giouring.OpPollAdd, // the wake-up
	giouring.OpAsyncCancel,
	giouring.OpClose,
}

// allowedRegister are the register calls that remain: files come and go, and the
// ring's descriptor is unregistered at the end.
var allowedRegister = []uint32{giouring.RegisterFilesUpdate, giouring.UnregisterRingFDs}

// allowedFlags are the flags that an entry may carry.
const allowedFlags = giouring.SqeFixedFile | giouring.SqeBufferSelect

// restriction builds one entry of the list; the third field is a union of an
// operation, a register call and flags.
func restriction(kind uint32, value uint8) giouring.Restriction {
	return giouring.Restriction{OpCode: uint16(kind), OpFlags: value}
}

// restrict limits the disabled ring to what the driver uses; buffers says whether memory
// will be registered later.
func (r *ring) restrict(buffers bool) error {
	list := []giouring.Restriction{restriction(giouring.RestrictionSQEFlagsAllowed, allowedFlags)}
	for _, op := range allowedOps {
		list = append(list, restriction(giouring.RestrictionSQEOp, op))
	}
	register := allowedRegister
	if buffers {
		register = append(slices.Clone(register), giouring.RegisterBuffers)
	}
	for _, op := range register {
		list = append(list, restriction(giouring.RestrictionRegisterOp, uint8(op)))
	}
	if _, err := r.register(giouring.RegisterRestrictions, unsafe.Pointer(&list[0]), uint32(len(list))); err != nil {
		return fmt.Errorf("uring: restricting the ring to %d operations: %w", len(allowedOps), err)
	}
	return nil
}
