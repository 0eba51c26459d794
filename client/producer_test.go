package client

import (
	"bytes"
	"context"
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

func TestSendReturnsThePositionOfEveryRecord(t *testing.T) {
	for _, tcp := range []bool{false, true} {
		t.Run(fmt.Sprintf("tcp=%v", tcp), func(t *testing.T) {
			b := newFakeBroker(t)
			if tcp {
				b.listen()
			}
			b.addTopic("alerts", 1)
			p := openProducer(t, dialFake(t, b), "alerts")
			ctx := testContext(t)
			var want []string
			for i := range 100 {
				pos, err := p.Send(ctx, value("v%d", i))
				if err != nil {
					t.Fatal(err)
				}
				if pos != (Position{Topic: "alerts", Partition: 0, Offset: int64(i)}) {
					t.Fatalf("record %d is at %+v", i, pos)
				}
				want = append(want, fmt.Sprintf("v%d", i))
			}
			if got := b.values("alerts", 0); !slices.Equal(got, want) {
				t.Fatalf("stored %q", got)
			}
			if n := b.counts("alerts", 0); len(n) != 100 {
				t.Fatalf("%d batches for 100 records sent one by one", len(n))
			}
		})
	}
}

func TestRecordsKeepKeyHeadersTimeAndTheDifferenceBetweenNilAndEmpty(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts")
	ctx := testContext(t)
	at := time.UnixMilli(1_600_000_000_123)
	records := []Record{
		{Key: []byte("k"), Value: []byte("v"), Time: at, Headers: []Header{{Key: "a", Value: []byte("1")}, {Key: "b"}, {Key: "a", Value: []byte("2")}}},
		{Key: []byte{}, Value: []byte{}, Time: at},
		{Time: at},
	}
	if _, err := p.SendBatch(ctx, records); err != nil {
		t.Fatal(err)
	}
	co := openConsumer(t, c, Topics("alerts"))
	got, err := co.Poll(ctx)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for v := range got.Records() {
		r := v.Clone()
		want := records[i]
		if !bytes.Equal(r.Key, want.Key) || (r.Key == nil) != (want.Key == nil) ||
			!bytes.Equal(r.Value, want.Value) || (r.Value == nil) != (want.Value == nil) ||
			!r.Time.Equal(at) || len(r.Headers) != len(want.Headers) || v.HeaderCount() != len(want.Headers) {
			t.Errorf("record %d: %+v, want %+v", i, r, want)
		}
		if i == 0 {
			a, ok := v.Header("a")
			b, okB := v.Header("b")
			_, okC := v.Header("c")
			if string(a) != "1" || !ok || b != nil || !okB || okC {
				t.Errorf("headers: a %q %v, b %v %v, c %v", a, ok, b, okB, okC)
			}
		}
		i++
	}
	if i != 3 || got.Len() != 3 {
		t.Fatalf("%d records, Len %d", i, got.Len())
	}
}

func TestABatchGoesAtOnceAndTheNextFillsBehindIt(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	g := newGate()
	b.onRequest(g.hold)
	defer g.open()
	p := openProducer(t, dialFake(t, b), "alerts", WithMaxInFlight(3))
	ctx := testContext(t)
	for i := range 1 + 64 + 64 + 10 {
		if _, err := p.Append(ctx, value("%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	g.open()
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if n := b.counts("alerts", 0); !slices.Equal(n, []int{1, 64, 64, 10}) {
		t.Fatalf("batches of %v records", n)
	}
}

func TestABatchGoesWhenItHasItsBytes(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	g := newGate()
	b.onRequest(g.hold)
	defer g.open()
	p := openProducer(t, dialFake(t, b), "alerts")
	ctx := testContext(t)
	for range 21 {
		if _, err := p.Append(ctx, value("%s", strings.Repeat("x", 500))); err != nil {
			t.Fatal(err)
		}
	}
	g.open()
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	// 8 records of 500 bytes and their framing are above 4 KiB, 7 are not.
	if n := b.counts("alerts", 0); !slices.Equal(n, []int{1, 8, 8, 4}) {
		t.Fatalf("batches of %v records", n)
	}
}

func TestUnderPressureBatchesGrowToTheirMaximum(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	g := newGate()
	b.onRequest(g.hold)
	defer g.open()
	p := openProducer(t, dialFake(t, b), "alerts", WithMaxInFlight(1))
	ctx := testContext(t)
	const n = 2000
	for i := range n {
		if _, err := p.Append(ctx, value("%0100d", i)); err != nil {
			t.Fatal(err)
		}
	}
	g.open()
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	counts := b.counts("alerts", 0)
	if len(counts) != 5 || counts[0] != 1 || counts[1] < 500 {
		t.Fatalf("batches of %v records", counts)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, raw := range b.topics["alerts"].parts[0].batches {
		if len(raw) > 64<<10 {
			t.Errorf("a batch of %d bytes", len(raw))
		}
	}
}

func TestAppendsOfOneGoroutineKeepTheirOrderThroughThePipeline(t *testing.T) {
	b := newFakeBroker(t)
	b.listen()
	b.addTopic("alerts", 3)
	p := openProducer(t, dialFake(t, b), "alerts", WithBatchMessages(4))
	ctx := testContext(t)
	const writers, each = 4, 500
	var wg sync.WaitGroup
	tickets := make([][]Ticket, writers)
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				tk, err := p.Append(ctx, Record{Key: []byte{byte(w)}, Value: fmt.Appendf(nil, "%d/%d", w, i)})
				if err != nil {
					t.Error(err)
					return
				}
				tickets[w] = append(tickets[w], tk)
			}
		})
	}
	wg.Wait()
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	stored := map[string]Position{}
	for part := range 3 {
		for off, v := range b.values("alerts", part) {
			stored[v] = Position{Topic: "alerts", Partition: int32(part), Offset: int64(off)}
		}
	}
	for w := range writers {
		last := int64(-1)
		for i, tk := range tickets[w] {
			pos, err := tk.Wait(ctx)
			if err != nil || !tk.Done() || tk.Class() != ClassFlushed {
				t.Fatalf("ticket: %v, done %v, class %s", err, tk.Done(), tk.Class())
			}
			if pos != stored[fmt.Sprintf("%d/%d", w, i)] {
				t.Fatalf("writer %d record %d: ticket %+v, stored %+v", w, i, pos, stored[fmt.Sprintf("%d/%d", w, i)])
			}
			if pos.Offset <= last || pos.Partition != batch.Partition([]byte{byte(w)}, 3) {
				t.Fatalf("writer %d record %d at %+v after offset %d", w, i, pos, last)
			}
			last = pos.Offset
		}
	}
}

func TestAFullBufferRefusesOrWaits(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts", WithBuffer(16<<10), WithBatchMax(4<<10))
	b.setDown(true)
	big := value("%s", strings.Repeat("x", 1000))
	queued := 0
	for ; ; queued++ {
		if _, err := p.TryAppend(big); err != nil {
			wantError(t, err, ErrBufferFull)
			break
		}
	}
	if queued < 4 || queued > 16 {
		t.Fatalf("%d records of 1,000 bytes fit into 16 KiB", queued)
	}
	if used := c.Stats().BatchBufferNow; used > 16<<10 {
		t.Fatalf("%d bytes are charged", used)
	}
	short, cancel := context.WithCancelCause(testContext(t))
	cancel(errors.New("enough"))
	_, err := p.Append(short, big)
	if err == nil || !strings.Contains(err.Error(), "enough") || errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("append to a full buffer with an ended context: %v", err)
	}
	b.setDown(false)
	ctx := testContext(t)
	if _, err := p.Append(ctx, big); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(b.values("alerts", 0)); n != queued+1 {
		t.Fatalf("%d records stored, %d were queued", n, queued+1)
	}
	// An answer may overtake the return of the write that sent its request.
	eventually(t, "nothing is charged when all is sent", func() bool { return c.Stats().BatchBufferNow == 0 })
}

