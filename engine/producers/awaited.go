package producers

import (
	"time"

	"github.com/mqd-broker/mqd/batch"
)

// maxAwaited is how many batches are awaited at most, awaitedFor how long: by then their
// producers have given them up.
const (
	maxAwaited = 64
	awaitedFor = int64(2 * time.Minute)
)

// awaited is the batch with which a producer shall begin, or go on, where its sequence
// numbers alone do not say so. Several batches of it are on their way, and there may be no
// room for the first one: were the next one taken then, the first would come too late
// for good when it is sent again.
type awaited struct {
	log      *Log
	id, at   int64
	epoch    int16
	sequence int32
}

// adopt judges a batch that may begin anywhere: the first one of its producer that is
// judged is the one that is appended first. When more than maxAwaited batches have been
// judged and then refused for want of room, the one judged longest ago is forgotten.
func (t *Table) adopt(l *Log, h *batch.Header, now int64) (Verdict, Batch) {
	oldest := 0
	for i := range t.awaited {
		a := &t.awaited[i]
		if a.log == l && a.id == h.ProducerID {
			if a.epoch == h.ProducerEpoch && a.sequence != h.BaseSequence && now-a.at <= awaitedFor {
				return OutOfOrder, Batch{}
			}
			a.epoch, a.sequence, a.at = h.ProducerEpoch, h.BaseSequence, now
			return Fresh, Batch{}
		}
		if a.at < t.awaited[oldest].at {
			oldest = i
		}
	}
	a := awaited{log: l, id: h.ProducerID, at: now, epoch: h.ProducerEpoch, sequence: h.BaseSequence}
	if len(t.awaited) < maxAwaited {
		t.awaited = append(t.awaited, a)
	} else {
		t.awaited[oldest] = a
	}
	return Fresh, Batch{}
}

// came forgets what has been awaited from a producer.
func (t *Table) came(l *Log, id int64) {
	for i := range t.awaited {
		if a := &t.awaited[i]; a.log == l && a.id == id {
			t.stopAwaiting(i)
			return
		}
	}
}

// dropAwaited forgets what has been awaited from all producers of a partition.
func (t *Table) dropAwaited(l *Log) {
	for i := len(t.awaited) - 1; i >= 0; i-- {
		if t.awaited[i].log == l {
			t.stopAwaiting(i)
		}
	}
}

func (t *Table) stopAwaiting(i int) {
	last := len(t.awaited) - 1
	t.awaited[i] = t.awaited[last]
	t.awaited[last] = awaited{}
	t.awaited = t.awaited[:last]
}
