// Package admin manages topics and consumer groups over the batch protocol. Package
// client shows it to its users as part of its Admin.
package admin

import (
	"context"
	"errors"

	"github.com/mqd-broker/mqd/net/wire"
)

// Admin has the methods that need nothing of a client but its requests.
type Admin struct{ caller Caller }

// Caller is the client that requests go through.
type Caller interface {
	// Call makes a request and returns the answer's body; change says that it is not
	// simply made again when a connection dies. Errors name the topic.
	Call(ctx context.Context, op wire.Op, topic string, change bool, build func(dst []byte, corr uint32) []byte) ([]byte, error)
	// Fail makes the client's error: of a code of the broker, or of cause without one.
	Fail(op wire.Op, topic string, partition int32, code wire.Code, cause error) error
	// Unsupported reports whether an error says that the broker does not know the request.
	Unsupported(err error) bool
	// Invalid makes the error of an argument that can never work.
	Invalid(text string) error
}

// New makes the methods for a client.
func New(c Caller) Admin { return Admin{c} }

// call makes a request and decodes the answer.
func call[R any](ctx context.Context, g Admin, op wire.Op, topic string, change bool, build func([]byte, uint32) []byte, decode func([]byte) (R, error)) (R, error) {
	var r R
	body, err := g.caller.Call(ctx, op, topic, change, build)
	if err != nil {
		return r, err
	}
	if r, err = decode(body); err != nil {
		return r, g.caller.Fail(op, topic, -1, wire.CodeNone, err)
	}
	return r, nil
}

// refused is the error of a code, nil for success.
func (g Admin) refused(op wire.Op, topic string, code wire.Code, message string) error {
	if code == wire.CodeNone {
		return nil
	}
	var cause error
	if message != "" && message != code.Help() {
		cause = errors.New(message)
	}
	return g.caller.Fail(op, topic, -1, code, cause)
}

// topics are all topics.
func (g Admin) topics(ctx context.Context) ([]wire.TopicMetadata, error) {
	r, err := call(ctx, g, wire.OpMetadata, "", false, func(dst []byte, corr uint32) []byte {
		return wire.AppendMetadataRequest(dst, corr, wire.MetadataRequest{All: true})
	}, wire.DecodeMetadataResponse)
	return r.Topics, err
}

// topic looks one topic up.
func (g Admin) topic(ctx context.Context, name string) (wire.TopicMetadata, error) {
	if err := g.checkTopic(name); err != nil {
		return wire.TopicMetadata{}, err
	}
	r, err := call(ctx, g, wire.OpMetadata, "", false, func(dst []byte, corr uint32) []byte {
		return wire.AppendMetadataRequest(dst, corr, wire.MetadataRequest{Topics: []string{name}})
	}, wire.DecodeMetadataResponse)
	switch {
	case err != nil:
		return wire.TopicMetadata{}, err
	case len(r.Topics) != 1 || r.Topics[0].Name != name:
		return wire.TopicMetadata{}, g.caller.Fail(wire.OpMetadata, name, -1, wire.CodeNone, wire.ErrMalformed)
	case r.Topics[0].Code != wire.CodeNone:
		return wire.TopicMetadata{}, g.caller.Fail(wire.OpMetadata, name, -1, r.Topics[0].Code, nil)
	}
	return r.Topics[0], nil
}
