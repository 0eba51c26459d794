package admin

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/internal/seed"
	"github.com/mqd-broker/mqd/node"
)

// patience ends a test that hangs. Nothing is measured with it.
const patience = 60 * time.Second

// platform runs shards on a simulated machine.
type platform struct{ w *sim.World }

func (p platform) NewDriver(_ int, o aio.Options) (aio.Driver, error) { return p.w.Driver(o), nil }
func (platform) Thread(int) shard.Thread                              { return nil }
func (platform) Locked() bool                                         { return false }
func (platform) Pin(int) error                                        { return nil }

// rig is a service on a simulated machine with its front.
type rig struct {
	t       *testing.T
	w       *sim.World
	service *node.Service
	front   *Server
}

var seeds = seed.New("admin")

// newRig makes a front for a service that has not been started.
func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	n, _ := seeds.Of(t)
	t.Logf("seed %d (-admin.rig)", n)
	r := &rig{t: t, w: sim.New(sim.Options{Seed: n, Mode: sim.RealTime}), service: node.NewService()}
	o := Options{Listen: "127.0.0.1:0", Version: `v1.2.3 "test"`, Service: r.service, Log: slog.New(slog.DiscardHandler), patience: patience}
	for _, f := range change {
		f(&o)
	}
	var err error
	if r.front, err = Listen(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.front.Close(); err != nil {
			t.Error(err)
		}
		r.w.Kill()
		_ = r.service.Stop(context.Background()) // the machine is dead
	})
	return r
}

// start starts the service's node with two shards and some topics.
func (r *rig) start() {
	r.t.Helper()
	err := r.service.Start(r.t.Context(), node.Config{
		Dir: "/data", Listen: "127.0.0.1:7878", Shards: 2, JournalBytes: 2 << 20, CacheBytes: 8 << 20,
		MaxMessageBytes: 128 << 10, RecvBuffers: 32, Version: "test",
	}, platform{r.w})
	if err != nil {
		r.t.Fatal(err)
	}
}

// flushesFail has every write and flush of the machine fail, until the function that it
// returns is called.
func (r *rig) flushesFail() func() {
	return r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes | sim.Flushes}, Times: sim.Always}).End
}

// ask sends a request and returns status and body.
func (r *rig) ask(method, path string, header ...string) (int, string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.front.Addr()+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if path == PathMetrics && res.StatusCode == http.StatusOK && res.Header.Get("Content-Type") != contentType {
		r.t.Errorf("content type %q", res.Header.Get("Content-Type"))
	}
	return res.StatusCode, string(body)
}

// mustSay expects an answer of a status with some words in it.
func (r *rig) mustSay(path string, status int, words ...string) {
	r.t.Helper()
	got, body := r.ask(http.MethodGet, path)
	if got != status {
		r.t.Errorf("%s: status %d, expected %d: %s", path, got, status, body)
	}
	for _, w := range words {
		if !strings.Contains(body, w) {
			r.t.Errorf("%s: %q is not in %q", path, w, body)
		}
	}
}

// decode reads a JSON answer strictly.
func (r *rig) decode(path string, into any) {
	r.t.Helper()
	status, body := r.ask(http.MethodGet, path)
	dec := json.NewDecoder(strings.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); status != http.StatusOK || err != nil {
		r.t.Fatalf("%s: status %d, %v: %s", path, status, err, body)
	}
}

// scrape reads metrics as strictly as a test can.
func (r *rig) scrape(path string) samples {
	r.t.Helper()
	status, body := r.ask(http.MethodGet, path)
	if status != http.StatusOK {
		r.t.Fatalf("%s: status %d: %s", path, status, body)
	}
	s, err := parse(body)
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", path, err, body)
	}
	return s
}

// dial connects a client, which is closed with the test.
func (r *rig) dial() *client.Client {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	c, err := client.Dial(ctx, []string{"127.0.0.1:7878"},
		client.WithDialer(func(_ context.Context, addr string) (net.Conn, error) { return r.w.DialConn(addr) }))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(ctx) // everything that matters has been waited for
	})
	return c
}

// produce makes a topic and sends a message to its first partition.
func (r *rig) produce(topic string, partitions int, value string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	c := r.dial()
	if _, err := c.Admin().CreateTopic(ctx, client.TopicSpec{Name: topic, Partitions: partitions}); err != nil {
		r.t.Fatal(err)
	}
	p, err := c.Producer(topic, client.WithPartition(0))
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := p.Send(ctx, client.Record{Value: []byte(value)}); err != nil {
		r.t.Fatal(err)
	}
}

// fail has a log of a machine whose device fails find out.
func (r *rig) fail() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if _, err := r.dial().Admin().CreateTopic(ctx, client.TopicSpec{Name: "late", Partitions: 1}); err == nil {
		r.t.Fatal("a topic was made on a device that fails")
	}
}
