// Package aio is the I/O port: the one door through which everything below
// the broker reaches disks, sockets, the clock and other threads.
//
// A [Driver] belongs to one shard. It is used by one thread only, except for
// [Driver.Wake]. Operations are structs that the caller owns ([Op] for data and
// sockets, [FileOp] for everything that the kernel may block on); the caller
// keeps the struct and the memory it names untouched from Submit until the
// completion, which arrives inside [Driver.Poll] as a call of the operation's
// owner. Nothing is allocated per operation.
//
// All memory that the kernel reads or writes comes from [Driver.Alloc]: it is
// mapped outside the Go heap, page aligned and, where the driver can, registered
// with the kernel. Go memory never goes to the kernel asynchronously.
//
// Drivers: package uring (io_uring), engine/aio/portable (epoll and threads that
// block, where io_uring cannot be used) and engine/aio/sim (in memory, from a seed).
// engine/aio/aiotest holds the suite that each of them passes.
package aio
