package interop

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqd-broker/mqd/client"
)

// scenario is something that a client does with a broker.
type scenario struct {
	name string
	// says is what docs/kafka.md says of it.
	says string
	run  func(s *stage)
}

// scenarios are run in this order, with one broker for each client.
var scenarios = []scenario{
	{"codec-none", "produce without compression, read it back", codec("none")},
	{"codec-gzip", "the same with gzip", codec("gzip")},
	{"codec-snappy", "the same with snappy", codec("snappy")},
	{"codec-lz4", "the same with lz4", codec("lz4")},
	{"codec-zstd", "the same with zstd", codec("zstd")},
	{"acks-0", "produce without acknowledgement, and with one behind it", acksZero},
	{"missing-topic", "produce to a topic that does not exist yet", missingTopic},
	{"too-large", "be told that a batch is too large, and go on", tooLarge},
	{"from-end", "read from the end", fromEnd},
	{"from-time", "read from a time on, in the middle of a batch and behind all", fromTime},
	{"small-fetch", "ask for less than a batch at a time", smallFetch},
	{"read-committed", "read with isolation read_committed", readCommitted},
	{"rebalance", "two members of a group; one joins, one leaves", rebalance},
	{"resume", "commit, and go on there behind a `kill -9` of the broker", resume},
	{"group-kill", "two members that live through a `kill -9` of the broker", groupKill},
	{"topics", "create, describe, alter and delete a topic", topics},
	{"partitions", "add partitions to a topic", partitions},
	{"groups", "list groups, delete one", groups},
	{"idempotent-kill", "produce idempotently across `kill -9` of the broker", idempotentKill},
}

// scenariosOf are those of a client.
func scenariosOf(client string) []scenario {
	if strings.HasPrefix(client, "streams-") {
		return streamsScenarios
	}
	return scenarios
}

// stage is one client before one broker.
type stage struct {
	*testing.T
	b      *broker
	d      driver
	ctx    context.Context
	prefix string
	kgo    *kgo.Client // of franz-go, with one partition at a time
	native *client.Client
}

// can asks the client, and ends the test where it cannot.
func (s *stage) can(q request) reply {
	s.Helper()
	a, err := s.d.do(s.ctx, q)
	if err != nil {
		s.Fatalf("driver: %v", err)
	}
	if a.Unsupported != "" {
		panic(unsupported(a.Unsupported))
	}
	if a.Error != "" {
		s.Fatalf("%s: %s", q.Op, a.Error)
	}
	return a
}

// topic makes a topic by mqd's own protocol.
func (s *stage) topic(name string, partitions int, config ...string) string {
	s.Helper()
	name = s.prefix + name
	if _, err := s.native.Admin().CreateTopic(s.ctx, client.TopicSpec{Name: name, Partitions: partitions}); err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(config); i += 2 {
		if err := s.native.Admin().AlterTopic(s.ctx, name, map[string]string{config[i]: config[i+1]}); err != nil {
			s.Fatal(err)
		}
	}
	return name
}

// send sends records by franz-go, over the partitions of a topic or to the first one.
func (s *stage) send(topic string, first, n, partitions int) {
	s.Helper()
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = record(topic, first+i)
		rs[i].Partition = int32((first + i) % partitions)
	}
	if err := s.kgo.ProduceSync(s.ctx, rs...).FirstErr(); err != nil {
		s.Fatal(err)
	}
}

// stored are n records of a topic, as franz-go reads them.
func (s *stage) stored(topic string, n int) []*kgo.Record {
	s.Helper()
	return poll(s.T, s.ctx, s.b.kgo(kgo.ConsumeTopics(topic)), n)
}

// same compares what a client has read with records from number first on, of which the
// first one is at that offset too.
func (s *stage) same(topic string, rs []got, first, n int) {
	s.Helper()
	if len(rs) < n {
		s.Fatalf("%d records came, expected %d", len(rs), n)
	}
	for i, r := range rs[:n] {
		want := record(topic, first+i)
		h := string(want.Headers[0].Value)
		if r.Offset != int64(first+i) || r.Key != string(want.Key) || r.Value != string(want.Value) || r.Time != want.Timestamp.UnixMilli() || r.Header != h {
			s.Fatalf("record %d came as %+v", first+i, r)
		}
	}
}

