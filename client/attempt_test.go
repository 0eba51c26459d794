package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// seen are the offsets of a batch and their attempts, up to where stop says.
func seen(b *Batch, stop int64) []string {
	var all []string
	for r := range b.Records() {
		all = append(all, fmt.Sprintf("%d:%d", r.Offset, r.Attempt))
		if r.Offset == stop {
			break
		}
	}
	return all
}

func TestARecordTellsHowOftenItWasDelivered(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, numbered(0, 3)...)
	b.put("alerts", 0, CompressZstd, numbered(3, 5)...)
	co := openConsumer(t, dialFake(t, b), Topics("alerts"))
	for i, want := range [][]string{
		{"0:1", "1:1", "2:1"}, // and the loop ends at the record that fails
		{"2:2"},
		{"2:3", "3:1", "4:1"},
	} {
		bt, err := co.Poll(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for r := range bt.Records() {
			got = append(got, fmt.Sprintf("%d:%d", r.Offset, r.Attempt))
			if r.Offset == 2 && i < 2 {
				if err := co.Seek(testContext(t), bt.Position(r)); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		bt.Release()
		if !slices.Equal(got, want) {
			t.Fatalf("delivery %d: %q, want %q", i, got, want)
		}
	}
	if err := co.Seek(testContext(t), Position{Topic: "alerts", Offset: OffsetStart}); err != nil {
		t.Fatal(err)
	}
	bt := take(t, co, 5)
	want := []string{"0:2", "1:2", "2:4", "3:2", "4:2"}
	if got := seen(bt, -1); !slices.Equal(got, want) {
		t.Errorf("from the start: %q, want %q", got, want)
	}
	if got := seen(bt, -1); !slices.Equal(got, want) {
		t.Errorf("a second look at the same delivery: %q, want %q", got, want)
	}
	bt.Release()
}

func TestAPanicInTheMidstOfABatchCountsAsADelivery(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, numbered(0, 3)...)
	co := openConsumer(t, dialFake(t, b), Topics("alerts"))
	bt := take(t, co, 3)
	func() {
		defer func() { _ = recover() }()
		for r := range bt.Records() {
			if r.Offset == 1 {
				panic("the application")
			}
		}
	}()
	bt.Release()
	if err := co.Seek(testContext(t), Position{Topic: "alerts", Offset: 0}); err != nil {
		t.Fatal(err)
	}
	if got := seen(take(t, co, 3), -1); !slices.Equal(got, []string{"0:2", "1:2", "2:1"}) {
		t.Errorf("%q", got)
	}
}

func TestWhatAFilterHidesIsDeliveredToo(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, numbered(0, 2)...)
	var attempts []int32
	co := openConsumer(t, dialFake(t, b), Topics("alerts"), WithFilter(func(r RecordView) bool {
		attempts = append(attempts, r.Attempt)
		return false
	}))
	for range 2 {
		if err := co.Seek(testContext(t), Position{Topic: "alerts", Offset: 0}); err != nil {
			t.Fatal(err)
		}
		if got := seen(take(t, co, 2), -1); len(got) > 0 {
			t.Fatalf("%q", got)
		}
	}
	if !slices.Equal(attempts, []int32{1, 1, 2, 2}) {
		t.Errorf("%d", attempts)
	}
}

func TestACommitBeginsToCountAgain(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, numbered(0, 4)...)
	co := joinFake(t, b, Topics("alerts"), WithAutoCommit(0, 0))
	bt := take(t, co, 4)
	seen(bt, -1)
	if err := bt.CommitTo(testContext(t), 2); err != nil {
		t.Fatal(err)
	}
	bt.Release()
	if err := co.Seek(testContext(t), Position{Topic: "alerts", Offset: 0}); err != nil {
		t.Fatal(err)
	}
	if got := seen(take(t, co, 4), -1); !slices.Equal(got, []string{"0:1", "1:1", "2:2", "3:2"}) {
		t.Errorf("%q", got)
	}
}

