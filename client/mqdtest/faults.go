package mqdtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// tick is how often something is looked at that is waited for.
const tick = 5 * time.Millisecond

// DropAcks has the next n acknowledgements of batches get lost on their way: the records are
// stored, the connection breaks, and the producer cannot know. The outcome of everything
// that is unanswered on that connection is unknown then. A producer with
// client.WithIdempotence sends again, and finds out. 0 ends it.
func (b *Broker) DropAcks(n int) { b.network.lost.Store(int64(n)) }

// SetLatency has everything that the broker says from now on arrive by d later; 0 ends it.
// What is on its way keeps its time.
func (b *Broker) SetLatency(d time.Duration) { b.network.latency.Store(int64(d)) }

// FillDisk takes all room on the broker's disk away, and returns when the broker has noticed:
// it refuses producers with client.ErrThrottled, while consumers go on and topics can be
// deleted. It stays so over restarts and crashes, until FreeDisk.
func (b *Broker) FillDisk() {
	b.t.Helper()
	b.disk.full.Store(true)
	if b.node != nil {
		b.node.ReleaseBallast()
		b.ballast(true)
	}
}

// FreeDisk gives the room back, and returns when the broker has noticed, after about a
// second.
func (b *Broker) FreeDisk() {
	b.t.Helper()
	b.disk.full.Store(false)
	if b.node != nil {
		b.ballast(false)
	}
}

// ballast waits until the broker's spare file is missing or back.
func (b *Broker) ballast(missing bool) {
	b.t.Helper()
	ctx, cancel := b.context()
	defer cancel()
	again := time.NewTicker(tick)
	defer again.Stop()
	for b.node.Figures(ctx).BallastMissing != missing {
		select {
		case <-again.C:
		case <-ctx.Done():
			b.t.Fatalf("mqdtest: the broker does not notice what has become of its disk")
		}
	}
}

// FailDevice breaks the broker's disk: from now on every write and every flush fails.
// Producers are answered with the code StorageError, whose outcome is unknown, consumers go
// on with what they could read before. It is over with the next start, which has a disk with
// all that was acknowledged: the broker does not trust this one any more, and a Stop is a
// crash.
func (b *Broker) FailDevice() { b.disk.broken.Store(true) }

// FenceMembers takes all partitions from the members of a group, as the broker does with one
// that has been silent for its session. The contexts of their batches end, commits of these
// fail with client.ErrFenced, and consumers join again by themselves, when they hear of it.
func (b *Broker) FenceMembers(group string) {
	b.t.Helper()
	c := b.dial()
	defer closeAtOnce(c)
	ctx, cancel := b.context()
	defer cancel()
	d, err := c.Admin().DescribeGroup(ctx, group)
	if err == nil && len(d.Members) == 0 {
		err = fmt.Errorf("no members")
	}
	for i := 0; err == nil && i < len(d.Members); i++ {
		err = b.evict(ctx, group, d.Members[i].ID)
	}
	if err != nil {
		b.t.Fatalf("mqdtest: group %s: %v", group, err)
	}
}

// evict ends a membership in the member's name.
func (b *Broker) evict(ctx context.Context, group string, id wire.MemberID) error {
	nc, err := b.reach(b.node.Addr())
	if err != nil {
		return err
	}
	defer nc.Close()
	deadline, _ := ctx.Deadline()
	if err := nc.SetDeadline(deadline); err != nil {
		return err
	}
	in := bufio.NewReader(nc)
	if _, err = ask(nc, in, wire.AppendHelloRequest(nil, 1, wire.HelloRequest{
		MinProtocol: 1, MaxProtocol: 1, WantedShard: wire.AnyShard, ClientID: "mqdtest",
	})); err != nil {
		return err
	}
	body, err := ask(nc, in, wire.AppendGroupLeaveRequest(nil, 2, wire.GroupLeaveRequest{Group: []byte(group), Member: id}))
	if err != nil {
		return err
	}
	r, err := wire.DecodeGroupResult(body)
	if err == nil && r.Code != wire.CodeNone {
		err = fmt.Errorf("%v: %s", r.Code, r.Message)
	}
	return err
}

// ask sends a request and returns the body of the answer.
func ask(nc net.Conn, in *bufio.Reader, request []byte) ([]byte, error) {
	if _, err := nc.Write(request); err != nil {
		return nil, err
	}
	head := make([]byte, wire.HeaderSize)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, err
	}
	h, err := wire.ParseHeader(head, maxFrame)
	if err != nil {
		return nil, err
	}
	body := make([]byte, h.BodySize())
	if _, err := io.ReadFull(in, body); err != nil {
		return nil, err
	}
	if h.Flags&wire.FlagError != 0 {
		e, err := wire.DecodeErrorResponse(body)
		return nil, fmt.Errorf("%v: %s, %v", e.Code, e.Message, err)
	}
	return body, nil
}