// end is the end of a topic, over its partitions.
func (s *stage) end(topic string) int64 {
	s.Helper()
	d, err := s.native.Admin().DescribeTopic(s.ctx, topic)
	if err != nil {
		s.Fatal(err)
	}
	sum := int64(0)
	for _, p := range d.Partitions {
		sum += p.End
	}
	return sum
}

// renew makes the stage's own clients. franz-go takes a connection that ends before it has
// a producer id for a wrong configuration, so that one does not outlive the broker.
func (s *stage) renew() {
	s.Helper()
	s.native, s.kgo = s.b.dial(), s.b.kgo(kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// restart kills the broker and starts it again.
func (s *stage) restart() {
	s.Helper()
	if err := s.b.proc.Kill(); err != nil {
		s.Fatal(err)
	}
	s.b.launch()
	s.renew()
}

func (s *stage) until(what string, done func() bool) {
	s.Helper()
	until(s.T, s.ctx, what, done)
}

// codec has a client write with a codec, looks at what is stored, and has it read that and
// what franz-go wrote with the same.
func codec(name string) func(*stage) {
	return func(s *stage) {
		const n = 300
		topic := s.topic("codec-"+name, 1)
		s.can(request{Op: "produce", Topic: topic, Codec: name, N: n})
		number := slices.Index([]string{"none", "gzip", "snappy", "lz4", "zstd"}, name)
		// A batch that compression does not make smaller may be sent without.
		if !slices.ContainsFunc(s.stored(topic, n), func(r *kgo.Record) bool { return int(r.Attrs.CompressionType()) == number }) {
			s.Fatalf("no batch is stored with codec %d", number)
		}
		c := s.b.kgo(kgo.ProducerBatchCompression(codecs[name]))
		for i := n; i < 2*n; i++ {
			c.Produce(s.ctx, record(topic, i), nil)
		}
		if err := c.Flush(s.ctx); err != nil {
			s.Fatal(err)
		}
		if a := s.can(request{Op: "open", Topic: topic, From: "start"}); a.Position != 0 {
			s.Errorf("the start is at %d", a.Position)
		}
		s.same(topic, s.can(request{Op: "read", N: 2 * n}).Records, 0, 2*n)
		s.can(request{Op: "close"})
	}
}

func acksZero(s *stage) {
	topic := s.topic("acks-0", 1)
	s.can(request{Op: "produce", Topic: topic, Acks: "0", N: 20})
	s.until("what was not acknowledged is there", func() bool { return s.end(topic) == 20 })
	s.can(request{Op: "produce", Topic: topic, Acks: "1", First: 20, N: 20})
	s.can(request{Op: "produce", Topic: topic, Acks: "all", First: 40, N: 20})
	for i, r := range s.stored(topic, 60) {
		if want := record(topic, i); string(r.Value) != string(want.Value) {
			s.Fatalf("record %d is %q", i, r.Value)
		}
	}
}

func missingTopic(s *stage) {
	topic := s.prefix + "missing"
	s.can(request{Op: "produce", Topic: topic, N: 10})
	s.stored(topic, 10)
}

// tooLargeSaid is how clients name MESSAGE_TOO_LARGE.
var tooLargeSaid = regexp.MustCompile(`(?i)too.?large|larger than|MSG_SIZE_TOO_LARGE`)

func tooLarge(s *stage) {
	topic := s.topic("strict", 1, "max.message.bytes", "32768")
	a, err := s.d.do(s.ctx, request{Op: "produce", Topic: topic, Size: 40_000, N: 1})
	switch {
	case err != nil:
		s.Fatalf("driver: %v", err)
	case a.Unsupported != "":
		panic(unsupported(a.Unsupported))
	case !tooLargeSaid.MatchString(a.Error):
		s.Errorf("a record of 40,000 bytes where 32,768 are allowed: %q", a.Error)
	}
	s.can(request{Op: "produce", Topic: topic, First: 0, N: 10})
	if end := s.end(topic); end != 10 {
		s.Errorf("the end is at %d, expected 10", end)
	}
}

func fromEnd(s *stage) {
	topic := s.topic("end", 1)
	s.send(topic, 0, 50, 1)
	if a := s.can(request{Op: "open", Topic: topic, From: "end"}); a.Position != 50 {
		s.Errorf("the end is at %d, expected 50", a.Position)
	}
	s.send(topic, 50, 10, 1)
	s.same(topic, s.can(request{Op: "read", N: 10}).Records, 50, 10)
	s.can(request{Op: "close"})
}

func fromTime(s *stage) {
	topic := s.topic("time", 1)
	s.send(topic, 0, 100, 1)
	for _, number := range []int{0, 37, 99} {
		at := record(topic, number).Timestamp.UnixMilli()
		if a := s.can(request{Op: "open", Topic: topic, From: "time", Time: at}); a.Position != int64(number) {
			s.Errorf("time %d is at %d, expected %d", at, a.Position, number)
		}
		s.same(topic, s.can(request{Op: "read", N: 1}).Records, number, 1)
		s.can(request{Op: "close"})
	}
	late := record(topic, 1000).Timestamp.UnixMilli()
	if a := s.can(request{Op: "open", Topic: topic, From: "time", Time: late}); a.Position != -1 {
		s.Errorf("a time behind all is at %d", a.Position)
	}
	s.can(request{Op: "close"})
}

func smallFetch(s *stage) {
	topic := s.topic("small", 1)
	s.send(topic, 0, 500, 1)
	s.send(topic, 500, 500, 1)
	s.can(request{Op: "open", Topic: topic, From: "start", Small: true})
	s.same(topic, s.can(request{Op: "read", N: 1000}).Records, 0, 1000)
	s.can(request{Op: "close"})
}

func readCommitted(s *stage) {
	topic := s.topic("committed", 1)
	s.send(topic, 0, 50, 1)
	s.can(request{Op: "open", Topic: topic, From: "start", Committed: true})
	s.same(topic, s.can(request{Op: "read", N: 50}).Records, 0, 50)
	s.can(request{Op: "close"})
}

// owns waits until each of the members named has as many partitions as given.
func (s *stage) owns(want map[string]int) {
	s.Helper()
	last := map[string]int{}
	defer func() {
		if s.Failed() {
			s.Logf("the members have %v", last)
		}
	}()
	s.until(fmt.Sprintf("partitions are given out as %v", want), func() bool {
		last = s.can(request{Op: "group"}).Owns
		for name, n := range want {
			if last[name] != n {
				return false
			}
		}
		return true
	})
}

// have waits until the members have read records from first up to end, and says how many
// of them came more than once.
func (s *stage) have(first, end int) (again int) {
	s.Helper()
	var a reply
	defer func() {
		if s.Failed() {
			s.Logf("%d records of %d were read", len(a.Seen), end-first)
		}
	}()
	s.until("all is read", func() bool {
		a = s.can(request{Op: "group"})
		return len(a.Seen) >= end-first
	})
	slices.Sort(a.Seen)
	for i, n := range a.Seen {
		if n != first+i {
			s.Fatalf("record %d was read, expected %d", n, first+i)
		}
	}
	return a.Reads - len(a.Seen)
}

// committedAll waits until as much is committed.
func (s *stage) committedAll(group, topic string, want int64) {
	s.Helper()
	s.until(fmt.Sprintf("%d records are committed", want), func() bool {
		sum := int64(0)
		for _, offset := range committed(s.T, s.ctx, s.kgo, group, topic) {
			sum += max(offset, 0)
		}
		return sum == want
	})
}

func rebalance(s *stage) {
	topic := s.topic("shared", 4)
	join := request{Op: "join", Topic: topic, Group: topic}
	join.Member = "a"
	s.can(join)
	s.owns(map[string]int{"a": 4})
	s.send(topic, 0, 100, 4)
	s.have(0, 100)
	join.Member = "b"
	s.can(join)
	s.owns(map[string]int{"a": 2, "b": 2})
	s.send(topic, 100, 100, 4)
	s.have(0, 200)
	s.can(request{Op: "leave", Member: "a"})
	s.owns(map[string]int{"b": 4})
	s.send(topic, 200, 100, 4)
	s.have(0, 300)
	s.committedAll(topic, topic, 300)
	s.can(request{Op: "leave", Member: "b"})
	s.can(request{Op: "forget"})
}

func resume(s *stage) {
	topic := s.topic("resume", 2)
	s.send(topic, 0, 100, 2)
	s.can(request{Op: "join", Topic: topic, Group: topic, Member: "a"})
	s.have(0, 100)
	s.committedAll(topic, topic, 100)
	s.can(request{Op: "leave", Member: "a"})
	s.restart()
	s.can(request{Op: "forget"})
	s.send(topic, 100, 100, 2)
	s.can(request{Op: "join", Topic: topic, Group: topic, Member: "b"})
	if again := s.have(100, 200); again != 0 {
		s.Errorf("%d records were read again", again)
	}
	s.committedAll(topic, topic, 200)
	s.can(request{Op: "leave", Member: "b"})
	s.can(request{Op: "forget"})
}

func groupKill(s *stage) {
	topic := s.topic("lives", 4)
	for _, name := range []string{"a", "b"} {
		s.can(request{Op: "join", Topic: topic, Group: topic, Member: name})
	}
	s.owns(map[string]int{"a": 2, "b": 2})
	s.send(topic, 0, 100, 4)
	s.have(0, 100)
	s.restart()
	s.send(topic, 100, 100, 4)
	s.have(0, 200)
	s.committedAll(topic, topic, 200)
	for _, name := range []string{"a", "b"} {
		s.can(request{Op: "leave", Member: name})
	}
	s.can(request{Op: "forget"})
}

func topics(s *stage) {
	name := s.prefix + "made"
	s.can(request{Op: "create", Topic: name, Partitions: 3, Config: map[string]string{"retention.ms": "3600000", "mqd.durability": "written"}})
	d, err := s.native.Admin().DescribeTopic(s.ctx, name)
	if err != nil || len(d.Partitions) != 3 || d.Class != client.ClassWritten {
		s.Fatalf("the other protocol sees %+v, %v", d, err)
	}
	if a := s.can(request{Op: "topics"}); !slices.Contains(a.Names, name) {
		s.Errorf("it is not among %q", a.Names)
	}
	for _, want := range []string{"3600000", "7200000"} {
		s.until("retention.ms is "+want, func() bool { return s.can(request{Op: "config", Topic: name, Name: "retention.ms"}).Value == want })
		s.can(request{Op: "alter", Topic: name, Name: "retention.ms", Value: "7200000"})
	}
	s.can(request{Op: "delete", Topic: name})
	s.until("it is gone", func() bool { return !slices.Contains(s.can(request{Op: "topics"}).Names, name) })
}

func partitions(s *stage) {
	topic := s.topic("grows", 2)
	s.can(request{Op: "grow", Topic: topic, Partitions: 5})
	s.until("it has five partitions", func() bool {
		d, err := s.native.Admin().DescribeTopic(s.ctx, topic)
		return err == nil && len(d.Partitions) == 5
	})
}

func groups(s *stage) {
	topic := s.topic("crew", 1)
	s.send(topic, 0, 10, 1)
	commit(s.T, s.ctx, s.kgo, topic, topic, 10)
	if a := s.can(request{Op: "groups"}); !slices.Contains(a.Names, topic) {
		s.Errorf("the group is not among %q", a.Names)
	}
	s.can(request{Op: "drop", Group: topic})
	if got := committed(s.T, s.ctx, s.kgo, topic, topic); len(got) != 0 {
		s.Errorf("a group that was deleted has %v", got)
	}
}

// idempotentKill kills the broker three times while a client sends: everything is there
// once, and in order.
func idempotentKill(s *stage) {
	topic := s.topic("once", 1)
	s.can(request{Op: "start", Topic: topic})
	defer func() {
		if s.Failed() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			a, err := s.d.do(ctx, request{Op: "stop"})
			s.Logf("it has sent %d, with %q, %v", a.N, a.Error, err)
		}
	}()
	for range 3 {
		from := s.end(topic)
		s.until("more is written", func() bool { return s.end(topic) >= from+300 })
		s.restart()
	}
	from := s.end(topic)
	s.until("more is written behind the last start", func() bool { return s.end(topic) >= from+300 })
	n := s.can(request{Op: "stop"}).N
	if end := s.end(topic); end != int64(n) {
		s.Fatalf("the end is at %d, but %d were acknowledged", end, n)
	}
	for i, r := range s.stored(topic, n) {
		if got, err := strconv.Atoi(strings.Fields(string(r.Value))[0]); err != nil || got != i {
			s.Fatalf("offset %d has record %d", i, got)
		}
	}
}
