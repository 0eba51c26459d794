package link

import (
	"bytes"

	"github.com/mqd-broker/mqd/net/wire"
)

// Call is a request whose caller waits for the answer.
type Call struct {
	// Done is closed at its end, when the fields below are set.
	Done chan struct{}
	// Body is the answer's, a copy.
	Body []byte
	// Err is an [ErrorAnswer], or why there is no answer.
	Err error
	// Sent, with an Err of the second kind: the broker may have received the request.
	Sent bool

	op    wire.Op
	build func(dst []byte, corr uint32) []byte
}

// ErrorAnswer is a request that the broker answered with an error response.
type ErrorAnswer struct {
	Code    wire.Code
	Message string
}

// Error gives the code and what the broker said.
func (e *ErrorAnswer) Error() string { return "mqd: " + Explain(e.Code, e.Message) }

// Start queues a call and does not wait for it.
func (l *Link) Start(op wire.Op, build func(dst []byte, corr uint32) []byte) *Call {
	c := &Call{op: op, build: build, Done: make(chan struct{})}
	if !l.Enqueue(c) {
		c.Fail(ErrClosed, false)
		return c
	}
	l.Flush()
	return c
}

// Op implements [Request], as do all methods.
func (c *Call) Op() wire.Op { return c.op }

// Answered is always true.
func (c *Call) Answered() bool { return true }

// Encode builds the frame.
func (c *Call) Encode(corr uint32) []byte { return c.build(nil, corr) }

// Written does nothing.
func (c *Call) Written() {}

// Deliver ends the call with an answer.
func (c *Call) Deliver(_ *Link, f *Frame) error {
	if f.IsError() {
		e, err := wire.DecodeErrorResponse(f.Body)
		if err != nil {
			return err
		}
		c.Err = &ErrorAnswer{Code: e.Code, Message: e.Message}
	} else {
		c.Body = bytes.Clone(f.Body)
	}
	close(c.Done)
	return nil
}

// Fail ends the call without one.
func (c *Call) Fail(err error, sent bool) {
	c.Err, c.Sent = err, sent
	close(c.Done)
}
