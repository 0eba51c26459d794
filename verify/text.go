package verify

import (
	"fmt"
	"github.com/mqd-broker/mqd/internal/quantity"
	"strings"
)

// String is a finding in a line.
func (f *Finding) String() string {
	var b strings.Builder
	switch {
	case f.Kind == Damage && f.Known:
		b.WriteString("DAMAGED (known): ")
	case f.Kind == Damage:
		b.WriteString("DAMAGED: ")
	case f.Kind == Unchecked:
		b.WriteString("NOT CHECKED: ")
	default:
		b.WriteString("note: ")
	}
	if f.Topic != "" {
		fmt.Fprintf(&b, "topic %s partition %d: ", f.Topic, f.Partition)
	}
	if f.File != "" {
		b.WriteString(f.File)
		if f.Position >= 0 {
			b.WriteString(span(" at byte %d", " at bytes %d to %d", f.Position, f.EndPosition))
		}
		b.WriteString(": ")
	}
	if f.Offset >= 0 {
		b.WriteString(span("offset %d", "offsets %d to %d", f.Offset, f.EndOffset))
		b.WriteString(": ")
	}
	b.WriteString(f.Reason)
	return b.String()
}

// span writes a range whose end is known or not, or that holds one number.
func span(one, many string, from, to int64) string {
	if to <= from+1 {
		return fmt.Sprintf(one, from)
	}
	return fmt.Sprintf(many, from, to-1)
}

// Lines says in words what has been read and found.
func (s *Summary) Lines() []string {
	lines := []string{
		fmt.Sprintf("read: %s, %s", quantity.Of(s.Files, "file", "files"), quantity.Of(s.Bytes, "byte", "bytes")),
		fmt.Sprintf("checkpoints: %d; snapshots of the catalog: %d; commands of the catalog: %d", s.Checkpoints, s.Snapshots, s.Commands),
		fmt.Sprintf("journals: %d with %s and %s", s.Journals, quantity.Of(s.Rounds, "round", "rounds"), quantity.Of(s.Entries, "entry", "entries")),
		fmt.Sprintf("partitions: %d with %s, %s, %s and %s", s.Partitions, quantity.Of(s.Segments, "segment", "segments"),
			quantity.Of(s.Indexes, "index", "indexes"), quantity.Of(s.Batches, "batch", "batches"), quantity.Of(s.Records, "record", "records")),
	}
	if s.Unindexed > 0 {
		lines = append(lines, fmt.Sprintf("full segments without an index, and so without checksums of regions: %d", s.Unindexed))
	}
	if s.Pending > 0 {
		lines = append(lines, fmt.Sprintf("behind the newest checkpoint: %s of segments, which the journals stand in for", quantity.Of(s.Pending, "byte", "bytes")))
	}
	return append(lines, s.Verdict())
}

// ServedLines is Lines for what a broker serves.
func (s *Summary) ServedLines() []string {
	return []string{
		fmt.Sprintf("read: %s with %s, %s and %s", quantity.Of(s.Partitions, "partition", "partitions"),
			quantity.Of(s.Batches, "batch", "batches"), quantity.Of(s.Records, "record", "records"), quantity.Of(s.Bytes, "byte", "bytes")),
		s.Verdict(),
	}
}

// Verdict says in a line what has been found.
func (s *Summary) Verdict() string {
	text := "whole: nothing is damaged"
	if s.Damages > 0 {
		text = fmt.Sprintf("damaged places: %d, known to an index: %d", s.Damages, s.Known)
	}
	if s.Unchecked > 0 {
		if s.Damages == 0 {
			text = "nothing that could be checked is damaged"
		}
		text += fmt.Sprintf("; %d could not be checked", s.Unchecked)
	}
	return text
}
