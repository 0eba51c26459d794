package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
)

// numbered makes values "from" to "to"-1.
func numbered(from, to int) []string {
	var vs []string
	for i := from; i < to; i++ {
		vs = append(vs, fmt.Sprintf("v%d", i))
	}
	return vs
}

func TestAConsumerBeginsWhereItIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		opt   ConsumerOption
		first int
	}{
		"start":          {From(Start()), 0},
		"default":        {func(*consumerConfig) {}, 0},
		"offset":         {From(Offset(3)), 3},
		"offset, packed": {From(Offset(7)), 7},
		"time":           {From(Time(time.UnixMilli(6_500))), 7},
		"end":            {From(End()), 10},
		"late time":      {From(Time(time.UnixMilli(1 << 40))), 10},
		"positions":      {FromPositions(Position{Topic: "alerts", Partition: 0, Offset: 4}), 4},
		"position end":   {FromPositions(Position{Topic: "alerts", Partition: 0, Offset: OffsetEnd}), 10},
		"partitions":     {Partitions("alerts", 0, 0), 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			b.addTopic("alerts", 1)
			b.put("alerts", 0, CompressNone, numbered(0, 5)...)
			b.put("alerts", 0, CompressLZ4, numbered(5, 10)...)
			co := openConsumer(t, dialFake(t, b), Topics("alerts"), test.opt)
			b.put("alerts", 0, CompressNone, "v10")
			if got := collect(t, co, 11-test.first); !slices.Equal(got, numbered(test.first, 11)) {
				t.Fatalf("got %q", got)
			}
			if err := co.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestBatchesTellTheirPlace(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 2)
	b.put("alerts", 1, CompressNone, numbered(0, 3)...)
	b.put("alerts", 1, CompressNone, numbered(3, 6)...)
	co := openConsumer(t, dialFake(t, b), Partitions("alerts", 1), From(Offset(1)))
	got, err := co.Poll(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if got.Topic != "alerts" || got.Partition != 1 || got.First != 1 || got.Last != 5 || got.HighWatermark != 6 || got.Len() != 5 {
		t.Fatalf("%+v", got)
	}
	var offsets []int64
	for r := range got.Records() {
		offsets = append(offsets, r.Offset)
		if want := time.UnixMilli(1_000 * r.Offset); !r.Time.Equal(want) && r.Offset < 3 {
			t.Errorf("record %d has time %v, want %v", r.Offset, r.Time, want)
		}
	}
	if !slices.Equal(offsets, []int64{1, 2, 3, 4, 5}) {
		t.Fatalf("offsets %v", offsets)
	}
	for range got.Records() {
		break // stopping early is allowed
	}
	got.Release()
	got.Release()
	for range got.Records() {
		t.Fatal("a released batch has records")
	}
}

func TestGapsArePassedOver(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, "a")
	b.mu.Lock()
	b.topics["alerts"].parts[0].end = 1000 // a crash has used offsets up
	b.mu.Unlock()
	c := dialFake(t, b)
	co := openConsumer(t, c, Topics("alerts"))
	if got := collect(t, co, 1); got[0] != "a" {
		t.Fatalf("%q", got)
	}
	eventually(t, "the gap is not counted as lag", func() bool {
		lags, err := co.Lag(testContext(t))
		return err == nil && lags[0] == Lag{Topic: "alerts", Position: 1000, End: 1000}
	})
	b.put("alerts", 0, CompressNone, "b")
	got, err := co.Poll(testContext(t))
	if err != nil || got.First != 1000 {
		t.Fatalf("%+v, %v", got, err)
	}
	lags, err := co.Lag(testContext(t))
	if err != nil || len(lags) != 1 || lags[0] != (Lag{Topic: "alerts", Position: 1001, End: 1001}) {
		t.Fatalf("%+v, %v", lags, err)
	}
}

func TestDamageOnTheWayIsReportedAndFetchedAgain(t *testing.T) {
	for name, damage := range map[string]func(raw []byte){
		"a flipped bit": func(raw []byte) { raw[len(raw)-1] ^= 1 },
		"a record that lies": func(raw []byte) {
			raw[batch.AtRecords] = 0x7e
			binary.BigEndian.PutUint32(raw[batch.AtCRC:], batch.Checksum(raw))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			b.addTopic("alerts", 1)
			b.put("alerts", 0, CompressNone, "a")
			b.put("alerts", 0, CompressNone, "b")
			b.put("alerts", 0, CompressNone, "c")
			raw := b.topics["alerts"].parts[0].batches[1]
			good := slices.Clone(raw)
			damage(raw)
			co := openConsumer(t, dialFake(t, b), Topics("alerts"))
			if got := collect(t, co, 1); !slices.Equal(got, []string{"a"}) {
				t.Fatalf("%q: what is good before the damage comes first", got)
			}
			_, err := co.Poll(testContext(t))
			var e *Error
			if !errors.As(err, &e) || e.Offset != 1 || e.Topic != "alerts" || e.Partition != 0 || !e.Retriable {
				t.Fatalf("%v", err)
			}
			if strings.Contains(name, "bit") {
				wantError(t, err, ErrCorrupt, "at offset 1")
			}
			b.mu.Lock()
			copy(raw, good)
			b.mu.Unlock()
			var got []string
			for len(got) < 2 {
				bt, err := co.Poll(testContext(t))
				if err != nil {
					continue // it may have fetched once more in between
				}
				got = appendValues(got, bt)
			}
			if !slices.Equal(got, []string{"b", "c"}) {
				t.Fatalf("%q", got)
			}
		})
	}
}

