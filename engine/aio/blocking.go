package aio

import "time"

// blockingWait bounds a turn of the blocking helpers; it costs only a turn.
const blockingWait = 50 * time.Millisecond

// waiter notes that an operation has completed.
type waiter struct{ done bool }

func (w *waiter) Complete(*Op)         { w.done = true }
func (w *waiter) CompleteFile(*FileOp) { w.done = true }

// Do submits op and polls d until it has completed. It is for start-up, recovery
// and tools, where no loop runs on d yet; completions of other operations are
// delivered meanwhile. It replaces op.Owner.
func Do(d Driver, op *Op) error {
	w := waiter{}
	op.Owner = &w
	d.Submit(op)
	for !w.done {
		if _, err := d.Poll(blockingWait); err != nil {
			return err
		}
	}
	return op.Err
}

// DoFile is Do for a file operation.
func DoFile(d Driver, op *FileOp) error {
	w := waiter{}
	op.Owner = &w
	d.SubmitFile(op)
	for !w.done {
		if _, err := d.Poll(blockingWait); err != nil {
			return err
		}
	}
	return op.Err
}

// ReadAt fills buf from f at off and returns the number of bytes before the end
// of the file.
func ReadAt(d Driver, f File, buf []byte, off int64) (int, error) {
	op := Op{Kind: KindRead, File: f, Buf: buf, Off: off}
	err := Do(d, &op)
	return op.N, err
}

// WriteAt writes buf to f at off.
func WriteAt(d Driver, f File, buf []byte, off int64, flags Flags) error {
	return Do(d, &Op{Kind: KindWrite, File: f, Buf: buf, Off: off, Flags: flags})
}

// Fdatasync flushes f.
func Fdatasync(d Driver, f File) error {
	return Do(d, &Op{Kind: KindFdatasync, File: f})
}

// OpenFile opens path and returns its handle and size in bytes.
func OpenFile(d Driver, path string, mode OpenMode) (File, int64, error) {
	op := FileOp{Kind: FileOpen, Path: path, Mode: mode}
	err := DoFile(d, &op)
	return op.File, op.Size, err
}

// CloseFile closes f.
func CloseFile(d Driver, f File) error {
	return DoFile(d, &FileOp{Kind: FileClose, File: f})
}
