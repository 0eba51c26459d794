package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// ledger knows what was sent and where it was acknowledged, and judges what is
// read. Messages have numbers in the order in which they were sent.
type ledger struct {
	messages [][]byte
	acks     []map[int64]int // by partition: offset to number
	acked    int
}

func newLedger(partitions int) *ledger {
	l := &ledger{acks: make([]map[int64]int, partitions)}
	for p := range l.acks {
		l.acks[p] = map[int64]int{}
	}
	return l
}

// send adds messages that are sent, and returns the number of the first.
func (l *ledger) send(messages [][]byte) int {
	first := len(l.messages)
	l.messages = append(l.messages, messages...)
	return first
}

// ack notes that a message was acknowledged.
func (l *ledger) ack(partition int32, offset int64, number int) error {
	if int(partition) >= len(l.acks) || partition < 0 || number < 0 || number >= len(l.messages) {
		return fmt.Errorf("message %d acknowledged at offset %d of partition %d: there is no such message or partition", number, offset, partition)
	}
	if other, ok := l.acks[partition][offset]; ok {
		return fmt.Errorf("messages %d and %d were both acknowledged at offset %d of partition %d", other, number, offset, partition)
	}
	l.acks[partition][offset] = number
	l.acked++
	return nil
}

// reading compares everything that the broker has with a ledger.
type reading struct {
	l     *ledger
	next  []int64        // by partition: offset that comes next
	last  []int          // by partition: number of the newest message
	seen  []bool         // by number
	loose map[string]int // contents of messages without an acknowledgement
	read  int
	extra int // messages that were not acknowledged and are there all the same
	errs  []error
}

// read begins a reading of all partitions from their starts.
func (l *ledger) read() *reading {
	r := &reading{l: l, next: make([]int64, len(l.acks)), last: make([]int, len(l.acks)), seen: make([]bool, len(l.messages)), loose: map[string]int{}}
	for p := range r.last {
		r.last[p] = -1
	}
	acked := make([]bool, len(l.messages))
	for _, offsets := range l.acks {
		for _, number := range offsets {
			acked[number] = true
		}
	}
	for number, m := range l.messages {
		if !acked[number] {
			r.loose[string(m)] = number
		}
	}
	return r
}

// maxErrors is how many misses are told.
const maxErrors = 10

func (r *reading) miss(format string, args ...any) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, fmt.Errorf(format, args...))
	}
}

// record is a message that was read.
func (r *reading) record(partition int32, offset int64, value []byte) {
	if partition < 0 || int(partition) >= len(r.next) {
		r.miss("a message of partition %d, which does not exist", partition)
		return
	}
	r.read++
	if offset != r.next[partition] {
		r.miss("partition %d: offset %d where %d comes next", partition, offset, r.next[partition])
	}
	r.next[partition] = offset + 1
	number, acked := r.l.acks[partition][offset]
	if !acked {
		var known bool
		if number, known = r.loose[string(value)]; !known {
			r.miss("partition %d offset %d: %d bytes that nobody sent, or not there", partition, offset, len(value))
			return
		}
		r.extra++
	} else if want := r.l.messages[number]; !bytes.Equal(value, want) {
		r.miss("partition %d offset %d: message %d has changed: %d bytes, %d were sent", partition, offset, number, len(value), len(want))
	}
	if r.seen[number] {
		r.miss("partition %d offset %d: message %d for the second time", partition, offset, number)
	}
	r.seen[number] = true
	if number < r.last[partition] {
		r.miss("partition %d offset %d: message %d behind message %d", partition, offset, number, r.last[partition])
	}
	r.last[partition] = number
}

// done ends the reading: what was acknowledged and is not there is lost.
func (r *reading) done() error {
	lost := 0
	for p, offsets := range r.l.acks {
		var missing []int64
		for offset, number := range offsets {
			if !r.seen[number] {
				missing = append(missing, offset)
			}
		}
		lost += len(missing)
		if len(missing) > 0 {
			r.miss("partition %d: %d acknowledged messages are not there, the first at offset %d", p, len(missing), slices.Min(missing))
		}
	}
	if len(r.errs) == 0 {
		return nil
	}
	return fmt.Errorf("%d messages read, %d acknowledged ones lost:\n%w", r.read, lost, errors.Join(r.errs...))
}
