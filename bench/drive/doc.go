// Package drive is how measurements do I/O: a loop that turns a driver on a thread of its own,
// tied to a CPU, and connections that carry frames on it. Brokers, floors and clients of a
// measurement are made of it, so that what is compared differs in nothing else.
package drive

import "errors"

var (
	// ErrConfig: a measurement was asked for that cannot be made.
	ErrConfig = errors.New("invalid setting")
	// ErrBroker: the broker answered what it must not, or not at all.
	ErrBroker = errors.New("broker")
	// ErrConnection: a connection ended or did not come about.
	ErrConnection = errors.New("connection")
)
