package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// patience is how long anything may take before a test gives up.
const patience = 2 * time.Minute

// broker is a broker process with both protocols.
type broker struct {
	t      *testing.T
	dir    string
	args   []string
	proc   *process.Broker
	native string
	kafka  string
}

// start starts a broker on two shards.
func start(t *testing.T, args ...string) *broker {
	t.Helper()
	rig.NeedDriver(t)
	b := &broker{t: t, dir: rig.DataDir(t), kafka: freePort(t)}
	b.args = append([]string{"--kafka-listen", b.kafka, "--shards", "2", "--idle", "block", "--journal-size", "16MiB", "--auto-create-topics"}, args...)
	b.launch()
	t.Cleanup(b.kill)
	return b
}

// freePort is an address that nobody listens on. The broker takes it again after a
// restart, as clients expect: nobody who only connects, not even to it, is given a port of
// this address.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(250), rand.N(250), 1+rand.N(250)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func (b *broker) launch() {
	b.t.Helper()
	var err error
	if b.proc, err = process.Start(process.Config{Binary: rig.Binary(b.t), Dir: b.dir, Args: b.args}); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if b.native, _, err = b.proc.Ready(ctx); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) kill() {
	if err := b.proc.Kill(); err != nil {
		b.t.Error(err)
	}
	if b.t.Failed() {
		b.t.Log(b.proc.LogTail())
	}
}

// kgo makes a client of franz-go.
func (b *broker) kgo(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.kafka), kgo.AllowAutoTopicCreation()}, opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return c
}

// dial makes a client of the batch protocol.
func (b *broker) dial() *client.Client {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	c, err := client.Dial(ctx, []string{b.native})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// mqd makes a client of the batch protocol, and a topic.
func (b *broker) mqd(topic string, partitions int) *client.Client {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	c := b.dial()
	if _, err := c.Admin().CreateTopic(ctx, client.TopicSpec{Name: topic, Partitions: partitions}); err != nil {
		b.t.Fatal(err)
	}
	return c
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