func TestCloseEndsAnAppendThatWaitsForRoom(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	p := openProducer(t, dialFake(t, b), "alerts", WithBuffer(4<<10))
	b.setDown(true)
	big := value("%s", strings.Repeat("x", 1000))
	for {
		if _, err := p.TryAppend(big); err != nil {
			break
		}
	}
	ctx := testContext(t)
	waits := make(chan error, 1)
	go func() {
		_, err := p.Append(ctx, big)
		waits <- err
	}()
	eventually(t, "the append waits", func() bool {
		return p.shared.Space.Waiting()
	})
	ended, cancel := context.WithCancel(ctx)
	cancel()
	wantError(t, p.Close(ended), context.Canceled)
	wantError(t, <-waits, ErrClosed)
}

func TestRecordsThatFitNowhereAreRefusedBeforeTheyAreQueued(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts")
	ctx := testContext(t)
	for _, n := range []int{1<<20 - 60, 1 << 20, 3 << 20} {
		for _, try := range []func(Record) error{
			func(r Record) error { _, err := p.Append(ctx, r); return err },
			func(r Record) error { _, err := p.TryAppend(r); return err },
			func(r Record) error { _, err := p.Send(ctx, r); return err },
		} {
			wantError(t, try(Record{Value: make([]byte, n)}), ErrTooLarge, "alerts")
		}
	}
	if pos, err := p.Send(ctx, Record{Value: make([]byte, 1<<20-200)}); err != nil || pos.Offset != 0 {
		t.Fatalf("a record just below the limit: %+v, %v", pos, err)
	}
	small := openProducer(t, c, "alerts", WithBuffer(4<<10))
	_, err := small.TryAppend(Record{Value: make([]byte, 8<<10)})
	wantError(t, err, ErrTooLarge, "buffer")
	eventually(t, "nothing is charged", func() bool { return c.Stats().BatchBufferNow == 0 })
}

