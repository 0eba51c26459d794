package client

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/net/wire"
)

func TestErrorsNameTheirPlace(t *testing.T) {
	for want, e := range map[string]*Error{
		"mqd: dial: not connected":                                                      opError("dial", "", -1, ErrDisconnected),
		"mqd: produce alerts/3: not connected: outcome unknown":                         unknownError("produce", "alerts", 3, ErrDisconnected),
		"mqd: topic-create alerts: TopicExists: a topic of this name exists already: x": codeError("topic-create", "alerts", -1, wire.CodeTopicExists, "x"),
		"mqd: fetch a/0 at offset 7: OffsetOutOfRange: the offset lies outside the log (1 to 2)": {
			Op: "fetch", Topic: "a", Offset: 7, Code: wire.CodeOffsetOutOfRange, ValidLow: 1, ValidHigh: 2},
		"mqd: topic-create alerts: TopicExists: a topic of this name exists already":           codeError("topic-create", "alerts", -1, wire.CodeTopicExists, `topic exists: "alerts"`),
		"mqd: topic-create alerts: TopicExists: a topic of this name exists already: by him":   codeError("topic-create", "alerts", -1, wire.CodeTopicExists, "topic exists: by him"),
		"mqd: topic-delete alerts: UnknownTopic: no topic has this name or id: unknown topics": codeError("topic-delete", "alerts", -1, wire.CodeUnknownTopic, "unknown topics"),
		"mqd: topic-trim a/0: OffsetOutOfRange: the offset lies outside the log":               codeError("topic-trim", "a", 0, wire.CodeOffsetOutOfRange, ""),
	} {
		if e.Error() != want {
			t.Errorf("%s\nwant %s", e, want)
		}
	}
	if errors.Is(opError("x", "", -1, nil), ErrOutcomeUnknown) || errors.Is(&Error{}, ErrUnknownTopic) {
		t.Error("an error is what it is not")
	}
	if e := codeError("produce", "alerts", 0, wire.CodeBackpressure, ""); !errors.Is(e, ErrThrottled) || !e.Retriable || errors.Is(e, ErrOutcomeUnknown) {
		t.Errorf("%v: retriable %v", e, e.Retriable)
	}
}

func TestErrorsSayNothingTwice(t *testing.T) {
	unknown := wire.CodeUnknownTopic
	refused := &link.Refusal{Code: wire.CodeAuthFailed, Message: wire.CodeAuthFailed.Help()}
	dialed := fmt.Errorf("h:1: %w\nh:2: %w", refused, ErrDisconnected)
	for name, err := range map[string]error{
		"a message that is the help text": codeError("topic-delete", "t", -1, unknown, unknown.Help()),
		"no message":                      codeError("topic-delete", "t", -1, unknown, ""),
		"one error in another":            opError("append", "t", 0, fmt.Errorf("%w: %w", ErrTooLarge, ErrInvalid)),
		"an Error in an Error":            opError("append", "t", 0, codeError("produce", "t", 0, unknown, "")),
		"an Error in a BatchError":        &BatchError{Errors: []error{codeError("produce", "t", 0, unknown, "")}, Failed: 1},
		"a refused hello":                 refusal("dial", "", -1, dialed),
	} {
		text := err.Error()
		if strings.Count(text, "mqd: ") != 1 || strings.Contains(text, "\n") || strings.HasSuffix(text, ": ") {
			t.Errorf("%s: %q", name, text)
		}
		for _, help := range []string{unknown.Help(), wire.CodeAuthFailed.Help(), wire.CodeAuthFailed.String()} {
			if strings.Count(text, help) > 1 {
				t.Errorf("%s: %q repeats %q", name, text, help)
			}
		}
	}
	if text := refusal("dial", "", -1, dialed).Error(); !strings.Contains(text, "AuthFailed") {
		t.Errorf("%q does not tell the code", text)
	}
}

func TestTheOptionAtFaultIsNamedAlone(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	names := []string{"WithBatchMessages", "WithBatchBytes", "WithBatchMax", "WithMaxInFlight", "WithBuffer", "WithCompression", "WithMinClass", "WithLinger",
		"WithFetchBytes", "WithFetchRecords", "WithFetchWait", "WithCatchUp", "WithPrefetch", "WithDecodeLimit"}
	check := func(at string, err error) {
		t.Helper()
		wantError(t, err, ErrInvalid, at+"(")
		for _, name := range names {
			if name != at && strings.Contains(err.Error(), name) {
				t.Errorf("%q names %s, expected only %s", err, name, at)
			}
		}
	}
	for at, o := range map[string]ProducerOption{
		"WithBatchMessages": WithBatchMessages(0), "WithBatchBytes": WithBatchBytes(-1), "WithBatchMax": WithBatchMax(0),
		"WithMaxInFlight": WithMaxInFlight(0), "WithBuffer": WithBuffer(-5), "WithCompression": WithCompression(9), "WithMinClass": WithMinClass(9), "WithLinger": WithLinger(-1),
	} {
		_, err := c.Producer("alerts", o)
		check(at, err)
	}
	for at, o := range map[string]ConsumerOption{
		"WithFetchBytes": WithFetchBytes(2, 1), "WithFetchRecords": WithFetchRecords(-1), "WithFetchWait": WithFetchWait(0),
		"WithCatchUp": WithCatchUp(0, 1), "WithPrefetch": WithPrefetch(0), "WithDecodeLimit": WithDecodeLimit(0),
	} {
		_, err := c.Consumer(Topics("alerts"), o)
		check(at, err)
	}
}
