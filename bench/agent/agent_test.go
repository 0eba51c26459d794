package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/figure"
	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// simPlatform is a simulated machine in real time.
type simPlatform struct{ w *sim.World }

func (p simPlatform) NewDriver(o aio.Options) (aio.Driver, error) { return p.w.Driver(o), nil }
func (p simPlatform) Pin(int) error                               { return nil }
func (p simPlatform) Yield()                                      { runtime.Gosched() }

func newPlatform() simPlatform {
	return simPlatform{sim.New(sim.Options{Seed: 1, Mode: sim.RealTime})}
}

var token = []byte("a token of the tests")

// serve starts an agent and returns its address.
func serve(t *testing.T, o Options) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.Host == nil {
		o.Host = func() machine.Host { return machine.Host{Kernel: "of the test"} }
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, newPlatform(), o) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Errorf("the agent ended: %v", err)
		}
	})
	return l.Addr().String()
}

// The error of an offset bounds how wrong it is, wherever within an exchange the other
// clock was read.
func TestTheErrorOfAnOffsetBoundsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ahead := rapid.Int64Range(-1<<50, 1<<50).Draw(t, "ahead")
		var all []exchange
		now := rapid.Int64Range(0, 1<<50).Draw(t, "now")
		shortest := int64(1) << 40
		for range rapid.IntRange(1, 20).Draw(t, "exchanges") {
			there, back := rapid.Int64Range(0, 1e9).Draw(t, "there"), rapid.Int64Range(0, 1e9).Draw(t, "back")
			all = append(all, exchange{sent: now, at: now + there + ahead, received: now + there + back})
			shortest = min(shortest, there+back)
			now += there + back
		}
		got := offset(all)
		if wrong := got.Ahead - ahead; max(wrong, -wrong) > got.Error || got.Error > (shortest+1)/2 {
			t.Fatalf("%+v: ahead by %d, the shortest exchange took %d", got, ahead, shortest)
		}
	})
}

func TestOffsetsOfTwoAgentsAddTheirErrors(t *testing.T) {
	a, b := Offset{Ahead: 100, Error: 3}, Offset{Ahead: 250, Error: 4}
	if got := between(a, b); got != (Offset{Ahead: 150, Error: 7}) {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		before, after Offset
		want          int64
	}{
		{Offset{100, 7}, Offset{100, 5}, 7},
		{Offset{100, 7}, Offset{104, 5}, 9},
		{Offset{100, 7}, Offset{80, 5}, 25},
	} {
		if got := drifted(c.before, c.after); got != c.want {
			t.Errorf("%+v, then %+v: %d, want %d", c.before, c.after, got, c.want)
		}
	}
}

func TestAProofIsOfOneEndOneTokenAndTwoNonces(t *testing.T) {
	seen := map[string]string{}
	for _, c := range [][4]string{
		{"token", "agent", "a", "b"}, {"other", "agent", "a", "b"}, {"token", "coordinator", "a", "b"},
		{"token", "agent", "b", "a"}, {"token", "agent", "ab", ""}, {"token", "agent", "", "ab"},
	} {
		p := proof([]byte(c[0]), c[1], c[2], c[3])
		if before, ok := seen[p]; ok {
			t.Errorf("%q and %s have one proof", c, before)
		}
		seen[p] = fmt.Sprint(c)
	}
}

func TestWithoutTheTokenNothingIsServed(t *testing.T) {
	addr, another := serve(t, Options{Token: token}), serve(t, Options{Token: token})
	p := newPlatform()
	for _, bad := range []string{"", "another token of tests"} {
		if _, err := Dial(t.Context(), p, []byte(bad), []string{addr}, []string{another}); !errors.Is(err, ErrAgent) {
			t.Errorf("token %q: error %v", bad, err)
		}
	}
	if err := Serve(t.Context(), nil, p, Options{Token: token[:MinToken-1]}); !errors.Is(err, bench.ErrConfig) {
		t.Errorf("a short token: error %v", err)
	}
	// Who speaks without a proof gets nothing but a refusal.
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := newConn(nc)
	if _, err := c.expect(hello); err != nil {
		t.Fatal(err)
	}
	if err := c.write(frame{Kind: ping}); err != nil {
		t.Fatal(err)
	}
	if f, err := c.read(); err == nil {
		t.Errorf("answered %+v", f)
	}
}

// An impostor that does not know the token is found out by the coordinator.
func TestAnAgentProvesItselfToo(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		defer there.Close()
		c := newConn(there)
		_ = c.write(frame{Kind: hello, Version: version, Nonce: "00"})
		if _, err := c.expect(prove); err == nil {
			_ = c.write(frame{Kind: welcome, Proof: "00", Host: &machine.Host{}})
		}
	}()
	if _, err := newConn(here).introduce(token); !errors.Is(err, ErrToken) {
		t.Errorf("error %v", err)
	}
}

func TestAStrangersFrameIsShort(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		_, _ = there.Write(binary.BigEndian.AppendUint32(nil, beforeProof+1))
		_ = there.Close()
	}()
	if _, err := newConn(here).read(); !errors.Is(err, ErrAgent) || !strings.Contains(err.Error(), "4097 bytes") {
		t.Errorf("error %v", err)
	}
}