func TestADecompressionBombIsAnError(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressZstd, strings.Repeat("x", 4<<20))
	c := dialFake(t, b)
	_, err := openConsumer(t, c, Topics("alerts"), WithDecodeLimit(1<<20)).Poll(testContext(t))
	wantError(t, err, batch.ErrTooLarge, "alerts/0 at offset 0")
	if got := collect(t, openConsumer(t, c, Topics("alerts")), 1); len(got[0]) != 4<<20 {
		t.Fatalf("%d bytes", len(got[0]))
	}
}

func TestDecompressedBatchesAreHandedOutPieceByPiece(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprintf("%03d", i)+strings.Repeat("x", 100<<10))
		b.put("alerts", 0, CompressGzip, want[i])
	}
	co := openConsumer(t, dialFake(t, b), Topics("alerts"))
	var got []string
	polls := 0
	for ; len(got) < len(want); polls++ {
		bt, err := co.Poll(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if bt.Len() > 12 {
			t.Fatalf("%d records of 100 KiB in one piece", bt.Len())
		}
		got = appendValues(got, bt)
	}
	if !slices.Equal(got, want) || polls < 4 {
		t.Fatalf("%d records in %d polls", len(got), polls)
	}
}

func TestAnOffsetOutOfRangeStopsOrResets(t *testing.T) {
	for name, test := range map[string]struct {
		reset Reset
		want  []string
	}{
		"none":  {ResetNone, nil},
		"start": {ResetStart, []string{"v5", "v6"}},
		"end":   {ResetEnd, []string{"new"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			b.addTopic("alerts", 1)
			for i := range 7 {
				b.put("alerts", 0, CompressNone, fmt.Sprintf("v%d", i))
			}
			part := b.topics["alerts"].parts[0]
			part.start, part.batches = 5, part.batches[5:]
			co := openConsumer(t, dialFake(t, b), Topics("alerts"), From(Offset(2)), WithReset(test.reset))
			ctx := testContext(t)
			_, err := co.Poll(ctx)
			wantError(t, err, ErrOffsetOutOfRange, "offset 2", "5 to 7")
			var e *Error
			if !errors.As(err, &e) || e.ValidLow != 5 || e.ValidHigh != 7 {
				t.Fatalf("%+v", e)
			}
			if test.reset != ResetNone {
				b.put("alerts", 0, CompressNone, "new")
				if got := collect(t, co, len(test.want)); !slices.Equal(got[:len(test.want)], test.want) {
					t.Fatalf("%q", got)
				}
				return
			}
			if !strings.Contains(err.Error(), "stopped") {
				t.Fatalf("%v does not say that the partition has stopped", err)
			}
			if err := co.Seek(ctx, Position{Topic: "alerts", Partition: 0, Offset: OffsetStart}); err != nil {
				t.Fatal(err)
			}
			if got := collect(t, co, 2); !slices.Equal(got, []string{"v5", "v6"}) {
				t.Fatalf("%q", got)
			}
		})
	}
}

