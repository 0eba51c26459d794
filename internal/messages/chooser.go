package messages

import (
	"github.com/mqd-broker/mqd/batch"
)

// Chooser is a partitioner that each message can overrule.
type Chooser struct {
	Wanted int32 // by the message that is appended next; AnyPartition: no wish
	spread int32 // messages without a key or a wish
}

// spreadRun is how many messages without a key go to one partition before the
// next one has its turn: a full batch of the client's default size.
const spreadRun = 64

// Partition is the producer's partitioner.
func (c *Chooser) Partition(key []byte, n int32) int32 {
	switch {
	case c.Wanted >= 0:
		return c.Wanted
	case key != nil:
		return batch.Partition(key, n)
	}
	c.spread = (c.spread + 1) % (spreadRun * n)
	return c.spread / spreadRun
}
