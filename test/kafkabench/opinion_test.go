package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

var (
	realBroker = flag.String("kafkabench.broker", "", "address of an Apache Kafka for the second opinion, instead of one that -kafkabench.long starts")
	update     = flag.Bool("update", false, "write down what the Apache Kafka of -kafkabench.long answers")
)

// separator stands between a question and its answer.
const separator = " => "

// apacheAnswers are those of Apache Kafka to all questions, one a line, as
// -kafkabench.long -update has written them.
//
//go:embed apache.txt
var apacheAnswers string

// question is what brokers are asked in the same words.
type question struct {
	name string
	ask  func(*asker) string
}

// asker asks one broker, in the versions that mqd and Apache Kafka both have.
type asker struct {
	ctx    context.Context
	client *kgo.Client
	number int // of the question
}

// answerWithin bounds one answer.
const answerWithin = time.Minute

// newAsker makes one for the broker at addr. most are the highest versions, nil for those
// of the broker.
func newAsker(t *testing.T, addr string, most *kversion.Versions) *asker {
	t.Helper()
	options := []kgo.Opt{kgo.SeedBrokers(addr), kgo.RequestRetries(0), kgo.RequestTimeoutOverhead(answerWithin)}
	if most != nil {
		options = append(options, kgo.MaxVersions(most))
	}
	c, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &asker{ctx: t.Context(), client: c}
}

// send asks. The answer is nil where the broker ends the connection instead.
func send[R kmsg.Response](a *asker, req kmsg.Request) (answer R, ok bool) {
	ctx, cancel := context.WithTimeout(a.ctx, answerWithin)
	defer cancel()
	resp, err := a.client.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return answer, false
	}
	return resp.(R), true
}

// noAnswer is what an ended connection counts as.
const noAnswer = "ends the connection"

// code is an error's name.
func code(n int16) string {
	if n == 0 {
		return "NONE"
	}
	if err := new(kerr.Error); errors.As(kerr.ErrorForCode(n), &err) {
		return err.Message
	}
	return fmt.Sprintf("code %d", n)
}

// topic is the name of the question's own topic, with a suffix.
func (a *asker) topic(suffix string) string { return fmt.Sprintf("q%03d%s", a.number, suffix) }

// group is the name of its own group.
func (a *asker) group() string { return fmt.Sprintf("g%03d", a.number) }

// create makes the question's own topic and waits until it answers.
func (a *asker) create(configs ...string) string {
	name := a.topic("")
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 2, 1
	for i := 0; i+1 < len(configs); i += 2 {
		t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: configs[i], Value: &configs[i+1]})
	}
	if got := a.createTopics(false, t); got != "NONE" {
		panic("create " + name + ": " + got)
	}
	for a.ctx.Err() == nil {
		if a.offsets(name, 0, -2) == "NONE 0" && a.offsets(name, 1, -2) == "NONE 0" {
			break
		}
		time.Sleep(look)
	}
	return name
}

// answers asks everything.
func (a *asker) answers() map[string]string {
	all := map[string]string{}
	for i, q := range questions() {
		a.number = i + 1
		if _, twice := all[q.name]; twice {
			panic("two questions " + q.name)
		}
		all[q.name] = a.answer(q)
	}
	return all
}

// answer asks one question.
func (a *asker) answer(q question) (answer string) {
	defer func() {
		if why := recover(); why != nil {
			answer = fmt.Sprintf("it could not be asked: %v", why)
		}
	}()
	return q.ask(a)
}

func questions() []question {
	return slices.Concat(topicQuestions, configQuestions, produceQuestions, readQuestions, groupQuestions, memberQuestions)
}

// versions are the highest that mqd has.
func versions(t *testing.T, a *asker) *kversion.Versions {
	t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "kafkabench", "1"
	resp, ok := send[*kmsg.ApiVersionsResponse](a, req)
	if !ok || resp.ErrorCode != 0 {
		t.Fatal("no answer to ApiVersions")
	}
	return kversion.FromApiVersionsResponse(resp)
}

// startMqd starts mqd and returns the address of its Kafka door.
func startMqd(t *testing.T) string {
	t.Helper()
	door, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	b, err := process.Start(process.Config{
		Binary: rig.Binary(t), Dir: rig.DataDir(t),
		Args: []string{"--kafka-listen", door, "--shards", "1", "--idle", "block", "--journal-size", "16MiB", "--kafka-rebalance-delay", "0s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Kill() })
	if _, _, err := b.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return door
}

// coordinate waits until the broker coordinates groups and numbers producers: Apache Kafka
// makes a topic first, and has its controller give it numbers.
func (a *asker) coordinate() {
	for a.ctx.Err() == nil {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey, find.CoordinatorKeys = "g", []string{"g"}
		_, _ = send[*kmsg.FindCoordinatorResponse](a, find)
		if a.heartbeat("g", "m", 1) == "UNKNOWN_MEMBER_ID" && a.initialized(-1, -1) == "NONE" {
			return
		}
		time.Sleep(look)
	}
}

// What mqd answers is what Apache Kafka has answered, but for what is listed.
func TestMqdAnswersAsApacheKafka(t *testing.T) {
	rig.NeedDriver(t)
	a := newAsker(t, startMqd(t), nil)
	a.coordinate()
	got := a.answers()
	want := map[string]string{}
	for line := range strings.Lines(apacheAnswers) {
		if name, answer, ok := strings.Cut(strings.TrimSuffix(line, "\n"), separator); ok && !strings.HasPrefix(line, "#") {
			want[name] = answer
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		apache, known := want[name]
		ours, different := differences[name]
		switch {
		case !known:
			t.Errorf("%s: mqd %s; Apache Kafka has not been asked", name, got[name])
		case !different && got[name] != apache:
			t.Errorf("%s: mqd %s; Apache Kafka %s", name, got[name], apache)
		case different && got[name] != ours.answer:
			t.Errorf("%s: mqd %s; the list says %s, and Apache Kafka %s", name, got[name], ours.answer, apache)
		case different && ours.answer == apache:
			t.Errorf("%s: %s is no difference any more", name, apache)
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s: nobody asks that", name)
		}
	}
	for name := range differences {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is listed as a difference: nobody asks that", name)
		}
	}
}

// Apache Kafka answers what is written down.
func TestApacheKafkaAnswersWhatIsWrittenDown(t *testing.T) {
	if !*long && *realBroker == "" {
		t.Skip("only with -kafkabench.long: it needs Java, and Apache Kafka from test/interop/install.sh --broker")
	}
	rig.NeedDriver(t)
	addr, version := *realBroker, "at "+*realBroker
	if addr == "" {
		broker, err := startApache(t.Context(), installedApache(), rig.DataDir(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = broker.kill() })
		addr, version = broker.addr, broker.version
	}
	a := newAsker(t, addr, versions(t, newAsker(t, startMqd(t), nil)))
	a.coordinate()
	got := a.answers()
	var text strings.Builder
	fmt.Fprintf(&text, "# What Apache Kafka %s answers; written by go test -run WrittenDown -kafkabench.long -update.\n", version)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		fmt.Fprintln(&text, name+separator+got[name])
	}
	if strings.Contains(text.String(), "it could not be asked") {
		t.Error(text.String())
	}
	if *update {
		if err := os.WriteFile(filepath.Join(".", "apache.txt"), []byte(text.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	_, now, _ := strings.Cut(text.String(), "\n")
	if _, then, _ := strings.Cut(apacheAnswers, "\n"); now != then {
		t.Errorf("Apache Kafka %s answers otherwise than is written down:\n%s", version, now)
	}
}