func TestStoredDamageIsReportedAndPassedOver(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, numbered(0, 3)...)
	b.onRequest(func(c *fakeConn, h wire.Header, body []byte) fault {
		if h.Op != wire.OpFetch {
			return pass
		}
		if r, err := wire.DecodeFetchRequest(body); err != nil || r.Offset != 0 {
			return pass
		}
		c.send(wire.AppendFetchResponse(nil, h.Correlation, &wire.FetchResponse{
			Code: wire.CodeCorrupt, Class: wire.ClassFlushed, Durable: 3, End: 3, NewestAppendTime: -1, NextOffset: 2,
		}))
		return swallow
	})
	co := openConsumer(t, dialFake(t, b), Topics("alerts"))
	_, err := co.Poll(testContext(t))
	wantError(t, err, ErrCorrupt, "at offset 0", "the records before offset 2 are lost")
	if e := (*Error)(nil); !errors.As(err, &e) || e.ValidLow != 2 || e.ValidHigh != 0 {
		t.Errorf("%#v, expected 2 as the next offset", err)
	}
	if got := collect(t, co, 1); !slices.Equal(got, []string{"v2"}) {
		t.Fatalf("%q", got)
	}
}

// What was fetched before an error comes before it, however late it is polled. An error of a
// place ahead came first: whoever ended there lost good records that lie before it.
func TestErrorsComeWhereTheyBelong(t *testing.T) {
	for name, test := range map[string]struct {
		answer wire.FetchResponse
		want   error
		rest   []string
	}{
		"damage":       {wire.FetchResponse{Code: wire.CodeCorrupt, LogStart: 0, Durable: 6, End: 6, NextOffset: 5}, ErrCorrupt, []string{"v5"}},
		"out of range": {wire.FetchResponse{Code: wire.CodeOffsetOutOfRange, LogStart: 5, Durable: 6, End: 6, NextOffset: 5}, ErrOffsetOutOfRange, []string{"v5"}},
		"deleted":      {wire.FetchResponse{Code: wire.CodeUnknownTopic, LogStart: -1, Durable: -1, End: -1, NextOffset: -1}, ErrUnknownTopic, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			b.addTopic("alerts", 1)
			for _, ends := range [][2]int{{0, 2}, {2, 3}, {3, 5}, {5, 6}} {
				b.put("alerts", 0, CompressNone, numbered(ends[0], ends[1])...)
			}
			b.onRequest(func(c *fakeConn, h wire.Header, body []byte) fault {
				if r, err := wire.DecodeFetchRequest(body); h.Op != wire.OpFetch || err != nil || r.Offset != 3 {
					return pass
				}
				answer := test.answer
				answer.Class, answer.NewestAppendTime = wire.ClassFlushed, -1
				c.send(wire.AppendFetchResponse(nil, h.Correlation, &answer))
				return swallow
			})
			co := openConsumer(t, dialFake(t, b), Topics("alerts"), WithFetchRecords(1), WithCatchUp(1, 1), WithReset(ResetStart))
			is := func(what string, f func() bool) {
				t.Helper()
				eventually(t, what, func() bool {
					co.mu.Lock()
					defer co.mu.Unlock()
					return f()
				})
			}
			f := co.feeds[0]
			is("two answers wait", func() bool { return len(f.answers) == 2 })
			take(t, co, 2).Release()
			is("the refusal is there", func() bool {
				return len(co.errs) > 0 || slices.ContainsFunc(f.answers, func(a *answer) bool { return len(a.then) > 0 })
			})
			bt := take(t, co, 1)
			if bt.First != 2 {
				t.Fatalf("a batch from %d, expected one from 2", bt.First)
			}
			bt.Release()
			if _, err := co.Poll(testContext(t)); !errors.Is(err, test.want) {
				t.Fatalf("behind offset 2: %v, expected %v", err, test.want)
			}
			if got := collect(t, co, len(test.rest)); !slices.Equal(got, test.rest) {
				t.Fatalf("%q, expected %q", got, test.rest)
			}
		})
	}
}

