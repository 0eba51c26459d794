package lane

import (
	"context"
	"fmt"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/client/internal/memory"
)

// Claim is room for a record whose value its owner writes in place. It is nothing but memory
// until its Commit, which is when the record takes its place in the order of the partition.
//
// The room is behind the last record of the open batch, so that Commit copies nothing. An
// open claim holds nothing up: when the batch has to go, or somebody else appends to it, it
// goes as it is. The claim keeps the batch's memory then, and Commit copies the record into
// the batch that is open by that time. So one claim at a time is in the open batch.
type Claim struct {
	batch  *Batch
	pack   *memory.Packer
	number uint32
}

// Claim makes room for a record with a value of n bytes, not below 0, which is value. Errors
// are those of [Lane.Append].
func (ln *Lane) Claim(ctx context.Context, key []byte, n int) (c Claim, value []byte, kick *link.Link, missing int64, err error) {
	p := ln.p
	if n > p.MaxBatch {
		return c, nil, nil, 0, fmt.Errorf("%w: a value of %d bytes, the limit of a batch is %d", ErrTooLarge, n, p.MaxBatch)
	}
	ln.mu.Lock()
	defer ln.unlock()
	if p.closed.Load() {
		return c, nil, nil, 0, link.ErrClosed
	}
	if b := ln.open; b != nil && (b.claim != 0 || b.pack.Builder.Size()+b.pack.Builder.SizeOfReserved(b.stamp, key, n) > p.Max) {
		ln.shut()
		kick = ln.dispatch(SendDue)
	}
	b := ln.open
	if b == nil {
		if b, missing, err = ln.begin(ctx, len(key)+n, 0, false); err != nil {
			return c, nil, kick, missing, err
		}
	}
	k := b.pack
	if missing = p.charge(k, k.Builder.Size()+k.Builder.SizeOfReserved(b.stamp, key, n), false); missing > 0 {
		return c, nil, kick, missing, ErrNoRoom
	}
	own, value, err := k.Builder.Reserve(b.stamp, key, n)
	if err != nil {
		if ln.open == nil {
			b.release()
		}
		return c, nil, kick, 0, err
	}
	ln.open = b
	k.Hold(own, value)
	ln.claims = max(ln.claims+1, 1)
	b.claim = ln.claims
	return Claim{b, k, b.claim}, value, kick, 0, nil
}

// Commit appends the record, whatever the memory of the producer has room for: the claim's
// own goes back. A claim that has ended before gets no receipt.
func (c Claim) Commit() (t Receipt, kick *link.Link) {
	b := c.batch
	if b == nil {
		return t, nil
	}
	ln := b.lane
	ln.mu.Lock()
	defer ln.unlock()
	if !c.end() {
		return t, nil
	}
	defer ln.p.drop(c.pack)
	if ln.open == b {
		b.pack.Builder.Commit()
		return ln.added(b, SendDue)
	}
	r := batch.Record{Timestamp: batch.NoTimestamp, Key: c.pack.Key, Value: c.pack.Value}
	t, kick, _, err := ln.add(context.Background(), &r, SendDue, true)
	if err != nil {
		t = ln.never(err)
	}
	return t, kick
}

// Abort gives the room back.
func (c Claim) Abort() {
	b := c.batch
	if b == nil {
		return
	}
	ln := b.lane
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if !c.end() {
		return
	}
	if ln.open == b {
		b.pack.Builder.Withdraw()
		if b.count == 0 {
			ln.open = nil
			b.release()
		}
	}
	ln.p.drop(c.pack)
}

// never is the receipt of a record that comes into no batch.
func (ln *Lane) never(err error) Receipt {
	b := ln.p.slab.next()
	b.lane, b.outcome = ln, Outcome{Base: -1, Err: ln.p.Host.Failed(ln.partition, err, false)}
	b.resolved.Store(true)
	return Receipt{b, 0}
}

// end reports whether the claim was open. It is not any more. The lane's lock is held.
func (c Claim) end() bool {
	open := c.batch.claim == c.number
	if open {
		c.batch.claim = 0
	}
	return open
}
