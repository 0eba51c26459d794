// Package bench measures: the disk, the network and the machine by themselves,
// and a broker against them, all through the project's own driver and in one
// process, so that every figure stands beside the floors of the same minute.
//
// How it measures:
//
//   - An open loop has absolute intended send times ([pace.Schedule]). Latency is
//     completion minus intended time, so that waiting in a client that has fallen
//     behind counts; service time and send lag stand beside it, and a run whose
//     lag is more than a tenth of its latency is marked invalid.
//   - Every message counts once in an HDR histogram. Histograms are merged by
//     bucket; percentiles are never averaged.
//   - The client loops of floors and broker are the same code with the same
//     frames. A loop that polls yields the CPU after every empty turn: a bare
//     spin on the CPU of the disk's interrupt makes a durable write forty times
//     slower, also when the one that spins is the client.
//   - Every message carries its lane, its sequence number and a CRC. All that was
//     acknowledged is read back: lost, repeated, reordered, changed messages and
//     offsets other than the acknowledged ones are counted, and any of them
//     fails the run.
//   - The measuring loops allocate nothing, and the garbage collector is off
//     while they run.
//
// The program that uses the package says how I/O is done: see [Platform].
package bench

import (
	"errors"
	"github.com/mqd-broker/mqd/bench/drive"
)

var (
	// ErrConfig: a measurement was asked for that cannot be made.
	ErrConfig = drive.ErrConfig
	// ErrFailed: messages were lost, repeated, reordered, changed or refused.
	ErrFailed = errors.New("messages did not come back as they went out")
	// ErrBroker: the broker answered what it must not, or not at all.
	ErrBroker = drive.ErrBroker
	// ErrConnection: a connection ended or did not come about.
	ErrConnection = drive.ErrConnection
)