func TestRetriableCodesAreReportedOnceAndTriedAgain(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, "a")
	refusals := 5
	b.onRequest(func(c *fakeConn, h wire.Header, _ []byte) fault {
		if h.Op != wire.OpFetch || refusals == 0 {
			return pass
		}
		refusals--
		c.send(wire.AppendFetchResponse(nil, h.Correlation, &wire.FetchResponse{Code: wire.CodeNotReady, LogStart: -1, Durable: -1, End: -1, NextOffset: -1}))
		return swallow
	})
	co := openConsumer(t, dialFake(t, b), Topics("alerts"))
	_, err := co.Poll(testContext(t))
	var e *Error
	if !errors.As(err, &e) || e.Code != wire.CodeNotReady || !e.Retriable {
		t.Fatalf("%v", err)
	}
	if got := collect(t, co, 1); got[0] != "a" { // fails on a second error
		t.Fatalf("%q", got)
	}
}

func TestADeletedTopicStopsItsPartitions(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.addTopic("other", 1)
	c := dialFake(t, b)
	co := openConsumer(t, c, Topics("alerts", "other"))
	ctx := testContext(t)
	if err := c.Admin().DeleteTopic(ctx, "alerts"); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.wakeAll()
	b.mu.Unlock()
	_, err := co.Poll(ctx)
	wantError(t, err, ErrUnknownTopic, "alerts/0", "stopped")
	b.put("other", 0, CompressNone, "x")
	if got := collect(t, co, 1); got[0] != "x" {
		t.Fatalf("%q", got)
	}
}

func TestPauseAndResume(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 2)
	co := openConsumer(t, dialFake(t, b), Topics("alerts"))
	co.Pause(Position{Topic: "alerts", Partition: 0})
	b.put("alerts", 0, CompressNone, "paused")
	b.put("alerts", 1, CompressNone, "a")
	b.put("alerts", 1, CompressNone, "b")
	if got := collect(t, co, 2); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("%q", got)
	}
	b.put("alerts", 1, CompressNone, "c")
	eventually(t, "it has come", func() bool {
		co.mu.Lock()
		defer co.mu.Unlock()
		return co.index[partitionKey{"alerts", 1}].listed
	})
	co.Pause()
	if bt, err := co.next(); bt != nil || err != nil {
		t.Fatalf("a paused consumer has %v, %v", bt, err)
	}
	co.Resume(Position{Topic: "alerts", Partition: 1}, Position{Topic: "unknown"})
	if got := collect(t, co, 1); got[0] != "c" {
		t.Fatalf("%q", got)
	}
	co.Resume()
	if got := collect(t, co, 1); got[0] != "paused" {
		t.Fatalf("%q", got)
	}
}

func TestSeekGoesToAnyPlaceAndDropsWhatWasFetched(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	for i := range 10 {
		b.put("alerts", 0, CompressNone, fmt.Sprintf("v%d", i))
	}
	co := openConsumer(t, dialFake(t, b), Topics("alerts"))
	ctx := testContext(t)
	for _, to := range []int64{7, 0, 9, 3, 10, OffsetStart, 5} {
		if err := co.Seek(ctx, Position{Topic: "alerts", Partition: 0, Offset: to}); err != nil {
			t.Fatal(err)
		}
		first := int(max(to, 0))
		if got := collect(t, co, 10-first); !slices.Equal(got, numbered(first, 10)) {
			t.Fatalf("from %d: %q", to, got)
		}
	}
	if err := co.Seek(ctx, Position{Topic: "alerts", Partition: 0, Offset: OffsetEnd}); err != nil {
		t.Fatal(err)
	}
	b.put("alerts", 0, CompressNone, "new")
	if got := collect(t, co, 1); got[0] != "new" {
		t.Fatalf("%q", got)
	}
	wantError(t, co.Seek(ctx, Position{Topic: "alerts", Partition: 1, Offset: 0}), ErrUnknownPartition)
	wantError(t, co.Seek(ctx, Position{Topic: "alerts", Partition: 0, Offset: -3}), ErrInvalid)
}

