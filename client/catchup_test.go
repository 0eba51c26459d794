package client

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// asked are the requests of one kind that have reached a broker.
type asked struct {
	mu      sync.Mutex
	fetches []wire.FetchRequest
	commits int
}

// note is a hook for fakeBroker.onRequest.
func (a *asked) note(_ *fakeConn, h wire.Header, body []byte) fault {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch h.Op {
	case wire.OpFetch:
		a.fetches = append(a.fetches, must(wire.DecodeFetchRequest(body)))
	case wire.OpGroupCommit:
		a.commits++
	}
	return pass
}

// backlog puts batches of 100 records into a partition.
func putBacklog(b *fakeBroker, batches int) {
	for i := range batches {
		b.put("alerts", 0, CompressNone, numbered(i*100, (i+1)*100)...)
	}
}

// A fetch asks for what the answer before it has left, within its bounds, and for little
// again at the end of the log.
func TestAConsumerThatIsBehindAsksForMore(t *testing.T) {
	for _, c := range []struct {
		name                string
		options             []ConsumerOption
		near, far, farBytes int
	}{
		{"default", nil, 500, 1 << 16, 4 << 20},
		{"bounded", []ConsumerOption{WithCatchUp(2<<20, 2000)}, 500, 2000, 2 << 20},
		{"fixed", []ConsumerOption{WithFetchBytes(1, 300<<10), WithFetchRecords(700)}, 700, 700, 300 << 10},
		{"both", []ConsumerOption{WithCatchUp(1<<20, 900), WithFetchRecords(100)}, 100, 900, 1 << 20},
	} {
		b := newFakeBroker(t)
		b.addTopic("alerts", 1)
		putBacklog(b, 300)
		a := &asked{}
		b.onRequest(a.note)
		co := openConsumer(t, dialFake(t, b), append(c.options, Topics("alerts"))...)
		if got := collect(t, co, 30_000); !slices.Equal(got, numbered(0, 30_000)) {
			t.Fatalf("%s: %d records", c.name, len(got))
		}
		eventually(t, "a fetch at the end", func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.fetches[len(a.fetches)-1].Offset == 30_000
		})
		a.mu.Lock()
		most := 0
		for _, f := range a.fetches {
			most = max(most, int(f.MaxRecords))
			if int(f.MaxBytes) > c.farBytes || int(f.MaxRecords) > c.far || int(f.MaxRecords) < c.near {
				t.Errorf("%s: a fetch of %d bytes, %d records at %d", c.name, f.MaxBytes, f.MaxRecords, f.Offset)
			}
		}
		if want := min(c.far, 29_000); most < want {
			t.Errorf("%s: fetches of at most %d records, expected %d", c.name, most, want)
		}
		for _, f := range []wire.FetchRequest{a.fetches[0], a.fetches[len(a.fetches)-1]} {
			if int(f.MaxRecords) != c.near {
				t.Errorf("%s: a fetch of %d records at %d, expected %d", c.name, f.MaxRecords, f.Offset, c.near)
			}
		}
		a.mu.Unlock()
	}
}

// What is asked for and what waits is within the bound of the consumer, also when nobody
// polls and there is a lot to get.
func TestABacklogStaysWithinThePrefetch(t *testing.T) {
	const prefetch = 1 << 20
	b := newFakeBroker(t)
	b.addTopic("alerts", 3)
	for p := range 3 {
		for i := range 400 {
			b.put("alerts", p, CompressNone, fmt.Sprintf("%10000d", i))
		}
	}
	co := openConsumer(t, dialFake(t, b), Topics("alerts"), WithPrefetch(prefetch))
	for got := 0; got < 1200; {
		eventually(t, "every partition has answers", func() bool {
			co.mu.Lock()
			defer co.mu.Unlock()
			bytes := 0
			for _, f := range co.feeds {
				for _, a := range f.answers {
					bytes += a.size
				}
				if len(f.answers) == 0 && f.offset < 400 {
					return false
				}
			}
			if bytes > prefetch {
				t.Fatalf("%d bytes wait, the bound is %d", bytes, prefetch)
			}
			return true
		})
		bt, err := co.Poll(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		got += bt.Len()
		bt.Release()
	}
}

// Far behind, a group commits as seldom as its fetches are large; near the end as often
// as it was told.
func TestAGroupThatIsBehindCommitsLessOften(t *testing.T) {
	commits := func(options ...ConsumerOption) (behind, near int) {
		b := newFakeBroker(t)
		b.addTopic("alerts", 1)
		putBacklog(b, 300)
		a := &asked{}
		b.onRequest(a.note)
		co := joinFake(t, b, append(options, Topics("alerts"), WithAutoCommit(time.Hour, 100))...)
		for got := 0; got < 30_000; {
			bt, err := co.Poll(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			got += bt.Len()
			bt.Release()
		}
		a.mu.Lock()
		behind = a.commits
		a.mu.Unlock()
		for i := range 5 {
			b.put("alerts", 0, CompressNone, numbered(0, 100)...)
			take(t, co, 100).Release()
			b.put("alerts", 0, CompressNone, "more")
			take(t, co, 1).Release()
			want := int64(30_000 + i*101 + 100)
			eventually(t, "a commit", func() bool { return b.committed("g", "alerts", 0) >= want })
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		return behind, a.commits - behind
	}
	behind, near := commits()
	if behind > 3 || near < 5 {
		t.Fatalf("%d commits for the backlog, %d for five hundred records at the end", behind, near)
	}
}
