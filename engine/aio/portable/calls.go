package portable

import (
	"syscall"
	"time"
)

// maxTransfer is the most that one system call is asked to read or write, in bytes.
// Linux caps a transfer just below 2 GiB; this keeps the rest of a capped one aligned.
const maxTransfer = 1 << 30

// calls are the system calls of the data path; tests put faults in their place. Those
// on files and sleep may block, the others do not. Results are the kernel's.
type calls interface {
	pread(fd int, b []byte, off int64) (int, syscall.Errno)
	// pwrite of a durable write says EOPNOTSUPP where there is no such thing.
	pwrite(fd int, b []byte, off int64, durable bool) (int, syscall.Errno)
	// fdatasync makes what has been written to a file durable.
	fdatasync(fd int) syscall.Errno
	accept(fd int) (int, syscall.Errno)
	recv(fd int, b []byte) (int, syscall.Errno)
	// send hands over what is left of vec behind the first skip bytes. Only the loop
	// calls it.
	send(fd int, vec [][]byte, skip int) (int, syscall.Errno)
	// sleep blocks a worker that has set asleep, until wake; it may return early.
	sleep(w *worker)
	wake(w *worker)
}

// poller knows which sockets can go on. The loop owns all of it but ring.
type poller interface {
	// add lets wait report what happens to a socket, and first how it stands.
	add(fd int) error
	// remove takes a socket out, also one that is closed.
	remove(fd int)
	// wait calls Driver.note for the sockets to which something has happened. If there
	// is none it waits for one, or for ring, and at most for so long.
	wait(d *Driver, wait time.Duration) syscall.Errno
	// ring ends the present wait. Any thread may call it.
	ring()
	close()
}