func TestALongPollFromBeforeASeekIsNobodys(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, "a")
	polls := make(chan struct{}, 100)
	b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
		if h.Op == wire.OpFetch {
			polls <- struct{}{}
		}
		return pass
	})
	co := openConsumer(t, dialFake(t, b), Topics("alerts"), From(End()))
	ctx := testContext(t)
	for range 5 { // leaves a long poll at offset 1 behind each time
		<-polls
		if err := co.Seek(ctx, Position{Topic: "alerts", Partition: 0, Offset: 1}); err != nil {
			t.Fatal(err)
		}
	}
	<-polls
	b.put("alerts", 0, CompressNone, "b")
	b.put("alerts", 0, CompressNone, "c")
	if got := collect(t, co, 2); !slices.Equal(got, []string{"b", "c"}) {
		t.Fatalf("%q", got)
	}
	b.put("alerts", 0, CompressNone, "d")
	if got := collect(t, co, 1); !slices.Equal(got, []string{"d"}) {
		t.Fatalf("%q", got)
	}
}

func TestABatchKeepsItsMemoryUntilItsRelease(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	co := openConsumer(t, c, Topics("alerts"))
	var held []*Batch
	for i := range 50 {
		b.put("alerts", 0, []Codec{CompressNone, CompressZstd}[i%2], strings.Repeat(string(rune('a'+i%26)), 1000))
		bt, err := co.Poll(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, bt)
	}
	if err := co.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, bt := range held {
		want := strings.Repeat(string(rune('a'+i%26)), 1000)
		if got := appendValues(nil, bt); !slices.Equal(got, []string{want}) {
			t.Fatalf("batch %d has changed: %.20q", i, got)
		}
	}
	if s := c.Stats(); s.FetchBufferReuses > s.FetchBufferMakes {
		t.Fatalf("buffers were used again while they were held: %+v", s)
	}
}

// Seeks and polls at the same time: no answer's memory is given back twice or
// while it is read, so every record is what its offset says.
func TestSeekAndPollTogether(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 2)
	for part := range 2 {
		for i := range 60 {
			codec := []Codec{CompressNone, CompressLZ4}[i%2]
			b.put("alerts", part, codec, fmt.Sprintf("%d/%d %s", part, i, strings.Repeat("x", 50*i)))
		}
	}
	co := openConsumer(t, dialFake(t, b), Topics("alerts"), WithFetchBytes(1, 4000))
	ctx, cancel := context.WithCancel(testContext(t))
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for bt, err := range co.Batches(ctx) {
				if err != nil {
					t.Error(err)
					return
				}
				for r := range bt.Records() {
					if want := fmt.Sprintf("%d/%d ", bt.Partition, r.Offset); !strings.HasPrefix(string(r.Value), want) {
						t.Errorf("%s%d: %.10q", want, r.Offset, r.Value)
					}
				}
				bt.Release()
			}
		})
	}
	for i := range 500 {
		if err := co.Seek(ctx, Position{Topic: "alerts", Partition: int32(i % 2), Offset: int64(i*7) % 60}); err != nil {
			t.Error(err)
		}
	}
	cancel()
	wg.Wait()
}

func TestALostConnectionIsReportedOnceAndNothingIsLostOrRepeated(t *testing.T) {
	for _, tcp := range []bool{false, true} {
		t.Run(fmt.Sprintf("tcp=%v", tcp), func(t *testing.T) {
			b := newFakeBroker(t)
			if tcp {
				b.listen()
			}
			b.addTopic("alerts", 4)
			co := openConsumer(t, dialFake(t, b), Topics("alerts"), WithFetchBytes(1, 200))
			ctx := testContext(t)
			next := make([]int, 4)
			for round := range 5 {
				for p := range 4 {
					for i := range 20 {
						b.put("alerts", p, CompressNone, fmt.Sprintf("%d", round*20+i))
					}
				}
				outages := 0
				for got := 0; got < 80; {
					bt, err := co.Poll(ctx)
					if err != nil {
						wantError(t, err, ErrDisconnected)
						outages++
						continue
					}
					if got == 0 && round > 0 {
						b.hangUp()
					}
					for r := range bt.Records() {
						if want := fmt.Sprint(next[bt.Partition]); string(r.Value) != want {
							t.Fatalf("partition %d: %q, want %q", bt.Partition, r.Value, want)
						}
						next[bt.Partition]++
						got++
					}
					bt.Release()
				}
				if outages > 2 { // one may be left from the round before
					t.Fatalf("round %d: one outage reported %d times", round, outages)
				}
			}
		})
	}
}