func TestAnAgentWorksForOneCoordinatorAtATime(t *testing.T) {
	addr, other := serve(t, Options{Token: token}), serve(t, Options{Token: token})
	p := newPlatform()
	f, err := Dial(t.Context(), p, token, []string{addr}, []string{other})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	for _, a := range f.Agents() {
		got = append(got, a.Role+" "+a.Host.Kernel)
	}
	if want := []string{"produce of the test", "consume of the test"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := f.askAll(); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), p, token, []string{addr}, []string{other}); !errors.Is(err, ErrAgent) || !strings.Contains(err.Error(), "another coordinator") {
		t.Errorf("the second coordinator: %v", err)
	}
	if _, err := Dial(t.Context(), p, token, []string{addr}, nil); !errors.Is(err, bench.ErrConfig) {
		t.Errorf("nobody consumes: %v", err)
	}
}

func TestFramesOutOfPlaceAreRefused(t *testing.T) {
	addr := serve(t, Options{Token: token})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := newConn(nc)
	if _, err := c.introduce(token); err != nil {
		t.Fatal(err)
	}
	for _, f := range []frame{{Kind: begin}, {Kind: ended}, {Kind: plan}, {Kind: "x"}, {Kind: plan, Plan: &bench.Plan{}}} {
		if err := c.write(f); err != nil {
			t.Fatal(err)
		}
		if _, err := c.expect(ready); !errors.Is(err, ErrAgent) {
			t.Errorf("%+v: error %v", f, err)
		}
	}
	before := time.Now()
	if err := c.write(frame{Kind: ping}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.expect(pong); err != nil {
		t.Fatalf("after %v: %v", time.Since(before), err)
	}
}

// pipe is an agent that says what the test has it say.
func pipe(t *testing.T, says ...frame) *Agent {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close() })
	go func() {
		defer there.Close()
		c := newConn(there)
		for _, f := range says {
			if c.write(f) != nil {
				return
			}
		}
	}()
	c := newConn(here)
	c.limit = largest
	return &Agent{Addr: "a pipe", conn: c}
}

func TestWhatAgentsShowIsSeenUntilTheyHaveFound(t *testing.T) {
	f := &Fleet{seen: figure.NewGlance()}
	g := figure.NewGlance()
	g.Acked = 3
	g.Ack.Record(1000, 3)
	all := &bench.Found{Ack: g.Ack, Service: g.Ack, Lag: g.Ack, Late: g.Ack, EndToEnd: g.Ack, EndToEndService: g.Ack, Series: figure.NewSeries(time.Second)}
	got := <-f.gather([]*Agent{pipe(t, frame{Kind: glance, Glance: g}, frame{Kind: found, Found: all}), pipe(t, frame{Kind: glance, Glance: g}, frame{Kind: found, Found: all})})
	if got.err != nil || len(got.found) != 2 || got.found[1].Ack.Count() != 3 {
		t.Fatalf("%+v", got)
	}
	if seen := f.Look(); seen.Acked != 6 || seen.Ack.Count() != 6 {
		t.Errorf("%+v", seen)
	}
	if seen := f.Look(); seen.Acked != 0 {
		t.Errorf("seen twice: %+v", seen)
	}
}

func TestTheFirstAgentThatFailsEndsTheWait(t *testing.T) {
	f := &Fleet{seen: figure.NewGlance()}
	for name, says := range map[string]frame{
		"its words": {Kind: failed, Error: "its words"}, "instead of": {Kind: pong}, `"found" instead`: {Kind: found, Found: &bench.Found{}}, `"glance" instead`: {Kind: glance},
	} {
		// The other one never says anything.
		here, there := net.Pipe()
		got := <-f.gather([]*Agent{{Addr: "silent", conn: newConn(here)}, pipe(t, says)})
		if !errors.Is(got.err, ErrAgent) || !strings.Contains(got.err.Error(), name) || !strings.Contains(got.err.Error(), "a pipe") {
			t.Errorf("%s: %v", name, got.err)
		}
		if err := errors.Join(here.Close(), there.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsNoAgentIsSaid(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var strangers sync.WaitGroup
	strangers.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			_ = nc.Close()
		}
	})
	defer strangers.Wait()
	defer l.Close()
	here, other := l.Addr().String(), "127.0.0.1:1"
	for _, c := range []struct {
		produce, consume string
		want             string
	}{
		{here, other, "bench agent: what listens at " + here + " ends the connection without an answer, as no agent does"},
		{other, here, "bench agent: none listens at 127.0.0.1:1 (connection refused); start one there with: mqd bench agent --listen 127.0.0.1:1"},
		{here, here, bench.ErrConfig.Error() + ": an agent at " + here + " twice, expected another for each part: it works for one coordinator at a time"},
	} {
		if _, err := Dial(t.Context(), newPlatform(), token, []string{c.produce}, []string{c.consume}); err == nil || err.Error() != c.want {
			t.Errorf("%s and %s: error %v, want %s", c.produce, c.consume, err, c.want)
		}
	}
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	if got, want := plainDial("x:1", timeout).Error(), "bench agent: x:1 does not answer within 10s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
