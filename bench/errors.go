package bench

import "errors"

var (
	// ErrConfig: a measurement was asked for that cannot be made.
	ErrConfig = errors.New("invalid setting")
	// ErrFailed: messages were lost, repeated, reordered, changed or refused.
	ErrFailed = errors.New("messages did not come back as they went out")
	// ErrBroker: the broker answered what it must not, or not at all.
	ErrBroker = errors.New("broker")
	// ErrConnection: a connection ended or did not come about.
	ErrConnection = errors.New("connection")
)