func TestTheBrokersRefusalReachesTheTicketWithItsCode(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	p := openProducer(t, dialFake(t, b), "alerts")
	b.mu.Lock()
	b.maxBatch = 100
	b.mu.Unlock()
	ctx := testContext(t)
	_, err := p.Send(ctx, value("%s", strings.Repeat("x", 200)))
	wantError(t, err, ErrTooLarge, "alerts/0", "BatchTooLarge")
	var e *Error
	if !errors.As(err, &e) || e.ValidHigh != 100 || e.Retriable || e.OutcomeUnknown || e.Code != wire.CodeBatchTooLarge {
		t.Fatalf("%+v", e)
	}
	wantError(t, p.Flush(ctx), ErrTooLarge)
	if err := p.Flush(ctx); err != nil {
		t.Fatalf("Flush tells a failure twice: %v", err)
	}
	if _, err := p.Send(ctx, value("x")); err != nil {
		t.Fatalf("after a refusal: %v", err)
	}
}

func TestWaitThatIsGivenUpIsUnknownAndCanBeTakenUpAgain(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	g := newGate()
	b.onRequest(g.hold)
	defer g.open()
	p := openProducer(t, dialFake(t, b), "alerts")
	ctx := testContext(t)
	tk, err := p.Append(ctx, value("x"))
	if err != nil {
		t.Fatal(err)
	}
	<-g.arrived
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = tk.Wait(ended)
	wantError(t, err, ErrOutcomeUnknown)
	if !errors.Is(err, context.Canceled) || tk.Done() {
		t.Fatalf("%v, done %v", err, tk.Done())
	}
	_, err = p.Send(ended, value("y"))
	wantError(t, err, ErrOutcomeUnknown)
	g.open()
	if pos, err := tk.Wait(ctx); err != nil || pos.Offset != 0 {
		t.Fatalf("%+v, %v", pos, err)
	}
	if _, err := (Ticket{}).Wait(ctx); !errors.Is(err, ErrInvalid) || !(Ticket{}).Done() {
		t.Fatalf("the zero ticket: %v", err)
	}
}

