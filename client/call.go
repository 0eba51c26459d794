package client

import (
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

// do makes a call and returns the answer's body. Reads are made again on a new
// connection until ctx ends; a change that was sent and not answered is
// [ErrOutcomeUnknown].
func do(ctx context.Context, l *link.Link, kind callKind, topic string, op wire.Op, build func(dst []byte, corr uint32) []byte) ([]byte, error) {
	for {
		body, err := finish(ctx, l, op, l.Start(op, build), kind, topic)
		if err == nil || kind == callChange || !isDisconnected(err) {
			return body, err
		}
	}
}

// finish waits for a call of op.
func finish(ctx context.Context, l *link.Link, op wire.Op, c *link.Call, kind callKind, topic string) ([]byte, error) {
	select {
	case <-c.Done:
	case <-ctx.Done():
		if l.Withdraw(c) || kind == callRead {
			return nil, opError(op.String(), topic, -1, contextError(ctx))
		}
		return nil, unknownError(op.String(), topic, -1, contextError(ctx))
	}
	var e *link.ErrorAnswer
	switch {
	case c.Err == nil:
		return c.Body, nil
	case errors.As(c.Err, &e):
		return nil, codeError(op.String(), topic, -1, e.Code, e.Message)
	case c.Sent && kind == callChange:
		return nil, unknownError(op.String(), topic, -1, c.Err)
	}
	return nil, refusal(op.String(), topic, -1, c.Err)
}

// isDisconnected reports whether a new connection may help.
func isDisconnected(err error) bool { return errors.Is(err, ErrDisconnected) }
