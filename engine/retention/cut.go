package retention

import "time"

// Segment is a full segment as retention sees it.
type Segment struct {
	End    int64 // offset behind it: where the next one begins
	Bytes  int64
	Newest int64 // append time of its newest batch, nanoseconds since 1970; 0: not known
}

// Limits say when a partition's oldest segments go.
type Limits struct {
	// Age is the age at which a segment goes; 0 for none. The age is that of its newest
	// batch by the broker's append time. What producers say of their records' times
	// does not count.
	Age time.Duration
	// Bytes is how much of the partition stays at least; negative for all.
	Bytes int64
}

// Cut is the log start that the limits ask for at time now, of a partition of total bytes
// whose oldest segments are those given, the oldest first; 0 when all of them stay. newest
// is the append time of the newest batch of the partition, now one of the same clock. A
// segment whose time is not known is as old as the one behind it: appends come in order.
func (l Limits) Cut(oldest []Segment, total, newest, now int64) (start int64) {
	times := make([]int64, len(oldest))
	for i := len(oldest) - 1; i >= 0; i-- {
		if t := oldest[i].Newest; t > 0 {
			newest = min(newest, t)
		}
		times[i] = newest
	}
	for i, s := range oldest {
		old := l.Age > 0 && times[i] > 0 && now-times[i] >= int64(l.Age)
		large := l.Bytes >= 0 && total-s.Bytes >= l.Bytes
		if !old && !large {
			break
		}
		total -= s.Bytes
		start = s.End
	}
	return start
}
