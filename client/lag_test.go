package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

func TestLagIsInRecordsBytesAndTime(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("b", 2)
	b.addTopic("a", 1)
	b.put("b", 0, CompressNone, numbered(0, 10)...)
	b.put("b", 0, CompressNone, "more")
	b.put("a", 0, CompressNone, numbered(0, 4)...)
	size := func(topic string) (n int64) {
		for _, raw := range b.topics[topic].parts[0].batches {
			n += int64(len(raw))
		}
		return n
	}
	co := openConsumer(t, dialFake(t, b), Topics("b", "a"), From(Offset(0)))
	want := []Lag{{"a", 0, 0, 4, 4, size("a"), 0}, {"b", 0, 0, 11, 11, size("b"), time.Second}, {"b", 1, 0, 0, 0, 0, 0}}
	lags, err := co.Lag(testContext(t))
	if err != nil || !slices.Equal(lags, want) {
		t.Fatalf("%+v, %v", lags, err)
	}
	collect(t, co, 15)
	want = []Lag{{"a", 0, 4, 4, 0, 0, 0}, {"b", 0, 11, 11, 0, 0, 0}, {"b", 1, 0, 0, 0, 0, 0}}
	if lags, err = co.Lag(testContext(t)); err != nil || !slices.Equal(lags, want) {
		t.Fatalf("%+v, %v", lags, err)
	}
}

// A broker that was built before the question answers another one.
func TestAnOldBrokerTellsTheLagInRecordsAlone(t *testing.T) {
	b := newFakeBroker(t)
	b.noLag = true
	b.addTopic("a", 2)
	b.put("a", 1, CompressNone, numbered(0, 4)...)
	co := openConsumer(t, dialFake(t, b), Topics("a"), From(Offset(0)))
	want := []Lag{{"a", 0, 0, 0, 0, 0, 0}, {"a", 1, 0, 4, 4, -1, -1}}
	lags, err := co.Lag(testContext(t))
	if err != nil || !slices.Equal(lags, want) {
		t.Fatalf("%+v, %v", lags, err)
	}
}

func TestLagIsAskedAgainWhenTheConnectionBreaks(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("a", 1)
	b.put("a", 0, CompressNone, numbered(0, 4)...)
	co := openConsumer(t, dialFake(t, b), Topics("a"), From(Offset(0)))
	broken := 0
	b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
		if h.Op != wire.OpLag || broken == 2 {
			return pass
		}
		broken++
		return dropAfter
	})
	lags, err := co.Lag(testContext(t))
	if err != nil || len(lags) != 1 || lags[0].Records != 4 || broken != 2 {
		t.Fatalf("%+v, %v, broken %d times", lags, err, broken)
	}
}

func TestTheLagOfATopicThatIsGoneIsAnError(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("a", 1)
	co := openConsumer(t, dialFake(t, b), Topics("a"))
	b.mu.Lock()
	delete(b.topics, "a")
	b.mu.Unlock()
	_, err := co.Lag(testContext(t))
	wantError(t, err, ErrUnknownTopic, "lag a")
}

// A member that has not begun with its partitions yet is behind in them all the same: who
// reads up to the end would take none for the end.
func TestTheLagOfAMemberWaitsForItsPartitions(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("a", 1)
	b.put("a", 0, CompressNone, numbered(0, 4)...)
	asked, answer := make(chan struct{}), make(chan struct{})
	tell := sync.OnceFunc(func() { close(asked) })
	b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
		if h.Op == wire.OpGroupOffsets {
			tell()
			<-answer
		}
		return pass
	})
	co := joinFake(t, b, Topics("a"))
	<-asked
	ended, end := context.WithCancel(testContext(t))
	end()
	if lags, err := co.Lag(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("before it has begun: %+v, %v", lags, err)
	}
	close(answer)
	if lags, err := co.Lag(testContext(t)); err != nil || len(lags) != 1 || lags[0].Records != 4 {
		t.Fatalf("%+v, %v", lags, err)
	}
}
