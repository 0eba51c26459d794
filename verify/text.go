package verify

import (
	"fmt"
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
		fmt.Sprintf("read: %d files, %d bytes", s.Files, s.Bytes),
		fmt.Sprintf("checkpoints: %d; snapshots of the catalog: %d; commands of the catalog: %d", s.Checkpoints, s.Snapshots, s.Commands),
		fmt.Sprintf("journals: %d with %d rounds and %d entries", s.Journals, s.Rounds, s.Entries),
		fmt.Sprintf("partitions: %d with %d segments, %d indexes, %d batches and %d records", s.Partitions, s.Segments, s.Indexes, s.Batches, s.Records),
	}
	if s.Unindexed > 0 {
		lines = append(lines, fmt.Sprintf("full segments without an index, and so without checksums of regions: %d", s.Unindexed))
	}
	if s.Pending > 0 {
		lines = append(lines, fmt.Sprintf("behind the newest checkpoint: %d bytes of segments, which the journals stand in for", s.Pending))
	}
	return append(lines, s.Verdict())
}

// ServedLines is Lines for what a broker serves.
func (s *Summary) ServedLines() []string {
	return []string{
		fmt.Sprintf("read: %d partitions with %d batches, %d records and %d bytes", s.Partitions, s.Batches, s.Records, s.Bytes),
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
		text += fmt.Sprintf("; %d could not be checked", s.Unchecked)
	}
	return text
}
