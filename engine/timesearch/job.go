// Package timesearch finds the first record of some batches that is at or after a
// time, or the newest time of all. It decompresses, so that it is a job for a helper.
package timesearch

import (
	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
)

// decompressedLimit bounds what one batch may expand to, in bytes.
const decompressedLimit = 64 << 20

// Job searches whole batches, in log order, that lie in pieces of memory.
type Job struct {
	Time   int64 // milliseconds since 1970
	From   int64 // offset; records below it are passed over
	Pieces [][]byte
	// Newest asks for the largest timestamp instead, in Timestamp; Found says whether there
	// is a record.
	Newest bool

	// Found says whether there is one, Offset and Timestamp which.
	Found             bool
	Offset, Timestamp int64
}

var _ aio.Job = (*Job)(nil)

// Run implements aio.Job. An error says which batch does not check.
func (j *Job) Run(aio.FS) error {
	var all []byte
	for _, p := range j.Pieces {
		all = append(all, p...)
	}
	for len(all) > 0 {
		b, rest, err := batch.Split(all)
		if err != nil {
			return err
		}
		h, err := batch.CheckStored(b)
		if err != nil {
			return err
		}
		switch {
		case j.Newest:
			err = j.newest(&h, b[batch.HeaderSize:])
		case h.MaxTimestamp >= j.Time:
			err = j.search(&h, b[batch.HeaderSize:])
		}
		if err != nil || j.Found && !j.Newest {
			return err
		}
		all = rest
	}
	return nil
}

// newest takes a batch into account. Only of one that begins below From it looks at the
// records.
func (j *Job) newest(h *batch.Header, body []byte) error {
	switch {
	case h.Count == 0 || j.Found && h.MaxTimestamp <= j.Timestamp:
		return nil
	case h.BaseOffset >= j.From:
		j.Found, j.Timestamp = true, h.MaxTimestamp
		return nil
	}
	records, err := batch.Decompress(nil, *h, body, decompressedLimit)
	if err != nil {
		return err
	}
	it := h.Records(records)
	for it.Next() {
		if rec := it.Record(); rec.Offset >= j.From && (!j.Found || rec.Timestamp > j.Timestamp) {
			j.Found, j.Timestamp = true, rec.Timestamp
		}
	}
	return it.Err()
}

func (j *Job) search(h *batch.Header, body []byte) error {
	records, err := batch.Decompress(nil, *h, body, decompressedLimit)
	if err != nil {
		return err
	}
	it := h.Records(records)
	for it.Next() {
		if rec := it.Record(); rec.Timestamp >= j.Time && rec.Offset >= j.From {
			j.Found, j.Offset, j.Timestamp = true, rec.Offset, rec.Timestamp
			return nil
		}
	}
	return it.Err()
}
