// Package portable is the driver of the I/O port (see [aio.Driver] in engine/aio)
// for machines where io_uring is missing or forbidden: an old kernel, the sysctl
// kernel.io_uring_disabled, the seccomp filter of a container. It gives the same
// guarantees by system calls that every Linux since 4.11 has.
//
// Sockets are served by the loop's own thread: epoll tells which of them can go
// on, and accept, receive and send are calls that never wait. A socket is known to
// epoll exactly while an operation waits on it, so that one which is handed over or
// closed leaves nothing behind.
//
// Files are served by workers, threads that block in pread, pwritev2 (RWF_DSYNC
// for durable writes) and fdatasync: a fixed number for the data path, and the
// helpers that [aio.Options] asks for behind them for everything else, so that a
// long job never stands in front of the journal. The loop hands a worker its task
// and takes the result back through one word of memory; it waits for nobody and
// allocates nothing.
//
// The kernel uses no memory after a call has returned, and the loop returns memory
// to its owner only after that: Go memory is never lent to it asynchronously.
//
// On a filesystem without O_DIRECT files that are opened for direct I/O go through
// the page cache, and [Driver.Notes] says so. Durable writes and flushes mean the
// same there, because they wait for the device. A write that is not flushed yet
// survives the death of the process, but no longer that of the kernel.
//
// On macOS, for development, there is a simple variant ([Config].Simple), and its first
// note says so. It asks for sockets by poll, wakes its loop through a pipe and its
// workers through channels, and puts a flush behind every durable write: F_FULLFSYNC,
// because fsync stops at the device's cache there. Everything but that flush is compiled
// and tested on Linux as well.
package portable