func TestSendBatchIsOneBatchAPartitionAndTellsWhichRecordsFailed(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 4)
	p := openProducer(t, dialFake(t, b), "alerts")
	ctx := testContext(t)
	rs := make([]Record, 200)
	for i := range rs {
		rs[i] = value("%d", i)
	}
	ps, err := p.SendBatch(ctx, rs)
	if err != nil {
		t.Fatal(err)
	}
	for i, pos := range ps {
		if pos.Partition != ps[0].Partition || pos.Offset != int64(i) {
			t.Fatalf("record %d at %+v, the first at %+v", i, pos, ps[0])
		}
	}
	if n := b.counts("alerts", int(ps[0].Partition)); !slices.Equal(n, []int{200}) {
		t.Fatalf("batches of %v records", n)
	}
	mixed := []Record{value("a"), {Value: make([]byte, 2<<20)}, {Key: []byte("k"), Value: []byte("b")}}
	ps, err = p.SendBatch(ctx, mixed)
	wantError(t, err, ErrTooLarge, "1 of 3", "record 1")
	var be *BatchError
	if !errors.As(err, &be) || be.Errors[0] != nil || be.Errors[2] != nil || ps[0].Offset < 0 || ps[1].Offset != -1 || ps[2].Offset < 0 {
		t.Fatalf("%v, %v", ps, err)
	}
	if ps, err := p.SendBatch(ctx, nil); err != nil || len(ps) != 0 {
		t.Fatalf("no records: %v, %v", ps, err)
	}
}

func TestSendBatchLargerThanTheBufferStillEnds(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 4)
	p := openProducer(t, dialFake(t, b), "alerts", WithBuffer(16<<10), WithBatchMax(8<<10))
	rs := make([]Record, 300)
	for i := range rs {
		rs[i] = Record{Key: fmt.Appendf(nil, "k%d", i), Value: make([]byte, 500)}
	}
	if _, err := p.SendBatch(testContext(t), rs); err != nil {
		t.Fatal(err)
	}
}

func TestRecordsWithoutAKeyGoAround(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 4)
	p := openProducer(t, dialFake(t, b), "alerts")
	ctx := testContext(t)
	for i := range 8 {
		pos, err := p.Send(ctx, value("x"))
		if err != nil || pos.Partition != int32(i%4) {
			t.Fatalf("record %d at %+v, %v", i, pos, err)
		}
	}
}

func TestThePartitionCanBeChosen(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 4)
	c := dialFake(t, b)
	ctx := testContext(t)
	fixed := openProducer(t, c, "alerts", WithPartition(2))
	own := openProducer(t, c, "alerts", WithPartitioner(func(key []byte, n int32) int32 { return int32(key[0]) }))
	if pos, err := fixed.Send(ctx, Record{Key: []byte("k")}); err != nil || pos.Partition != 2 {
		t.Fatalf("%+v, %v", pos, err)
	}
	if pos, err := own.Send(ctx, Record{Key: []byte{3}}); err != nil || pos.Partition != 3 {
		t.Fatalf("%+v, %v", pos, err)
	}
	around := openProducer(t, c, "alerts", WithPartitioner(RoundRobin()))
	for i := range 9 {
		if pos, err := around.Send(ctx, Record{Key: []byte("k")}); err != nil || pos.Partition != int32(i%4) {
			t.Fatalf("record %d at %+v, %v", i, pos, err)
		}
	}
	_, err := own.Send(ctx, Record{Key: []byte{9}})
	wantError(t, err, ErrUnknownPartition)
	_, err = c.Producer("alerts", WithPartition(4))
	wantError(t, err, ErrUnknownPartition)
}

func TestCompressedBatchesComeBack(t *testing.T) {
	for _, codec := range []Codec{CompressNone, CompressGzip, CompressSnappy, CompressLZ4, CompressZstd} {
		t.Run(codec.String(), func(t *testing.T) {
			b := newFakeBroker(t)
			b.addTopic("alerts", 1)
			c := dialFake(t, b)
			p := openProducer(t, c, "alerts", WithCompression(codec))
			var rs []Record
			var want []string
			for i := range 300 {
				want = append(want, fmt.Sprintf("a value that repeats itself, number %d", i))
				rs = append(rs, Record{Value: []byte(want[i])})
			}
			if _, err := p.SendBatch(testContext(t), rs); err != nil {
				t.Fatal(err)
			}
			b.mu.Lock()
			h := must(batch.ParseHeader(b.topics["alerts"].parts[0].batches[0]))
			b.mu.Unlock()
			if h.Attributes.Codec() != codec {
				t.Fatalf("stored with %s", h.Attributes.Codec())
			}
			if got := collect(t, openConsumer(t, c, Topics("alerts")), len(want)); !slices.Equal(got, want) {
				t.Fatalf("%d records came back", len(got))
			}
		})
	}
}

