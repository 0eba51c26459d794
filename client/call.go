package client

import (
	"bytes"
	"context"
	"errors"

	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/net/wire"
)

// callKind says what a caller may do when a connection dies.
type callKind uint8

const (
	// callRead changes nothing, so it is simply made again.
	callRead callKind = iota
	// callChange may have been carried out.
	callChange
)

// call is a request whose caller waits for the answer.
type call struct {
	operation wire.Op
	build     func(dst []byte, corr uint32) []byte
	done      chan struct{}

	// Set before done is closed.
	body []byte // a copy
	err  error
	sent bool // with err: the broker may have received the request
}

func (c *call) Op() wire.Op               { return c.operation }
func (c *call) Answered() bool            { return true }
func (c *call) Encode(corr uint32) []byte { return c.build(nil, corr) }
func (c *call) Written()                  {}

func (c *call) Deliver(_ *link.Link, f *link.Frame) error {
	if f.IsError() {
		e, err := decodeError(f, c.operation.String(), "", -1)
		if err != nil {
			return err
		}
		c.err = e
	} else {
		c.body = bytes.Clone(f.Body)
	}
	close(c.done)
	return nil
}

func (c *call) Fail(err error, sent bool) {
	c.err, c.sent = err, sent
	close(c.done)
}

// start queues a call on a link without waiting for it.
func start(l *link.Link, op wire.Op, build func(dst []byte, corr uint32) []byte) *call {
	c := &call{operation: op, build: build, done: make(chan struct{})}
	if !l.Enqueue(c) {
		c.Fail(ErrClosed, false)
		return c
	}
	l.Flush()
	return c
}

// do makes a call and returns the answer's body. Reads are made again on a new
// connection until ctx ends; a change that was sent and not answered is
// [ErrOutcomeUnknown].
func do(ctx context.Context, l *link.Link, kind callKind, topic string, op wire.Op, build func(dst []byte, corr uint32) []byte) ([]byte, error) {
	for {
		body, err := finish(ctx, l, start(l, op, build), kind, topic)
		if err == nil || kind == callChange || !isDisconnected(err) {
			return body, err
		}
	}
}

// finish waits for a call.
func finish(ctx context.Context, l *link.Link, c *call, kind callKind, topic string) ([]byte, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
		if l.Withdraw(c) || kind == callRead {
			return nil, opError(c.operation.String(), topic, -1, contextError(ctx))
		}
		return nil, unknownError(c.operation.String(), topic, -1, contextError(ctx))
	}
	if c.err == nil {
		return c.body, nil
	}
	var e *Error
	switch {
	case errors.As(c.err, &e):
		e.Topic = topic
		return nil, e
	case c.sent && kind == callChange:
		return nil, unknownError(c.operation.String(), topic, -1, c.err)
	}
	return nil, refusal(c.operation.String(), topic, -1, c.err)
}

// isDisconnected reports whether a new connection may help.
func isDisconnected(err error) bool { return errors.Is(err, ErrDisconnected) }
