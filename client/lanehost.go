package client

import (
	"context"
	"errors"
	"time"

	"github.com/mqd-broker/mqd/client/internal/lane"
	"github.com/mqd-broker/mqd/net/wire"
)

// laneHost is a producer as its lanes see it.
type laneHost Producer

// Turn moves records without a key on to the next lane when their batch on this
// one is complete.
func (h *laneHost) Turn(partition int32) {
	next := partition + 1
	if int(next) >= len((*Producer)(h).lanes()) {
		next = 0
	}
	h.sticky.CompareAndSwap(partition, next)
}

// Tell measures and calls the hook.
func (h *laneHost) Tell(b *lane.Batch) {
	out := b.Outcome()
	bytes, opened, wrote := b.Sent()
	var queued, answered time.Duration
	if !wrote.IsZero() {
		queued, answered = wrote.Sub(opened), time.Since(wrote)
		h.c.counters.queued.Add(queued)
		if out.Err == nil && !h.cfg.noAck {
			h.c.counters.acked.Add(answered)
		}
	}
	hook := h.c.cfg.hooks.OnSend
	if hook == nil {
		return
	}
	info := SendInfo{
		Topic: b.Topic(), Partition: b.Partition(), Records: b.Len(), Bytes: bytes,
		BaseOffset: out.Base, Class: out.Class, Err: out.Err,
		Queued: queued, Written: b.Handed(answered), Answered: answered,
	}
	if out.Err == nil && out.AppendTime > 0 {
		info.AppendTime = time.Unix(0, out.AppendTime)
	}
	hook(context.WithoutCancel(b.Context()), info)
}

// Paused calls the hook.
func (h *laneHost) Paused(partition int32, d time.Duration, why wire.Code) {
	if hook := h.c.cfg.hooks.OnThrottle; hook != nil {
		hook(ThrottleInfo{Topic: h.topic.name, Partition: partition, Pause: d, Err: codeError("produce", h.topic.name, partition, why, "")})
	}
}

// Ended counts a batch that has come to its end.
func (h *laneHost) Ended(b *lane.Batch) {
	n, err := &h.c.counters, b.Outcome().Err
	switch {
	case err == nil:
		n.batchesAcked.Add(1)
		n.recordsAcked.Add(uint64(b.Len()))
		return
	case errors.Is(err, ErrOutcomeUnknown):
		n.batchesUnknown.Add(1)
	default:
		n.batchesFailed.Add(1)
	}
	h.mu.Lock()
	if h.firstErr == nil {
		h.firstErr = err
	}
	h.mu.Unlock()
}

// Refused is the broker's answer as an error. A topic that is not known any more is
// looked up again.
func (h *laneHost) Refused(partition int32, r *wire.ProduceResponse) error {
	e := codeError("produce", h.topic.name, partition, r.Code, r.Message)
	if r.ValidHigh > 0 {
		e.ValidLow, e.ValidHigh = max(r.ValidLow, 0), r.ValidHigh
	}
	if r.Code == wire.CodeUnknownTopic || r.Code == wire.CodeUnknownPartition {
		h.c.refresh()
	}
	return e
}

// Failed is the error of a batch without an answer.
func (h *laneHost) Failed(partition int32, err error, unknown bool) error {
	if unknown {
		return unknownError("produce", h.topic.name, partition, err)
	}
	return refusal("produce", h.topic.name, partition, err)
}