func TestAnAnswerLargerThanTheReadBuffer(t *testing.T) {
	b := newFakeBroker(t)
	b.listen()
	b.addTopic("alerts", 1)
	var want []string
	for i := range 12 {
		want = append(want, fmt.Sprintf("%02d", i)+strings.Repeat("x", 300<<10))
		b.put("alerts", 0, CompressNone, want[i])
	}
	c := dialFake(t, b)
	for range 3 {
		co := openConsumer(t, c, Topics("alerts"), WithFetchBytes(1, 3<<20))
		if got := collect(t, co, len(want)); !slices.Equal(got, want) {
			t.Fatalf("%d records", len(got))
		}
		if err := co.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestIterationAllocatesNothing(t *testing.T) {
	t.Run("plain", func(t *testing.T) { iterationAllocatesNothing(t) })
	t.Run("filtered", func(t *testing.T) {
		iterationAllocatesNothing(t, WithFilter(func(r RecordView) bool { return len(r.Value) > 0 }))
	})
}

func iterationAllocatesNothing(t *testing.T, opts ...ConsumerOption) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, numbered(0, 100)...)
	b.put("alerts", 0, CompressLZ4, numbered(100, 500)...)
	co := openConsumer(t, dialFake(t, b), append(opts, Topics("alerts"))...)
	bt, err := co.Poll(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer bt.Release()
	// Many runs: what the consumer allocates beside it, on goroutines of its own, is
	// counted too, and must be less than one for each.
	const runs = 1000
	var bytes, records int
	n := testing.AllocsPerRun(runs, func() {
		for r := range bt.Records() {
			bytes += len(r.Value)
			if _, ok := r.Header("none"); !ok {
				records++
			}
		}
	})
	if n != 0 || records != (runs+1)*bt.Len() || bt.Len() != 500 {
		t.Fatalf("%v allocations, %d records of %d", n, records, bt.Len())
	}
}

func TestReleasedMemoryIsUsedAgain(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	co := openConsumer(t, c, Topics("alerts"))
	for i := range 100 {
		b.put("alerts", 0, CompressNone, fmt.Sprintf("v%d", i))
		collect(t, co, 1)
	}
	if s := c.Stats(); s.FetchBufferReuses < 50 || s.FetchedRecords != 100 {
		t.Fatalf("%+v", s)
	}
}

// The context ends while there is always another batch, as it does for a service that is
// told to stop when it is behind.
func TestBatchesEndsWithItsContextHoweverMuchThereIs(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, "a", "b")
	b.put("alerts", 0, CompressNone, "c")
	co := openConsumer(t, dialFake(t, b), Topics("alerts"), WithFetchRecords(1), WithCatchUp(1, 1))
	eventually(t, "two batches wait", func() bool {
		co.mu.Lock()
		defer co.mu.Unlock()
		return len(co.feeds[0].answers) == 2
	})
	ctx, cancel := context.WithCancelCause(testContext(t))
	defer cancel(nil)
	n := 0
	for bt, err := range co.Batches(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		bt.Release()
		n++
		cancel(errReset)
	}
	if n != 1 {
		t.Errorf("%d batches", n)
	}
	if _, err := co.Poll(ctx); !errors.Is(err, errReset) {
		t.Errorf("a poll whose context has ended: %v", err)
	}
	if bt := take(t, co, 1); bt.First != 2 {
		t.Errorf("the next batch begins at %d", bt.First)
	}
}

