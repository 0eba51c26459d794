// Package interop has real Kafka clients work against a real broker process, and
// mqd's own client beside them on the same topics.
package interop
