package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/cmd/mqd/signals"
	"github.com/mqd-broker/mqd/net/wire"
)

func TestMessagesAreSpacedEvenlyHoweverLateOneIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		began, p := time.Now(), newPacer(100)
		at := func() time.Duration {
			if err := p.wait(ctx); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		for i := range 50 {
			if got, want := at(), time.Duration(i)*10*time.Millisecond; got != want {
				t.Fatalf("message %d went after %v, want %v", i, got, want)
			}
		}
		// A slow message is made up for.
		late := time.NewTimer(time.Second)
		<-late.C
		for range 100 {
			if got := at(); got != 1490*time.Millisecond {
				t.Fatalf("a message that is due waited until %v", got)
			}
		}
		if got := at(); got != 1500*time.Millisecond {
			t.Fatalf("the schedule moved: %v", got)
		}
	})
}

func TestWaitingForTheNextMessageEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		p := newPacer(0.001)
		if err := p.wait(ctx); err != nil {
			t.Fatal(err)
		}
		go cancel(signals.ErrInterrupted)
		if err := p.wait(ctx); !errors.Is(err, signals.ErrInterrupted) {
			t.Fatal(err)
		}
	})
	var none *pacer
	if newPacer(0) != none || none.wait(context.Background()) != nil {
		t.Error("without a rate nothing waits")
	}
}

func TestTheTallyKeepsAcknowledgedRefusedAndUnknownApart(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	tally := newTally(cancel)
	for range 10 {
		tally.took(100)
	}
	tally.sent(t.Context(), client.SendInfo{Records: 4, Queued: 100 * time.Microsecond, Answered: 200 * time.Microsecond, Class: client.ClassFlushed})
	tally.sent(t.Context(), client.SendInfo{Records: 1, Answered: 5 * time.Millisecond, Class: client.ClassMemory})
	refused := &client.Error{Op: "produce", Code: 34}
	tally.sent(t.Context(), client.SendInfo{Records: 2, Err: refused})
	tally.sent(t.Context(), client.SendInfo{Records: 3, Err: &client.Error{Op: "produce", OutcomeUnknown: true}})
	if context.Cause(ctx) != refused {
		t.Errorf("the first failure does not end the work: %v", context.Cause(ctx))
	}
	r := tally.report()
	if r.Messages != 10 || r.Acked != 5 || r.Failed != 2 || r.Unknown != 3 || r.Bytes != 1000 || r.Class != "memory" {
		t.Errorf("%+v", r)
	}
	if r.Ack.P50 != 300 || r.Ack.P99 < 4990 || r.Ack.P99 > 5010 || r.Ack.P999 != r.Ack.Max {
		t.Errorf("%+v", r.Ack)
	}
}

func TestTheSummaryTellsRatesPercentilesAndClass(t *testing.T) {
	r := produceReport{Messages: 200_000, Acked: 200_000, Bytes: 36_000_000, Seconds: 0.5,
		Ack: latencyReport{P50: 412, P99: 1200, P999: 2100}, Class: "flushed"}
	want := "200,000 messages, 34.3 MiB in 0.500 s (400,000 messages/s, 68.7 MiB/s); ack p50 412µs, p99 1.2ms, p99.9 2.1ms; class flushed"
	if got := r.String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := (produceReport{}).String(); got != "0 messages" {
		t.Errorf("of nothing: %s", got)
	}
}

func TestATopicNobodyAcknowledgesForEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		tally := newTally(cancel)
		watching, unwatch := context.WithCancel(ctx)
		done := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(done)
			tally.watch(watching, 5*time.Second, &strings.Builder{})
		}()
		// Nothing is waiting: nothing is missed.
		idle := time.NewTimer(time.Minute)
		<-idle.C
		if ctx.Err() != nil {
			t.Fatalf("gave up without a message: %v", context.Cause(ctx))
		}
		tally.took(1)
		<-ctx.Done()
		if took := time.Since(began) - time.Minute; took < 5*time.Second || took > 6*time.Second {
			t.Errorf("gave up after %v", took)
		}
		var stalled errStalled
		if !errors.As(context.Cause(ctx), &stalled) {
			t.Error(context.Cause(ctx))
		}
		unwatch()
		<-done
	})
}

// Whoever feeds must not wait for room in the log of acknowledgements when the
// work has ended: the room comes only after the client is closed.
func TestTheLogOfAcknowledgementsTakesWhatHasNoRoomAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f, err := os.Create(filepath.Join(t.TempDir(), "acks"))
	if err != nil {
		t.Fatal(err)
	}
	a := &ackLog{f: f, tickets: make(chan client.Ticket), done: make(chan error, 1)}
	a.expect(ctx, client.Ticket{})
	a.expect(ctx, client.Ticket{})
	got := 0
	go func() {
		for range a.tickets {
			got++
		}
		a.done <- nil
	}()
	if err := a.close(); err != nil || got != 2 {
		t.Errorf("%d of 2 tickets arrived, %v", got, err)
	}
}

func TestASummaryHasNoRateWithoutTime(t *testing.T) {
	cancelled := func(error) {}
	tl := newTally(cancelled)
	tl.last = tl.began
	tl.took(5)
	if got, want := tl.report().String(), "1 message, 5 B in 0.000 s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	tl.sent(t.Context(), client.SendInfo{Records: 1, Class: client.ClassFlushed, Queued: time.Microsecond})
	tl.last = tl.began.Add(time.Second / 2)
	if got, want := tl.report().String(), "1 message, 5 B in 0.500 s (2 messages/s, 10 B/s); ack p50 1µs, p99 1µs, p99.9 1µs; class flushed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFewerAcknowledgedThanSentIsAFailure(t *testing.T) {
	tl := newTally(func(error) {})
	tl.took(5)
	tl.took(5)
	tl.sent(t.Context(), client.SendInfo{Records: 1, Class: client.ClassFlushed})
	p := &produce{server: &server{set: func() bool { return false }}}
	var out strings.Builder
	err := p.finish(&out, tl, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "1 of 2 messages acknowledged: ") || out.Len() > 0 {
		t.Errorf("%v, %q", err, &out)
	}
	tl.sent(t.Context(), client.SendInfo{Records: 1, Class: client.ClassFlushed})
	if err := p.finish(&out, tl, nil); err != nil || !strings.HasPrefix(out.String(), "2 messages") {
		t.Errorf("%v, %q", err, &out)
	}
}

func TestDamageIsToldWithTheWayOn(t *testing.T) {
	s := &server{set: func() bool { return false }}
	err := s.explain(&client.Error{Op: "fetch", Topic: "t", Partition: 3, Offset: 440, Code: wire.CodeCorrupt, ValidLow: 448})
	want := "topic t partition 3: what the broker has stored from offset 440 to 447 is damaged; go on behind it with --partition 3 --from 448; mqd verify --server " + s.address() + " finds all damage, and mqd salvage gives it up"
	if err.Error() != want || !errors.Is(err, client.ErrCorrupt) {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestADeletedTopicIsNotOneThatNeverWas(t *testing.T) {
	s := &server{set: func() bool { return false }}
	for op, want := range map[string]string{"fetch": "was deleted meanwhile", "produce": "was deleted meanwhile", "list-offsets": "was deleted meanwhile", "metadata": "does not exist", "topic-delete": "does not exist"} {
		err := s.explain(&client.Error{Op: op, Topic: "t", Partition: -1, Offset: -1, Err: client.ErrUnknownTopic})
		if !strings.Contains(err.Error(), want) || !errors.Is(err, client.ErrUnknownTopic) {
			t.Errorf("%s: %v, want %s", op, err, want)
		}
	}
}
