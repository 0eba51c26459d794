package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// claim claims room for a value and writes it.
func claim(t testing.TB, p *Producer, key []byte, v string) Claim {
	t.Helper()
	c, err := p.Claim(testContext(t), key, len(v))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Trim(c.Buf, "\x00") != nil || cap(c.Buf) != len(v) {
		t.Fatalf("room for %d begins as %x", cap(c.Buf), c.Buf)
	}
	copy(c.Buf, v)
	return c
}

// held is a producer whose batches get no answer before the gate opens, and one of which is
// in flight.
func held(t *testing.T, opts ...ProducerOption) (b *fakeBroker, p *Producer, g *gate) {
	t.Helper()
	b = newFakeBroker(t)
	b.addTopic("alerts", 1)
	g = newGate()
	b.onRequest(g.hold)
	t.Cleanup(g.open)
	p = openProducer(t, dialFake(t, b), "alerts", opts...)
	mustAppend(t, p, 1)
	<-g.arrived
	return b, p, g
}

func wantValues(t *testing.T, b *fakeBroker, want ...string) {
	t.Helper()
	if got := b.values("alerts", 0); !slices.Equal(got, want) {
		t.Fatalf("%q, expected %q", got, want)
	}
}

func mustFlush(t *testing.T, p *Producer) {
	t.Helper()
	if err := p.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

// wantNothingHeld waits for the end of writes, which may come after the answers.
func wantNothingHeld(t *testing.T, p *Producer) {
	t.Helper()
	eventually(t, "all memory has come back", func() bool { return p.c.Stats().BatchBufferNow == 0 })
}

func TestAClaimIsARecordFromItsCommitOn(t *testing.T) {
	for name, opts := range map[string][]ProducerOption{
		"plain": nil, "idempotent": {WithIdempotence()}, "compressed": {WithCompression(CompressZstd)},
		"lingering": {WithLinger(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			b.addTopic("alerts", 1)
			p := openProducer(t, dialFake(t, b), "alerts", opts...)
			long := strings.Repeat("long ", 20_000)
			var tickets []Ticket
			for _, v := range []string{"a", "", long, "b"} {
				c := claim(t, p, []byte("key of "+v[:min(1, len(v))]), v)
				tickets = append(tickets, c.Commit())
			}
			aborted := claim(t, p, nil, "never")
			aborted.Abort()
			mustFlush(t, p)
			wantValues(t, b, "a", "", long, "b")
			for i, ticket := range tickets {
				if at, err := ticket.Wait(testContext(t)); err != nil || at.Offset != int64(i) {
					t.Errorf("record %d: %+v, %v", i, at, err)
				}
			}
			co := openConsumer(t, p.c, Topics("alerts"))
			got, err := co.Poll(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			for r := range got.Records() {
				if r.Offset == 3 && (string(r.Key) != "key of b" || time.Since(r.Time) > time.Hour) {
					t.Errorf("%s at %v", r.Key, r.Time)
				}
			}
		})
	}
}

// What the owner of a claim writes is what is sent: a change behind the Commit, which nobody
// may make, shows it.
func TestCommitCopiesNothingWhileTheBatchIsOpen(t *testing.T) {
	b, p, g := held(t)
	first := claim(t, p, nil, "first")
	buf := first.Buf
	first.Commit()
	second := claim(t, p, nil, "second")
	second.Commit()
	copy(buf, "FIRST")
	g.open()
	mustFlush(t, p)
	wantValues(t, b, "0", "FIRST", "second")
	if n := b.counts("alerts", 0); !slices.Equal(n, []int{1, 2}) {
		t.Fatalf("batches of %v records", n)
	}
}

// A batch goes without its open claim, whose record comes with a later one.
func TestAnOpenClaimHoldsNothingUp(t *testing.T) {
	for name, pass := range map[string]func(t *testing.T, p *Producer, g *gate){
		"an answer": func(t *testing.T, p *Producer, g *gate) {
			g.open()
			eventually(t, "the batch has gone", func() bool { return p.c.Stats().RecordsAcked == 2 })
		},
		"a flush": func(t *testing.T, p *Producer, g *gate) {
			g.open()
			mustFlush(t, p)
		},
		"a record": func(t *testing.T, p *Producer, g *gate) {
			mustAppend(t, p, 1)
			g.open()
			mustFlush(t, p)
		},
		"a claim": func(t *testing.T, p *Producer, g *gate) {
			other := claim(t, p, []byte("k"), "0")
			other.Commit()
			g.open()
			mustFlush(t, p)
		},
	} {
		for option, opts := range map[string][]ProducerOption{
			"plain": nil, "idempotent": {WithIdempotence()}, "compressed": {WithCompression(CompressGzip)},
		} {
			t.Run(name+" "+option, func(t *testing.T) {
				b, p, g := held(t, opts...)
				before := claim(t, p, nil, strings.Repeat("before ", 50))
				before.Commit()
				open := claim(t, p, []byte("key"), strings.Repeat("x", 300))
				pass(t, p, g)
				went := b.values("alerts", 0)
				copy(open.Buf, strings.Repeat("open ", 60))
				ticket := open.Commit()
				at, err := ticket.Wait(testContext(t))
				if err != nil || at.Offset != int64(len(went)) {
					t.Fatalf("%+v, %v, behind %d", at, err, len(went))
				}
				wantValues(t, b, append(went, strings.Repeat("open ", 60))...)
				wantNothingHeld(t, p)
			})
		}
	}
}

// A claim alone in its batch, which nothing has to do with.
func TestAClaimWithoutABatchIsNobodysConcern(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	p := openProducer(t, dialFake(t, b), "alerts")
	open := claim(t, p, nil, "open")
	mustFlush(t, p)
	if _, err := p.Send(testContext(t), value("sent")); err != nil {
		t.Fatal(err)
	}
	open.Commit()
	mustFlush(t, p)
	wantValues(t, b, "sent", "open")
	wantNothingHeld(t, p)
}

// An answer, or the end of a linger, finds a batch in which there is nothing but a claim.
func TestABatchOfAnOpenClaimAloneDoesNotGo(t *testing.T) {
	b, p, g := held(t)
	open := claim(t, p, nil, "open")
	g.open()
	eventually(t, "the batch before is answered", func() bool { return p.c.Stats().RecordsAcked == 1 })
	open.Commit()
	mustFlush(t, p)
	wantValues(t, b, "0", "open")
	wantNothingHeld(t, p)
	lingering(t, func(t *testing.T, b *fakeBroker, p *Producer) {
		open := claim(t, p, nil, "open")
		time.Sleep(time.Second)
		synctest.Wait()
		start := time.Now()
		ticket := open.Commit() // its batch has waited for long enough
		if _, err := ticket.Wait(t.Context()); err != nil || time.Since(start) != 0 {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		wantValues(t, b, "open")
	})
}

func TestAClaimAfterItsEndIsNothing(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	p := openProducer(t, dialFake(t, b), "alerts", WithLinger(time.Minute))
	c := claim(t, p, nil, "one")
	twin := c
	c.Commit()
	for name, ticket := range map[string]Ticket{"again": c.Commit(), "a copy": twin.Commit(), "none": new(Claim).Commit()} {
		if _, err := ticket.Wait(testContext(t)); !errors.Is(err, ErrInvalid) || !ticket.Done() {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Abort()
	another := claim(t, p, nil, "two") // of the same batch
	twin.Abort()
	another.Commit()
	aborted := claim(t, p, nil, "never")
	twin = aborted
	aborted.Abort()
	twin.Commit()
	aborted.Commit()
	mustFlush(t, p)
	wantValues(t, b, "one", "two")
}

func TestAForgottenClaimHangsNobodyAndKeepsItsMemory(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts")
	claim(t, p, nil, strings.Repeat("forgotten", 1000))
	if _, err := p.Send(testContext(t), value("sent")); err != nil {
		t.Fatal(err)
	}
	mustFlush(t, p)
	if n := c.Stats().BatchBufferNow; n < 9000 {
		t.Fatalf("%d bytes are in use", n)
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	wantValues(t, b, "sent")
}

func TestAClaimOfAClosedProducer(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	p := openProducer(t, dialFake(t, b), "alerts")
	open := claim(t, p, nil, "late")
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	ticket := open.Commit()
	_, err := ticket.Wait(testContext(t))
	wantError(t, err, ErrClosed, "produce alerts/0")
	if errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal("nobody has sent it")
	}
	_, err = p.Claim(testContext(t), nil, 1)
	wantError(t, err, ErrClosed)
	wantNothingHeld(t, p)
}

func TestClaimsHaveTheBoundsOfRecords(t *testing.T) {
	b := newFakeBroker(t)
	b.maxBatch = 64 << 10
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts", WithBuffer(16<<10))
	for _, n := range []int{64 << 10, 16 << 10, 1 << 40} {
		_, err := p.Claim(testContext(t), nil, n)
		wantError(t, err, ErrTooLarge, "append alerts/0")
	}
	_, err := p.Claim(testContext(t), nil, -1)
	wantError(t, err, ErrInvalid)
	// Without room it waits, for what is in flight or for other claims.
	full := claim(t, p, nil, strings.Repeat("x", 10<<10))
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no patience"))
	_, err = p.Claim(ended, nil, 1)
	if err == nil || !strings.Contains(err.Error(), "no patience") {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		one, err := p.Claim(testContext(t), nil, 1)
		one.Commit()
		got <- err
	}()
	eventually(t, "the second claim waits", p.shared.Space.Waiting)
	full.Abort()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	mustFlush(t, p)
	wantValues(t, b, "\x00")
}

func TestClaimsAllocateNothing(t *testing.T) {
	for name, opts := range map[string][]ProducerOption{"plain": nil, "idempotent": {WithIdempotence()}} {
		b := newFakeBroker(t)
		b.listen()
		b.addTopic("alerts", 1)
		p := openProducer(t, dialFake(t, b, withoutReturn), "alerts", opts...)
		ctx, key := testContext(t), []byte("key")
		b.setDown(true) // the broker of these tests allocates, and would be counted
		for _, commit := range []bool{true, false} {
			if n := testing.AllocsPerRun(2000, func() {
				c, err := p.Claim(ctx, key, 180)
				if err != nil {
					t.Fatal(err)
				}
				if c.Buf[0] = 'v'; commit {
					c.Commit()
				} else {
					c.Abort()
				}
			}); n != 0 {
				t.Errorf("%s, commit %v: %v allocations", name, commit, n)
			}
		}
	}
}

// Whoever claims, appends and flushes meanwhile, every record is there once, whole, and those
// of one goroutine are in order.
func TestClaimsOfManyGoroutines(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	p := openProducer(t, dialFake(t, b), "alerts", WithBatchMessages(8), WithCompression(CompressLZ4))
	ctx := testContext(t)
	want := map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := range 200 {
				v := fmt.Sprintf("%d %03d %s", g, i, strings.Repeat(string(rune('a'+g)), i))
				if i%7 == 6 {
					if err := p.Flush(ctx); err != nil {
						t.Error(err)
					}
				}
				switch c, err := p.Claim(ctx, nil, len(v)); {
				case err != nil:
					t.Error(err)
				case i%5 == 4:
					copy(c.Buf, "aborted")
					c.Abort()
					if _, err = p.Append(ctx, Record{Value: []byte(v)}); err != nil {
						t.Error(err)
					}
				default:
					copy(c.Buf, v)
					c.Commit()
				}
				mu.Lock()
				want[v] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	mustFlush(t, p)
	got := b.values("alerts", 0)
	last := map[byte]string{}
	for _, v := range got {
		if v <= last[v[0]] {
			t.Fatalf("%q follows %q", v, last[v[0]])
		}
		last[v[0]] = v
		delete(want, v)
	}
	if len(got) != 1200 || len(want) > 0 {
		t.Fatalf("%d records; missing %q", len(got), slices.Collect(maps.Keys(want)))
	}
	wantNothingHeld(t, p)
}
