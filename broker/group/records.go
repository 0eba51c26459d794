package group

// Records are records to be appended to the log, in order, in one piece of memory that
// is used again.
type Records struct {
	b    []byte
	ends []int
}

// Len is the number of records.
func (r *Records) Len() int { return len(r.ends) }

// Bytes is the size of all records together.
func (r *Records) Bytes() int { return len(r.b) }

// At is record i. It is valid until Clear.
func (r *Records) At(i int) []byte {
	start := 0
	if i > 0 {
		start = r.ends[i-1]
	}
	return r.b[start:r.ends[i]:r.ends[i]]
}

// Clear forgets the records.
func (r *Records) Clear() { r.b, r.ends = r.b[:0], r.ends[:0] }

// put takes over b, which is r.b with one more record.
func (r *Records) put(b []byte) { r.b, r.ends = b, append(r.ends, len(b)) }
