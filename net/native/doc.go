// Package native is the front door of mqd's own batch protocol, byte by byte in
// docs/format/wire.md: it decodes frames of package wire, hands them to the
// broker, and answers.
//
// Responses carry the correlation id of their request and leave when they are
// ready, so that a long poll delays nothing. A request and the memory of its
// frame stay in a pooled struct until the answer; produce and fetch allocate
// nothing.
package native
