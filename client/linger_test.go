package client

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// lingering runs f in a bubble, with a producer that lingers for 10 ms.
func lingering(t *testing.T, f func(t *testing.T, b *fakeBroker, p *Producer), opts ...ProducerOption) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		defer b.stop() // within the bubble
		b.addTopic("alerts", 2)
		c := dialFake(t, b)
		defer c.Close(t.Context())
		f(t, b, openProducer(t, c, "alerts", append(opts, WithPartition(0), WithLinger(10*time.Millisecond))...))
	})
}

func mustAppend(t *testing.T, p *Producer, n int) (last Ticket) {
	t.Helper()
	for i := range n {
		var err error
		if last, err = p.Append(t.Context(), value("%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func wantCounts(t *testing.T, b *fakeBroker, want ...int) {
	t.Helper()
	synctest.Wait()
	if n := b.counts("alerts", 0); !slices.Equal(n, want) {
		t.Fatalf("batches of %v records, expected %v", n, want)
	}
}

func TestALingeringBatchWaitsForCompanyAndNoLonger(t *testing.T) {
	lingering(t, func(t *testing.T, b *fakeBroker, p *Producer) {
		for range 3 {
			before := len(b.counts("alerts", 0))
			mustAppend(t, p, 1)
			time.Sleep(6 * time.Millisecond)
			last := mustAppend(t, p, 2)
			time.Sleep(4*time.Millisecond - 1)
			synctest.Wait()
			if last.Done() || len(b.counts("alerts", 0)) != before {
				t.Fatal("the batch went before its time")
			}
			time.Sleep(1)
			synctest.Wait()
			if !last.Done() {
				t.Fatal("the batch did not go in time")
			}
		}
		wantCounts(t, b, 3, 3, 3)
	})
}

// The timer that was set for a batch which went early does not end the time of the next one.
func TestALingerIsThatOfItsOwnBatch(t *testing.T) {
	lingering(t, func(t *testing.T, b *fakeBroker, p *Producer) {
		mustAppend(t, p, 1)
		time.Sleep(4 * time.Millisecond)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		last := mustAppend(t, p, 2)
		for _, d := range []time.Duration{6 * time.Millisecond, 4*time.Millisecond - 1} {
			time.Sleep(d)
			synctest.Wait()
			if last.Done() {
				t.Fatal("the batch went before its time")
			}
		}
		time.Sleep(1)
		wantCounts(t, b, 1, 2)
	})
}

func TestWhatEndsALinger(t *testing.T) {
	never := func(t *testing.T, f func()) {
		t.Helper()
		start := time.Now()
		if f(); time.Since(start) != 0 {
			t.Fatalf("waited for %v", time.Since(start))
		}
	}
	for name, end := range map[string]func(t *testing.T, p *Producer){
		"flush": func(t *testing.T, p *Producer) {
			if err := p.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"close": func(t *testing.T, p *Producer) {
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"send": func(t *testing.T, p *Producer) {
			if _, err := p.Send(t.Context(), value("now")); err != nil {
				t.Fatal(err)
			}
		},
		"send batch": func(t *testing.T, p *Producer) {
			if _, err := p.SendBatch(t.Context(), []Record{value("now"), value("too")}); err != nil {
				t.Fatal(err)
			}
		},
		"a full batch": func(t *testing.T, p *Producer) {
			if _, err := mustAppend(t, p, 63).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			lingering(t, func(t *testing.T, b *fakeBroker, p *Producer) {
				first := mustAppend(t, p, 1)
				never(t, func() { end(t, p) })
				if !first.Done() {
					t.Fatal("the record before is still waiting")
				}
				if n := b.counts("alerts", 0); len(n) != 1 {
					t.Fatalf("batches of %v records", n)
				}
			})
		})
	}
}

// A Send behind an unanswered batch goes with the answer, whatever the linger says.
func TestALingerDoesNotHoldASendBehindABatchInFlight(t *testing.T) {
	lingering(t, func(t *testing.T, b *fakeBroker, p *Producer) {
		g := newGate()
		b.onRequest(g.hold)
		first := mustAppend(t, p, 1)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait() // it is in flight
		sent := make(chan error, 1)
		go func() {
			_, err := p.Send(context.Background(), value("now"))
			sent <- err
		}()
		synctest.Wait()
		start := time.Now()
		g.open()
		if err := <-sent; err != nil || time.Since(start) != 0 || !first.Done() {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		wantCounts(t, b, 1, 1)
	})
}

// The time counts from the batch's first record: what has waited for an answer for longer
// goes with it.
func TestALingerRunsWhileABatchIsInFlight(t *testing.T) {
	lingering(t, func(t *testing.T, b *fakeBroker, p *Producer) {
		g := newGate()
		b.onRequest(g.hold)
		mustAppend(t, p, 1)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		behind := mustAppend(t, p, 2)
		time.Sleep(time.Second)
		synctest.Wait()
		start := time.Now()
		g.open()
		if _, err := behind.Wait(t.Context()); err != nil || time.Since(start) != 0 {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		wantCounts(t, b, 1, 2)
	})
}

// Batches that wait for company must not keep others from memory.
func TestAnAppendThatWaitsForRoomEndsLingers(t *testing.T) {
	lingering(t, func(t *testing.T, b *fakeBroker, p *Producer) {
		mustAppend(t, p, 1)
		start := time.Now()
		if _, err := p.Append(t.Context(), Record{Value: make([]byte, 3000)}); err != nil || time.Since(start) != 0 {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
	}, WithBuffer(4<<10), WithIdempotence())
}

func TestLingerAllocatesNothing(t *testing.T) {
	appendAllocatesNothing(t, WithLinger(time.Minute))
	appendAllocatesNothing(t, WithLinger(time.Nanosecond))
}

func TestALingerKeepsTheOrder(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	p := openProducer(t, dialFake(t, b), "alerts", WithLinger(100*time.Microsecond), WithMaxInFlight(2))
	g := newGate()
	b.onRequest(g.hold)
	var want []string
	for i := range 500 {
		r := value("%d", i)
		want = append(want, string(r.Value))
		if _, err := p.Append(testContext(t), r); err != nil {
			t.Fatal(err)
		}
		if i == 250 {
			g.open()
		}
	}
	if err := p.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := b.values("alerts", 0); !slices.Equal(got, want) {
		t.Fatalf("%d records, out of order", len(got))
	}
}

// What waits in one bubble of testing/synctest leaves nothing to the next one.
func TestBubblesShareNoChannels(t *testing.T) {
	for range 3 {
		lingering(t, func(t *testing.T, b *fakeBroker, p *Producer) {
			if _, err := mustAppend(t, p, 1).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
