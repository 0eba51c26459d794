package opinion

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
)

var show = flag.Bool("opinion.show", false, "print every difference, in the form of testdata/differences.txt")

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// own are the fields that each broker fills in its own way, or that say when something was.
var own = map[string]bool{
	"MemberID": true, "LeaderID": true, "ProducerID": true, "NodeID": true, "Host": true, "Port": true, "Rack": true, "ClusterID": true,
	"ControllerID": true, "Leader": true, "Replicas": true, "ISR": true, "LeaderEpoch": true, "TopicID": true, "ErrorMessage": true, "ClientHost": true,
	"ThrottleMillis": true, "UnknownTags": true, "Documentation": true, "SessionID": true, "AuthorizedOperations": true, "ClusterAuthorizedOperations": true,
	"Version": true, "ConfigSynonyms": true, "Configs": true, "PreferredReadReplica": true,
}

// flatten lists what an answer says, a line for each field.
func flatten(path string, v reflect.Value, to map[string]string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			to[path] = "null"
			return
		}
		flatten(path, v.Elem(), to)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Name == "Configs" && v.Type().Name() == "DescribeConfigsResponseResource" || !own[f.Name] && f.IsExported() {
				flatten(path+"."+f.Name, v.Field(i), to)
			}
		}
	case reflect.Slice:
		to[path+".len"] = fmt.Sprint(v.Len())
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			flatten(fmt.Sprintf("%s[%d]", path, i), v.Index(i), to)
		}
	default:
		to[path] = fmt.Sprint(v.Interface())
	}
}

// conn is a connection to a broker.
type conn struct {
	net.Conn
	corr  int32
	known known
}

func dial(t *testing.T, addr string) *conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &conn{Conn: c}
}

// ask sends a request and waits for its answer.
func (c *conn) ask(s *step) (kmsg.Response, error) {
	q := s.make(&c.known)
	q.SetVersion(s.version)
	c.corr++
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("opinion")).AppendRequest(nil, q, c.corr)); err != nil {
		return nil, err
	}
	head := make([]byte, 8)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head)-4)
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, err
	}
	if corr := int32(binary.BigEndian.Uint32(head[4:])); corr != c.corr {
		return nil, fmt.Errorf("answer %d to request %d", corr, c.corr)
	}
	a := q.ResponseKind()
	a.SetVersion(s.version)
	if a.IsFlexible() && a.Key() != 18 {
		body = body[1:]
	}
	if err := a.ReadFrom(body); err != nil {
		return nil, err
	}
	if s.learn != nil {
		s.learn(&c.known, a)
	}
	return a, nil
}

// serve starts mqd and returns where Kafka clients connect to.
func serve(t *testing.T) string {
	t.Helper()
	rig.NeedDriver(t)
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(250), rand.N(250), 1+rand.N(250)))
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := process.Start(process.Config{
		Binary: rig.Binary(t), Dir: rig.DataDir(t),
		Args: []string{"--kafka-listen", addr, "--kafka-rebalance-delay", "0s", "--shards", "1", "--idle", "block", "--journal-size", "16MiB"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Kill() })
	if _, _, err := b.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return addr
}

func TestBothSayTheSame(t *testing.T) {
	other, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	mqd, fake := dial(t, serve(t)), dial(t, other.ListenAddrs()[0])
	var found []string
	for _, s := range append(logSteps(), groupSteps()...) {
		var said [2]map[string]string
		for i, c := range []*conn{mqd, fake} {
			a, err := c.ask(&s)
			if err != nil {
				t.Fatalf("%s, broker %d of mqd and kfake: %v", s.name, i, err)
			}
			said[i] = map[string]string{}
			flatten("", reflect.ValueOf(a).Elem(), said[i])
		}
		found = append(found, differences(s.name, said[0], said[1])...)
	}
	judge(t, found)
}

// differences lists where two answers differ.
func differences(name string, ours, theirs map[string]string) (list []string) {
	paths := map[string]bool{}
	for p := range ours {
		paths[p] = true
	}
	for p := range theirs {
		paths[p] = true
	}
	for p := range paths {
		a, b := ours[p], theirs[p]
		if a == "" {
			a = "-"
		}
		if b == "" {
			b = "-"
		}
		if a != b {
			list = append(list, strings.Join([]string{name, p, a, b}, " | "))
		}
	}
	slices.Sort(list)
	return list
}

// judge compares what was found with what is known.
func judge(t *testing.T, found []string) {
	b, err := os.ReadFile("testdata/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, " | ")
		if len(f) != 5 {
			t.Fatalf("%q has %d fields, expected 5", line, len(f))
		}
		reasons[strings.Join(f[:4], " | ")] = true
	}
	for _, d := range found {
		if *show {
			fmt.Println(d)
		} else if !reasons[d] {
			t.Errorf("a difference that is not known: %s", d)
		}
		delete(reasons, d)
	}
	for d := range reasons {
		t.Errorf("a difference that is no more: %s", d)
	}
}
