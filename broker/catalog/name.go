package catalog

import (
	"fmt"
	"strings"
)

// Limits of topics.
const (
	// MaxName is the length of the longest name in bytes, Kafka's.
	MaxName = 249
	// MaxPartitions is the largest number of partitions of a topic.
	MaxPartitions = 100_000
	// InternalPrefix begins the names of the broker's own topics.
	InternalPrefix = "__"
)

// CheckName reports whether a topic can have this name at all: 1 to 249 of the
// characters a-z A-Z 0-9 . _ - and neither "." nor "..", as in Kafka. The error is
// [ErrInvalidTopic].
func CheckName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: a name of %d bytes, expected 1 to %d", ErrInvalidTopic, len(name), MaxName)
	}
	if name == "." || name == ".." {
		return fmt.Errorf("%w: name %q", ErrInvalidTopic, name)
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return fmt.Errorf("%w: name %q has the byte %#02x at %d, expected one of a-z A-Z 0-9 . _ -", ErrInvalidTopic, name, name[i], i)
		}
	}
	return nil
}

// CheckUserName is CheckName without the names of the broker's own topics.
func CheckUserName(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if strings.HasPrefix(name, InternalPrefix) {
		return fmt.Errorf("%w: name %q begins with %q, which is for the broker's own topics", ErrInvalidTopic, name, InternalPrefix)
	}
	return nil
}

// CheckPartitions reports whether a topic can have n partitions: 1 to most, which
// is at most [MaxPartitions]. The error is [ErrInvalidPartitions].
func CheckPartitions(n, most uint32) error {
	if n < 1 || n > min(most, MaxPartitions) {
		return fmt.Errorf("%w: %d, expected 1 to %d", ErrInvalidPartitions, n, min(most, MaxPartitions))
	}
	return nil
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}
