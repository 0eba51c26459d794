// Package timesearch finds the first record of some batches that is at or after a
// time. It decompresses, so that it is a job for a helper.
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
		if h.MaxTimestamp >= j.Time {
			if err := j.search(&h, b[batch.HeaderSize:]); err != nil || j.Found {
				return err
			}
		}
		all = rest
	}
	return nil
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