func TestBatchesEndsWithItsContextAndTheConsumer(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, "a")
	co := openConsumer(t, dialFake(t, b), Topics("alerts"))
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var got []string
	for bt, err := range co.Batches(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got = appendValues(got, bt)
		cancel()
	}
	if !slices.Equal(got, []string{"a"}) {
		t.Fatalf("%q", got)
	}
	var last error
	go func() {
		b.put("alerts", 0, CompressNone, "b")
	}()
	for bt, err := range co.Batches(testContext(t)) {
		if last = err; err == nil {
			got = appendValues(got, bt)
			_ = co.Close(t.Context())
		}
	}
	wantError(t, last, ErrClosed)
	for range co.Batches(testContext(t)) {
		break
	}
}

func TestManyGoroutinesShareAConsumer(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 8)
	co := openConsumer(t, dialFake(t, b), Topics("alerts"), WithFetchBytes(1, 300))
	for p := range 8 {
		for i := range 50 {
			b.put("alerts", p, CompressNone, fmt.Sprintf("%d/%d", p, i))
		}
	}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for bt, err := range co.Batches(ctx) {
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for r := range bt.Records() {
					seen[string(r.Value)]++
				}
				if len(seen) == 400 {
					cancel()
				}
				mu.Unlock()
				bt.Release()
			}
		})
	}
	wg.Wait()
	for v, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", v, n)
		}
	}
	if len(seen) != 400 {
		t.Fatalf("%d records", len(seen))
	}
}

func TestConsumersThatCannotWorkAreRefused(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	for name, opts := range map[string][]ConsumerOption{
		"nothing":       nil,
		"offset":        {Topics("alerts"), From(Offset(-7))},
		"position":      {FromPositions(Position{Topic: "alerts", Partition: 0, Offset: -9})},
		"bytes":         {Topics("alerts"), WithFetchBytes(2, 1)},
		"most bytes":    {Topics("alerts"), WithFetchBytes(0, 1<<30)},
		"records":       {Topics("alerts"), WithFetchRecords(-1)},
		"wait":          {Topics("alerts"), WithFetchWait(0)},
		"prefetch":      {Topics("alerts"), WithPrefetch(0)},
		"decode limit":  {Topics("alerts"), WithDecodeLimit(0)},
		"no topic name": {Topics("")},
	} {
		if _, err := c.Consumer(opts...); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := c.Consumer(Topics("unknown"))
	wantError(t, err, ErrUnknownTopic)
	_, err = c.Consumer(Partitions("alerts", 1))
	wantError(t, err, ErrUnknownPartition)
}

// A look at topics while a consumer is at work: the consumer asks for links with its lock
// held, so nobody may wait for that lock while holding the client's.
func TestALookAtTopicsDoesNotWaitForAConsumerWithTheClientHeld(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	co := openConsumer(t, c, Topics("alerts"))
	ctx := testContext(t)
	looked := make(chan struct{})
	co.mu.Lock()
	go func() {
		defer close(looked)
		c.refreshTopics(ctx)
	}()
	for range 50 {
		time.Sleep(time.Millisecond) // the look gets to the consumer
		linked := make(chan struct{})
		go func() {
			defer close(linked)
			c.linkTo(0)
		}()
		select {
		case <-linked:
		case <-ctx.Done():
			co.mu.Unlock()
			t.Fatal("the client is held by a look that waits for a consumer")
		}
	}
	co.mu.Unlock()
	<-looked
}

// Whoever has polled records finds their answer in the figures: it is counted before it
// can be polled, for which the consumer's lock is needed.
func TestAnAnswerIsCountedBeforeItCanBePolled(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, "a", "b")
	ready, held := make(chan *Consumer, 1), make(chan struct{})
	var once sync.Once
	b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
		if h.Op == wire.OpFetch {
			once.Do(func() {
				(<-ready).mu.Lock()
				close(held)
			})
		}
		return pass
	})
	c := dialFake(t, b)
	co := openConsumer(t, c, Topics("alerts"))
	ready <- co
	<-held
	unlock := sync.OnceFunc(co.mu.Unlock)
	defer unlock()
	eventually(t, "the answer counted", func() bool { st := c.Stats(); return st.FetchAnswers == 1 && st.FetchedBytes > 0 })
	unlock()
	if got := collect(t, co, 2); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("read %q", got)
	}
}
