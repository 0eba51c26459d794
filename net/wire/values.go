package wire

import (
	"encoding/hex"
	"fmt"
	"unicode/utf8"
)

// TopicID is a topic's identity for life. A topic that is deleted and created
// again under the same name has another one.
type TopicID [16]byte

// String is the id as 32 hexadecimal digits.
func (t TopicID) String() string { return hex.EncodeToString(t[:]) }

// IsZero reports whether no topic has this id.
func (t TopicID) IsZero() bool { return t == TopicID{} }

// Class is a durability class; a greater number is a stronger promise.
type Class uint8

// The durability classes. ClassUnspecified demands nothing in a request and
// says nothing in a response.
const (
	ClassUnspecified Class = 0
	ClassMemory      Class = 1
	ClassWritten     Class = 2
	ClassFlushed     Class = 3
)

var classNames = [...]string{"unspecified", "memory", "written", "flushed"}

// String is the class's name in configurations and documents.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// ParseClass reads the name of a class: memory, written or flushed.
func ParseClass(name string) (Class, bool) {
	for c := ClassMemory; c <= ClassFlushed; c++ {
		if classNames[c] == name {
			return c, true
		}
	}
	return ClassUnspecified, false
}

// Encoding is the form of the batches in a produce request or a fetch response.
type Encoding uint8

const (
	// EncodingRecordBatch is the record batch v2, the form in which batches are
	// stored.
	EncodingRecordBatch Encoding = 0
	// EncodingPlain is the plain batch for clients that cannot build varints.
	EncodingPlain Encoding = 1
)

// AckMode says whether a produce request is answered.
type AckMode uint8

const (
	// AckClass asks for the response once the topic's class is reached.
	AckClass AckMode = 0
	// AckNone asks for no response at all, not even for an error.
	AckNone AckMode = 1
)

// MaxTopicName is the length of the longest topic name in bytes, the same as
// Kafka's.
const MaxTopicName = 249

// CheckTopicName reports whether a topic can have this name: 1 to 249 of the
// characters a-z A-Z 0-9 . _ - and neither "." nor "..", as in Kafka. The
// error is [ErrInvalidTopic].
func CheckTopicName(name string) error {
	if name == "" || len(name) > MaxTopicName {
		return fmt.Errorf("%w: a name of %d bytes, expected 1 to %d", ErrInvalidTopic, len(name), MaxTopicName)
	}
	if name == "." || name == ".." {
		return fmt.Errorf("%w: %q means a directory", ErrInvalidTopic, name)
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			_, n := utf8.DecodeRuneInString(name[i:])
			return fmt.Errorf("%w: %q has %q at %d, expected only a-z A-Z 0-9 . _ -", ErrInvalidTopic, name, name[i:i+n], i)
		}
	}
	return nil
}
