package halfopen

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
)

// patience bounds every wait. The kernel gives up a peer that says nothing after 30 s when
// something was sent to it, and after 60 s when nothing was.
const patience = 5 * time.Minute

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

var (
	adminLine = regexp.MustCompile(`msg="admin HTTP" address=(\S+)`)
	closed    = regexp.MustCompile(`(?m)^mqd_connections_closed_total\{[^}]*reason="([^"]*)"[^}]*\} ([1-9]\d*)$`)
)

// broker is one on the near machine.
type broker struct {
	t    *testing.T
	at   *host
	p    *process.Broker
	addr string
}

func start(t *testing.T, at *host, driver string) *broker {
	t.Helper()
	rig.NeedDriver(t)
	// The broker's own rule for silent connections is out of the way.
	args := []string{"--shards", "1", "--journal-size", "8MiB", "--cache-size", "8MiB", "--idle", "block",
		"--listen", at.ip + ":0", "--insecure", "--admin-listen", "127.0.0.1:0", "--idle-timeout", "24h", "--io", driver}
	p, err := process.Start(process.Config{Binary: at.wrapper(rig.Binary(t)), Dir: rig.DataDir(t), Args: args})
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, at: at, p: p}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			t.Errorf("%v; the broker said: %s", err, p.LogTail())
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if b.addr, _, err = p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return b
}

// closed is how many connections have ended, by the reason.
func (b *broker) closed() map[string]int {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	line, err := b.p.Said(ctx, `msg="admin HTTP"`)
	m := adminLine.FindStringSubmatch(line)
	if err != nil || m == nil {
		b.t.Fatalf("the log does not say where the admin HTTP is: %q, %v", line, err)
	}
	c, err := b.at.dial(b.t.Context(), m[1])
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "http://"+m[1]+"/metrics", nil)
	if err == nil {
		req.Close = true
		err = req.Write(c)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	sum := map[string]int{}
	for _, m := range closed.FindAllSubmatch(body, -1) {
		n, err := strconv.Atoi(string(m[2]))
		if err != nil {
			b.t.Fatal(err)
		}
		sum[string(m[1])] += n
	}
	return sum
}

// client connects from a machine.
func (b *broker) client(from *host) *client.Client {
	b.t.Helper()
	c, err := client.Dial(b.t.Context(), []string{b.addr}, client.WithDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return from.dial(ctx, addr)
	}))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(ctx)
	})
	return c
}

// peer opens a connection from a machine, says hello, and keeps quiet.
func (b *broker) peer(from *host) *rig.Conn {
	b.t.Helper()
	nc, err := from.dial(b.t.Context(), b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	c := rig.NewConn(nc)
	b.t.Cleanup(func() { _ = c.Close() })
	if err := c.Handshake(); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// poll asks for a message that is not there yet, and waits very long for it. The ping
// behind it is answered when the broker knows of it.
func poll(t *testing.T, c *rig.Conn, id wire.TopicID, offset int64) {
	t.Helper()
	r := wire.FetchRequest{Topic: id, Offset: offset, MaxWait: uint32((time.Hour).Milliseconds()), MinBytes: 1, MaxBytes: 1 << 20}
	if err := c.Write(wire.AppendFetchRequest(nil, c.Next(), &r)); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(); err != nil {
		t.Fatal(err)
	}
}

// Machines vanish without a word. TCP would hold a broker's connections to them for a
// quarter of an hour, and those on which it has nothing to say for ever; mqd ends them
// all: one that is silent, one in a long poll, one that is sent a message, and that of a
// client that comes back, goes on by itself and gets what it has missed, once.
func TestConnectionsToMachinesThatVanishEnd(t *testing.T) {
	for _, driver := range []string{"auto", "portable"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			near, far := network(t)
			mustOutlive(start(t, near, driver), near, far)
		})
	}
}

func mustOutlive(b *broker, near, far *host) {
	t := b.t
	here := b.client(near)
	ids := map[string]wire.TopicID{"alerts": {}, "quiet": {}}
	for name := range ids {
		var err error
		if ids[name], err = here.Admin().CreateTopic(t.Context(), client.TopicSpec{Name: name, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
	}
	alerts, err := here.Producer("alerts")
	if err != nil {
		t.Fatal(err)
	}
	send := func(text string) {
		t.Helper()
		if _, err := alerts.Send(t.Context(), client.Record{Value: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	read := func() string {
		all, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(all)
	}
	b.consume(far, "alerts", out)
	send("before")
	wait(t, "the consumer reads", func() bool { return read() == "before\n" })

	b.peer(far) // says nothing
	poll(t, b.peer(far), ids["quiet"], 0)
	poll(t, b.peer(far), ids["alerts"], 1)
	if ended := b.closed(); len(ended) != 0 {
		t.Fatalf("connections have ended: %v", ended)
	}
	far.vanish()
	began := time.Now()
	send("during")
	wait(t, "the four connections to the machine have ended", func() bool { return b.closed()["closed by peer"] == 4 })
	t.Logf("all have ended after %v", time.Since(began).Round(time.Second))
	send("still") // who is here is served as before
	if ended := b.closed(); len(ended) != 1 {
		t.Errorf("connections have ended: %v", ended)
	}
	far.comeBack()
	const want = "before\nduring\nstill\n"
	wait(t, "the consumer has what it has missed", func() bool { return len(read()) >= len(want) })
	if got := read(); got != want {
		t.Errorf("it has read %q, want %q", got, want)
	}
}

// consume runs mqd consume --follow on a machine.
func (b *broker) consume(at *host, topic, out string) {
	b.t.Helper()
	f, err := os.Create(out)
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	var errs bytes.Buffer
	cmd := at.command(rig.Binary(b.t), "consume", topic, "--follow", "--server", b.addr)
	cmd.Stdout, cmd.Stderr = f, &errs
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if b.t.Failed() {
			b.t.Logf("mqd consume said: %s", fmt.Sprint(&errs))
		}
	})
}
