package interop

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqd-broker/mqd/client"
)

// streamsScenarios are those of Kafka Streams: an application that counts records by
// another key than they have, over all times and in windows.
var streamsScenarios = []scenario{
	{"streams-count", "two instances of an application with topics in between count records, also in windows", streamsCount},
	{"streams-restore", "an instance that has lost its directory has its counts from the compacted topics", streamsRestore},
	{"streams-kill", "the application counts on behind a `kill -9` of the broker", streamsKill},
	{"streams-exactly-once", "be told at once that there are no transactions", streamsExactlyOnce},
}

// streams compiles the driver of Kafka Streams against its jars, and runs it.
func streams(name string) func(*broker) (driver, error) {
	return func(b *broker) (driver, error) {
		classes, temp := filepath.Join(installed(), name, "jars", "*"), b.t.TempDir()
		return startProgram("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.io.tmpdir="+temp, "-cp", classes,
			filepath.Join("drivers", "Streams.java"), b.kafka, filepath.Join(temp, "state"))
	}
}

// instance is a request about one of the application.
func (s *stage) instance(op, name string) request {
	topic := s.prefix + "numbers"
	return request{Op: op, Member: name, Group: topic, Topic: topic}
}

// runs waits until an instance runs, and says how many records of its state it has read.
func (s *stage) runs(name string) int {
	s.Helper()
	var a reply
	defer func() {
		if s.Failed() {
			s.Logf("instance %s is %s: %q", name, a.Value, a.Names)
		}
	}()
	s.until("instance "+name+" runs", func() bool {
		a = s.can(s.instance("state", name))
		if a.Value == "ERROR" || a.Value == "NOT_RUNNING" {
			s.Fatalf("it has ended")
		}
		return a.Value == "RUNNING"
	})
	return a.N
}

// counted waits until the records of the first n are counted, and no others.
func (s *stage) counted(n int, exactly bool) {
	s.Helper()
	topic := s.prefix + "numbers"
	want, missing, got := map[string]int{}, 0, map[string]int{}
	for i := range n {
		r, key := record(topic, i), fmt.Sprintf("r%d", i%5)
		at := r.Timestamp.UnixMilli()
		want[key]++
		want[fmt.Sprintf("%s@%d", key, at-at%100)]++
	}
	c := s.b.kgo(kgo.ConsumeTopics(topic + "-counts"))
	defer c.Close()
	for missing = len(want); missing > 0; {
		for _, r := range poll(s.T, s.ctx, c, 1) {
			key := string(r.Key)
			was := got[key]
			now, err := strconv.Atoi(string(r.Value))
			if err != nil {
				s.Fatalf("%s is counted as %q", key, r.Value)
			}
			if exactly && (now > want[key] || now < was) {
				s.Fatalf("%s is counted as %d behind %d, expected at most %d", key, now, was, want[key])
			}
			got[key] = max(was, now)
			if was < want[key] && now >= want[key] {
				missing--
			}
		}
	}
}

func streamsCount(s *stage) {
	topic := s.topic("numbers", 2)
	s.topic("numbers-counts", 1)
	for _, name := range []string{"a", "b"} {
		s.can(s.instance("run", name))
	}
	for _, name := range []string{"a", "b"} {
		s.runs(name)
	}
	s.send(topic, 0, 300, 2)
	s.counted(300, true)
	for store, policy := range map[string]string{"all": "compact", "windows": "compact,delete"} {
		d, err := s.native.Admin().DescribeTopic(s.ctx, topic+"-"+store+"-changelog")
		if err != nil || !slices.ContainsFunc(d.Configs, func(c client.ConfigEntry) bool { return c.Key == "cleanup.policy" && c.Value == policy }) {
			s.Errorf("the changelog of %s is not cleaned by %s: %v, %v", store, policy, d.Configs, err)
		}
	}
}

func streamsRestore(s *stage) {
	s.can(s.instance("halt", "a"))
	s.can(s.instance("erase", "a"))
	s.can(s.instance("run", "a"))
	if n := s.runs("a"); n == 0 {
		s.Error("no record of the state was read")
	}
	s.send(s.prefix+"numbers", 300, 150, 2)
	s.counted(450, true)
}

// streamsKill counts at least once: what was not committed is counted again.
func streamsKill(s *stage) {
	s.restart()
	s.send(s.prefix+"numbers", 450, 150, 2)
	s.counted(600, false)
	for _, name := range []string{"a", "b"} {
		s.runs(name)
		s.can(s.instance("halt", name))
	}
}

func streamsExactlyOnce(s *stage) {
	q := s.instance("run", "exactly")
	q.Group, q.Value = q.Group+"-exactly", "exactly_once_v2"
	s.can(q)
	var a reply
	s.until("it ends", func() bool {
		a = s.can(s.instance("state", "exactly"))
		return a.Value == "ERROR"
	})
	if said := strings.Join(a.Names, "; "); !strings.Contains(said, "this broker has no transactions") {
		s.Errorf("it has ended with %q", said)
	}
	s.can(s.instance("halt", "exactly"))
}
