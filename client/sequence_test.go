package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
)

// Whatever happens to connections and batches on the way: each record is written once and
// in order, and only what the broker has refused for good is missing, with its error.
func TestAnIdempotentProducerWritesEverythingOnceAndInOrder(t *testing.T) {
	for seed := range uint64(6) {
		b := newFakeBroker(t)
		b.addTopic("once", 1)
		rng := rand.New(rand.NewPCG(seed, 1))
		b.judge = func(_ *batch.Header, values []string) wire.Code {
			switch {
			case strings.HasPrefix(values[0], "bad"):
				return wire.CodeBatchTooLarge
			case rng.IntN(40) == 0:
				return wire.CodeBackpressure
			}
			return wire.CodeNone
		}
		var requests atomic.Uint64
		b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
			n := requests.Add(1)
			switch {
			case h.Op != wire.OpProduce:
			case n*2654435761%101 < 3:
				return dropAfter
			case n*2654435761%101 < 6:
				return dropBefore
			}
			return pass
		})
		c := dialFake(t, b)
		p := openProducer(t, c, "once", WithIdempotence(), WithBatchMax(1))
		var good []string
		var tickets, refused []Ticket
		for i := range 300 {
			r := value("good %d", i)
			if i%37 == 20 {
				r = value("bad %d", i)
			}
			tk, err := p.Append(testContext(t), r)
			if err != nil {
				t.Fatal(err)
			}
			if i%37 == 20 {
				refused = append(refused, tk)
				if err := p.Flush(testContext(t)); seed%2 == 0 && !errors.Is(err, ErrTooLarge) {
					t.Fatalf("seed %d: flush: %v", seed, err)
				}
				continue
			}
			good, tickets = append(good, string(r.Value)), append(tickets, tk)
		}
		got := func() []string { return b.values("once", 0) }
		for i, tk := range tickets {
			at, err := tk.Wait(testContext(t))
			if err != nil || got()[at.Offset] != good[i] {
				t.Fatalf("seed %d: %q is at %d: %v", seed, good[i], at.Offset, err)
			}
		}
		for _, tk := range refused {
			_, err := tk.Wait(testContext(t))
			wantError(t, err, ErrTooLarge)
		}
		if all := got(); len(all) != len(good) {
			t.Fatalf("seed %d: %d records, %d were acknowledged", seed, len(all), len(good))
		}
		for i, v := range got() {
			if v != good[i] {
				t.Fatalf("seed %d: %q at %d, want %q", seed, v, i, good[i])
			}
		}
	}
}

// A producer that is closed while nothing is answered does not try for ever, and does not
// call failed what may be there.
func TestAnIdempotentProducerThatGivesUpSaysWhatIsUnknown(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("once", 1)
	arrived := make(chan struct{}, 16)
	b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
		if h.Op == wire.OpProduce {
			arrived <- struct{}{}
			return swallow
		}
		return pass
	})
	c := dialFake(t, b)
	p := openProducer(t, c, "once", WithIdempotence(), WithBatchMessages(1), WithMaxInFlight(1))
	sent, err := p.Append(testContext(t), value("sent"))
	if err != nil {
		t.Fatal(err)
	}
	queued, err := p.Append(testContext(t), value("queued"))
	if err != nil {
		t.Fatal(err)
	}
	<-arrived
	b.setDown(true)
	b.hangUp()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Close(ctx); err == nil {
		t.Fatal("a close that could not send what was queued says nothing of it")
	}
	if err := c.Close(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	_, err = sent.Wait(testContext(t))
	wantError(t, err, ErrOutcomeUnknown)
	if _, err = queued.Wait(testContext(t)); !errors.Is(err, ErrClosed) || errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("what was never sent: %v", err)
	}
}

func TestAThrottledProducerTellsOfItsPauses(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	refusals := 3
	b.judge = func(*batch.Header, []string) wire.Code {
		if refusals > 0 {
			refusals--
			return wire.CodeBackpressure
		}
		return wire.CodeNone
	}
	var mu sync.Mutex
	var told []ThrottleInfo
	c := dialFake(t, b, WithHooks(Hooks{OnThrottle: func(i ThrottleInfo) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, i)
	}}))
	p := openProducer(t, c, "alerts", WithIdempotence())
	if _, err := p.Send(testContext(t), value("a")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "three pauses are told", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) == 3
	})
	mu.Lock()
	defer mu.Unlock()
	for _, i := range told {
		if i.Topic != "alerts" || i.Partition != 0 || i.Pause <= 0 || i.Pause > time.Second || !errors.Is(i.Err, ErrThrottled) {
			t.Errorf("%+v", i)
		}
	}
	wantValues(t, b, "a")
}
