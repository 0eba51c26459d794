package client

import (
	"context"
	"errors"

	"github.com/mqd-broker/mqd/client/internal/lane"
)

// Claim is room for a record in a producer's buffer, in which its owner writes the value, so
// that a large one need not be made somewhere else and copied. End it with Commit or Abort,
// on any goroutine; both give Buf back, which may not be touched after it.
//
// Until its Commit a claim is memory and nothing else. It holds nothing up and waits for
// nothing: Flush and Close do not know of it, other records of its partition pass it, and
// the record takes its place in the order at Commit. So one that is forgotten hangs nobody,
// but for the memory, which counts against [WithBuffer] for as long as the producer lives:
// its batch's up to then, at least 2 KiB.
//
// The value is not copied if the batch in which the room is has not gone before Commit. It
// goes without the claim when the answer to the batch before comes, the time of [WithLinger]
// is over, somebody flushes, or another record or claim of the partition follows; Commit
// copies the value into the next batch then. So claims are for producers that write what
// they have claimed at once, one at a time in each partition. With compression the value is
// read once more, as any other, when the batch is compressed.
type Claim struct {
	// Buf is the value of the record, all of it, zero to begin with. Its length and its
	// capacity are the size that was asked for.
	Buf []byte

	c lane.Claim
}

// Claim makes room for a record with this key and a value of n bytes, with no headers and
// the time of its batch. It waits only for room in the buffer, and allocates nothing. Errors
// are those of [Producer.Append]: ctx's own, [ErrClosed], [ErrTooLarge] for a record that
// fits into no batch or not into the buffer; and [ErrInvalid] for a size below 0.
func (p *Producer) Claim(ctx context.Context, key []byte, n int) (Claim, error) {
	if n < 0 {
		return Claim{}, invalid("Claim of %d bytes, expected 0 or more", n)
	}
	ln, err := p.laneOf(key)
	if err != nil {
		return Claim{}, p.appendError(nil, err)
	}
	for {
		c, buf, kick, missing, err := ln.Claim(ctx, key, n)
		if kick != nil {
			kick.Kick()
		}
		if err == nil {
			return Claim{buf, c}, nil
		}
		if errors.Is(err, lane.ErrNoRoom) {
			p.hurry()
			err = p.shared.Space.Wait(ctx, missing, p.done)
		}
		if err != nil {
			return Claim{}, p.appendError(ln, err)
		}
	}
}

// Commit appends the record, as [Producer.Append] does, and returns its ticket. It waits for
// nothing, and allocates nothing. A record that cannot be sent any more, because the
// producer was closed, has a ticket that says so. A claim that has ended already, as a
// commit or as a copy of it, appends nothing: its ticket is that of no record.
func (c *Claim) Commit() Ticket {
	at, kick := c.c.Commit()
	*c = Claim{}
	if kick != nil {
		kick.Kick()
	}
	return Ticket{at.Batch, at.Index}
}

// Abort gives the room back. It may be called again, and after Commit, so that it can be
// deferred.
func (c *Claim) Abort() {
	c.c.Abort()
	*c = Claim{}
}
