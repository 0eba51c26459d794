// Package uring is the io_uring driver of the I/O port (see [aio.Driver] in
// engine/aio). It builds on Linux only; elsewhere the package is empty.
//
// One Driver is one ring, owned by the thread that made it: the ring is created
// on that thread (SINGLE_ISSUER, DEFER_TASKRUN) and its descriptor registered
// with it, so a goroutine locks itself to its thread before New and stays there
// for the driver's life.
//
// What goes through the ring is exactly what cannot block and is on the data
// path: reads and writes of registered files from registered memory, fdatasync,
// accept, receive, send, and cancelling. The ring is restricted to these before
// it is enabled; nothing can be opened, created or removed through it, even by a
// bug. Everything that the kernel may block on runs as plain system calls on a
// bounded pool of helpers, and listening, dialling and shutdown are plain calls
// as well.
//
// All memory that the kernel touches after a call has returned is mapped outside
// the Go heap: the arena that Alloc hands out, the receive buffers, the message
// headers of gathered sends.
//
// giouring supplies setup, submission entries and the register call. What it does
// by halves is done here (each case has a test TestGiouringF..): entries are
// cleared before use, descriptors are registered as 32-bit numbers, errors of
// registration are not dropped, buffer rings are filled here, the ring's own
// descriptor is unregistered, and set-up parameters are a struct that can be
// read. giouring reaches into the runtime by linkname, so a binary that links
// this package needs -ldflags=-checklinkname=0.
package uring