func TestWithoutAckNothingIsWaitedFor(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts", WithoutAck())
	ctx := testContext(t)
	for i := range 100 {
		pos, err := p.Send(ctx, value("%d", i))
		if err != nil || pos.Offset != -1 {
			t.Fatalf("%+v, %v", pos, err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "100 records stored", func() bool { return len(b.values("alerts", 0)) == 100 })
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.produced {
		if r.Ack != wire.AckNone {
			t.Fatalf("a request with ack mode %d", r.Ack)
		}
	}
}

func TestAWeakerTopicIsRefused(t *testing.T) {
	b := newFakeBroker(t)
	b.mu.Lock()
	b.makeTopic("weak", 1, wire.ClassMemory)
	b.mu.Unlock()
	c := dialFake(t, b)
	_, err := c.Producer("weak", WithMinClass(ClassFlushed))
	wantError(t, err, ErrClassTooWeak, "memory", "flushed")
	// The class may change under an open producer: the broker checks again.
	strong := b.addTopic("strong", 1)
	p := openProducer(t, c, "strong", WithMinClass(ClassFlushed))
	if p.Class() != ClassFlushed || p.Partitions() != 1 {
		t.Fatalf("class %s, %d partitions", p.Class(), p.Partitions())
	}
	b.mu.Lock()
	strong.class = wire.ClassWritten
	b.mu.Unlock()
	_, err = p.Send(testContext(t), value("x"))
	wantError(t, err, ErrClassTooWeak)
}

func TestAppendAllocatesNothing(t *testing.T) {
	t.Run("plain", func(t *testing.T) { appendAllocatesNothing(t) })
	t.Run("idempotent", func(t *testing.T) { appendAllocatesNothing(t, WithIdempotence()) })
}

func appendAllocatesNothing(t *testing.T, opts ...ProducerOption) {
	b := newFakeBroker(t)
	b.listen()
	b.addTopic("alerts", 1)
	p := openProducer(t, dialFake(t, b, withoutReturn), "alerts", opts...)
	ctx := testContext(t)
	r := Record{Key: []byte("key"), Value: bytes.Repeat([]byte("v"), 180), Headers: []Header{{Key: "h", Value: []byte("x")}}}
	b.setDown(true) // the broker of these tests allocates, and would be counted
	appended := func() {
		if _, err := p.Append(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(2000, appended); n != 0 {
		t.Errorf("Append: %v allocations", n)
	}
	tried := func() {
		if _, err := p.TryAppend(r); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(2000, tried); n != 0 {
		t.Errorf("TryAppend: %v allocations", n)
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	for name, opts := range map[string][]ProducerOption{
		"messages":                  {WithBatchMessages(0)},
		"bytes":                     {WithBatchBytes(-1)},
		"max":                       {WithBatchMax(0)},
		"window":                    {WithMaxInFlight(0)},
		"buffer":                    {WithBuffer(0)},
		"codec":                     {WithCompression(9)},
		"class":                     {WithMinClass(9)},
		"a linger below 0":          {WithLinger(-1)},
		"a linger for ever":         {WithLinger(time.Hour)},
		"no answer, and once":       {WithoutAck(), WithIdempotence()},
		"partition and partitioner": {WithPartition(0), WithPartitioner(func([]byte, int32) int32 { return 0 })},
	} {
		if _, err := c.Producer("alerts", opts...); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := c.Producer("no topic")
	wantError(t, err, ErrInvalid)
	_, err = c.Producer("unknown")
	wantError(t, err, ErrUnknownTopic, "unknown")
}
