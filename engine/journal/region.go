package journal

import "github.com/mqd-broker/mqd/engine/aio"

// Region is where a journal lives: a pre-written file, a raw device, an NVMe
// namespace. Its methods submit op, whose Owner and Tag are the caller's, and
// complete it on the loop as engine/aio says; they never complete it from within.
// Memory comes from the driver's Alloc; offsets and lengths are multiples of
// 4096 bytes.
type Region interface {
	// Size is the region's size in bytes.
	Size() int64
	// BlockSize is the device's unit of writing in bytes; it divides 4096.
	BlockSize() int
	// Write writes buf at off. With aio.FlagDSYNC these bytes, and no earlier
	// ones, are durable at completion.
	Write(op *aio.Op, buf []byte, off int64, how aio.Flags)
	// Flush makes durable every write that has completed before.
	Flush(op *aio.Op)
	// Read fills buf from off.
	Read(op *aio.Op, buf []byte, off int64)
}

// Method says by which calls a device makes a small write durable fastest.
type Method uint8

const (
	// MethodDSYNC writes with DSYNC where that is enough.
	MethodDSYNC Method = iota
	// MethodWriteFlush always writes plainly and then flushes.
	MethodWriteFlush
)

// String is the method's name.
func (m Method) String() string {
	if m == MethodWriteFlush {
		return "write+flush"
	}
	return "dsync"
}

// FileRegion is a region in a file. It belongs to the driver that opened it.
type FileRegion struct {
	d    aio.Driver
	file aio.File
	size int64
	path string
}

// Path is the file's path.
func (r *FileRegion) Path() string { return r.path }

// Size is the file's size in bytes, rounded down to whole blocks.
func (r *FileRegion) Size() int64 { return r.size }

// BlockSize is 4096 bytes.
func (r *FileRegion) BlockSize() int { return aio.BlockSize }

// Write submits a write.
func (r *FileRegion) Write(op *aio.Op, buf []byte, off int64, how aio.Flags) {
	op.Kind, op.File, op.Buf, op.Off, op.Flags = aio.KindWrite, r.file, buf, off, how
	r.d.Submit(op)
}

// Flush submits an fdatasync.
func (r *FileRegion) Flush(op *aio.Op) {
	op.Kind, op.File, op.Buf, op.Off, op.Flags = aio.KindFdatasync, r.file, nil, 0, 0
	r.d.Submit(op)
}

// Read submits a read.
func (r *FileRegion) Read(op *aio.Op, buf []byte, off int64) {
	op.Kind, op.File, op.Buf, op.Off, op.Flags = aio.KindRead, r.file, buf, off, 0
	r.d.Submit(op)
}