func TestAttemptsOutliveAMembership(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, numbered(0, 3)...)
	co := joinFake(t, b, Topics("alerts"), WithAutoCommit(0, 0))
	bt := take(t, co, 3)
	seen(bt, 1)
	b.pass(time.Minute) // the broker takes the member for dead
	<-bt.Context().Done()
	bt.Release()
	if got := seen(take(t, co, 3), -1); !slices.Equal(got, []string{"0:2", "1:2", "2:1"}) {
		t.Errorf("%q", got)
	}
}

func TestCommitsTellTheEpochOfTheLastRecord(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, numbered(0, 3)...)
	for name, opt := range map[string]ConsumerOption{"by hand": WithAutoCommit(0, 0), "by itself": WithAutoCommit(time.Hour, 0)} {
		co := openConsumer(t, dialFake(t, b), Group(name), Topics("alerts"), opt)
		bt := take(t, co, 3)
		for r := range bt.Records() {
			if p := bt.Position(r); p != (Position{Topic: "alerts", Offset: r.Offset, Epoch: 1}) {
				t.Errorf("record %d is at %+v", r.Offset, p)
			}
		}
		if p := bt.Next(); p != (Position{Topic: "alerts", Offset: 3, Epoch: 1}) {
			t.Errorf("behind the batch is %+v", p)
		}
		bt.Release()
		if name == "by hand" {
			if err := bt.Commit(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
		if err := co.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		commits := b.groupState().commits
		last := commits[len(commits)-1].Entries[0]
		b.mu.Unlock()
		if last.Next != 3 || last.Epoch != 1 {
			t.Errorf("%s: committed %d of epoch %d", name, last.Next, last.Epoch)
		}
	}
}

func TestAPositionOfALaterEpochStopsAtAnotherLog(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, numbered(0, 3)...)
	ctx := testContext(t)
	co := openConsumer(t, dialFake(t, b), FromPositions(Position{Topic: "alerts", Offset: 1, Epoch: 2}))
	_, err := co.Poll(ctx)
	var e *Error
	if !errors.Is(err, ErrDiverged) || !errors.As(err, &e) || e.Topic != "alerts" || e.Offset != 1 || e.Retriable {
		t.Fatalf("%v", err)
	}
	b.put("alerts", 0, CompressNone, "v3")
	short, cancel := context.WithCancelCause(ctx)
	cancel(errReset)
	if bt, err := co.Poll(short); !errors.Is(err, errReset) {
		t.Fatalf("the partition goes on: %+v, %v", bt, err)
	}
	if err := co.Seek(ctx, Position{Topic: "alerts", Offset: 1, Epoch: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err = co.Poll(ctx); !errors.Is(err, ErrDiverged) {
		t.Fatalf("after a seek: %v", err)
	}
	for _, p := range []Position{
		{Topic: "alerts", Offset: 1, Epoch: 1}, {Topic: "alerts", Offset: 1},
		{Topic: "alerts", Offset: OffsetStart, Epoch: 9}, // no offset that an epoch was known of
	} {
		if err := co.Seek(ctx, p); err != nil {
			t.Fatal(err)
		}
		bt, err := co.Poll(ctx)
		if err != nil {
			t.Fatalf("at %+v: %v", p, err)
		}
		bt.Release()
	}
}

var errReset = errors.New("the test has waited enough")

// ctxKey is the key of a value in a context.
type ctxKey struct{}

func TestHooksHaveTheContextOfWhatTheyTellOf(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	g := newGate()
	b.intercept = g.hold
	sends := make(chan context.Context, 8)
	fetches := make(chan context.Context, 8)
	c := dialFake(t, b, WithHooks(Hooks{
		OnSend: func(ctx context.Context, s SendInfo) {
			if s.Written <= 0 || s.Written > s.Answered {
				t.Errorf("written after %v, answered after %v", s.Written, s.Answered)
			}
			sends <- ctx
		},
		OnFetch: func(ctx context.Context, f FetchInfo) {
			if f.Bytes > 0 {
				fetches <- ctx
			}
		},
	}))
	p := openProducer(t, c, "alerts")
	mine, cancel := context.WithCancel(context.WithValue(testContext(t), ctxKey{}, "first"))
	first, err := p.Append(mine, value("a"))
	if err != nil {
		t.Fatal(err)
	}
	<-g.arrived // and now a batch of two
	for _, v := range []string{"second", "third"} {
		if _, err := p.Append(context.WithValue(testContext(t), ctxKey{}, v), value("b")); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	g.open()
	if _, err := first.Wait(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if tk, err := p.TryAppend(value("c")); err != nil {
		t.Fatal(err)
	} else if _, err := tk.Wait(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []any{"first", "second", nil} {
		ctx := <-sends
		if ctx.Value(ctxKey{}) != want || ctx.Err() != nil || ctx.Done() != nil {
			t.Errorf("batch %d has the context of %v, expected %v, and it ends: %v", i, ctx.Value(ctxKey{}), want, ctx.Err())
		}
	}
	co := openConsumer(t, c, Topics("alerts"))
	bt, err := co.Poll(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if ctx := <-fetches; ctx != bt.Context() {
		t.Error("a fetch has another context than its batches")
	}
}

func TestStatsHaveTheTimesOfBatchesFetchesAndCommits(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.intercept = func(_ *fakeConn, h wire.Header, _ []byte) fault {
		if h.Op == wire.OpProduce {
			time.Sleep(2 * time.Millisecond) // at least
		}
		return pass
	}
	c := dialFake(t, b)
	if s := c.Stats(); s.AckTimes.Count != 0 || s.AckTimes.Quantile(0.5) != 0 || s.AckTimes.Mean() != 0 {
		t.Errorf("before anything: %+v", s)
	}
	p := openProducer(t, c, "alerts")
	ctx := testContext(t)
	if _, err := p.Send(ctx, value("a")); err != nil {
		t.Fatal(err)
	}
	before := c.Stats()
	for range 2 {
		if _, err := p.Send(ctx, value("b")); err != nil {
			t.Fatal(err)
		}
	}
	co := openConsumer(t, c, Group("g"), Topics("alerts"), WithAutoCommit(0, 0))
	bt := take(t, co, 3)
	if err := bt.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	bt.Release()
	s := c.Stats()
	acks := s.AckTimes
	if acks.Count != 3 || acks.Quantile(0) < 2*time.Millisecond || acks.Mean() < 2*time.Millisecond || acks.Quantile(1) > acks.Sum+acks.Sum/64 { // as far as a bucket goes
		t.Errorf("%d acknowledgements, from %v to %v, %v", acks.Count, acks.Quantile(0), acks.Quantile(1), acks.Sum)
	}
	if since := acks.Since(before.AckTimes); since.Count != 2 || since.Sum+before.AckTimes.Sum != acks.Sum {
		t.Errorf("%d acknowledgements since, %v", since.Count, since.Sum)
	}
	if twice := acks.Merge(acks); twice.Count != 6 || twice.Quantile(0.5) != acks.Quantile(0.5) {
		t.Errorf("merged: %d", twice.Count)
	}
	n, last := uint64(0), time.Duration(-1)
	for upper, count := range acks.Buckets() {
		if n += count; upper <= last || count == 0 {
			t.Errorf("bucket up to %v behind %v: %d", upper, last, count)
		}
		last = upper
	}
	if n != acks.Count || last != acks.Quantile(1) {
		t.Errorf("%d in buckets up to %v", n, last)
	}
	if s.QueueTimes.Count != 3 || s.FetchTimes.Count != 1 || s.CommitTimes.Count != 1 {
		t.Errorf("%d queued, %d fetches, %d commits", s.QueueTimes.Count, s.FetchTimes.Count, s.CommitTimes.Count)
	}
}
