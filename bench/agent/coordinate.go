package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/figure"
	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/engine/aio"
)

const (
	// exchanges is how often an agent is asked for its time.
	exchanges = 64
	// lead is the time between the last agent's answer and the first message.
	lead = 200 * time.Millisecond
)

// Agent is one that takes part.
type Agent struct {
	Addr string `json:"address"`
	// Role is "produce" or "consume".
	Role string       `json:"role"`
	Host machine.Host `json:"host"`
	// Clock is how its clock stood to the coordinator's when it was asked last.
	Clock Offset `json:"clock"`

	conn *conn
}

// Fleet are agents that measure together.
type Fleet struct {
	producers, consumers []*Agent
	p                    bench.Platform
	clock                aio.Clock
	end                  func() bool

	mu   sync.Mutex
	seen *figure.Glance // since the last look
}

// Look is what the agents have shown since the last time.
func (f *Fleet) Look() *figure.Glance {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.seen
	f.seen = figure.NewGlance()
	return g
}

// result waits for what an agent has found, and keeps what it shows meanwhile.
func (f *Fleet) result(a *Agent) (*bench.Found, error) {
	for {
		got, err := a.conn.read()
		switch {
		case err != nil:
			return nil, err
		case got.Kind == glance && got.Glance != nil && got.Glance.Ack != nil && got.Glance.EndToEnd != nil:
			f.mu.Lock()
			f.seen.Add(got.Glance)
			f.mu.Unlock()
		case got.Kind == found && got.Found != nil && got.Found.Whole():
			return got.Found, nil
		case got.Kind == failed:
			return nil, fmt.Errorf("%w: %s", ErrAgent, got.Error)
		default:
			return nil, fmt.Errorf("%w: a frame %q instead of what it has found", ErrAgent, got.Kind)
		}
	}
}

// Dial connects to agents that produce and to other agents that consume. Fleet.Close ends
// the connections, and so does the context.
func Dial(ctx context.Context, p bench.Platform, token []byte, produce, consume []string) (*Fleet, error) {
	if len(produce) == 0 || len(consume) == 0 {
		return nil, fmt.Errorf("%w: %d agents that produce and %d that consume, expected at least one of both", bench.ErrConfig, len(produce), len(consume))
	}
	all := slices.Concat(produce, consume)
	for i, addr := range all {
		if slices.Contains(all[:i], addr) {
			return nil, fmt.Errorf("%w: an agent at %s twice, expected another for each part: it works for one coordinator at a time", bench.ErrConfig, addr)
		}
	}
	f := &Fleet{p: p, seen: figure.NewGlance(), end: func() bool { return true }}
	var err error
	if f.clock, err = bench.ClockOf(p); err != nil {
		return nil, err
	}
	for i, addr := range all {
		a := &Agent{Addr: addr, Role: "produce"}
		if i >= len(produce) {
			a.Role = "consume"
		}
		if err := a.dial(ctx, token); err != nil {
			f.Close()
			return nil, plainDial(addr, err)
		}
		if a.Role == "produce" {
			f.producers = append(f.producers, a)
		} else {
			f.consumers = append(f.consumers, a)
		}
	}
	f.end = context.AfterFunc(ctx, f.hangUp)
	return f, nil
}

// plainDial is an error of dialing an agent, in the words of who starts agents.
func plainDial(addr string, err error) error {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: none listens at %s (connection refused); start one there with: mqd bench agent --listen %s", ErrAgent, addr, addr)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%w: what listens at %s ends the connection without an answer, as no agent does", ErrAgent, addr)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w: %s does not answer within %v", ErrAgent, addr, handshakeWait)
	}
	return fmt.Errorf("%s: %w", addr, err)
}

func (a *Agent) dial(ctx context.Context, token []byte) error {
	d := net.Dialer{Timeout: handshakeWait}
	nc, err := d.DialContext(ctx, "tcp", a.Addr)
	if err != nil {
		return err
	}
	a.conn = newConn(nc)
	err = nc.SetDeadline(time.Now().Add(handshakeWait))
	if err == nil {
		a.Host, err = a.conn.introduce(token)
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	if err != nil {
		return errors.Join(err, nc.Close())
	}
	return nil
}

// Agents are all, those that produce first.
func (f *Fleet) Agents() []*Agent { return slices.Concat(f.producers, f.consumers) }

// Close ends the connections; what agents have under way for them ends too.
func (f *Fleet) Close() {
	f.end()
	f.hangUp()
}

func (f *Fleet) hangUp() {
	for _, a := range f.Agents() {
		_ = a.conn.nc.Close()
	}
}

// ask measures how an agent's clock stands.
func (f *Fleet) ask(a *Agent) (Offset, error) {
	all := make([]exchange, exchanges)
	for i := range all {
		all[i].sent = f.clock.Now()
		if err := a.conn.write(frame{Kind: ping}); err != nil {
			return Offset{}, err
		}
		answer, err := a.conn.expect(pong)
		if err != nil {
			return Offset{}, err
		}
		all[i].received, all[i].at = f.clock.Now(), answer.At
	}
	return offset(all), nil
}

// askAll asks all agents in turn, and keeps what they have said.
func (f *Fleet) askAll() ([]Offset, error) {
	all := make([]Offset, len(f.Agents()))
	err := each(f.Agents(), func(i int, a *Agent) (err error) {
		a.Clock, err = f.ask(a)
		all[i] = a.Clock
		return err
	})
	return all, err
}

// each does something with every agent in turn.
func each(all []*Agent, do func(i int, a *Agent) error) error {
	for i, a := range all {
		if err := do(i, a); err != nil {
			return fmt.Errorf("%s: %w", a.Addr, err)
		}
	}
	return nil
}

// Run makes one measurement. After an error the fleet is of no use any more.
func (f *Fleet) Run(ctx context.Context, target bench.Target, load bench.Load) (*bench.Result, error) {
	load.Connections = max(load.Connections, len(f.producers))
	load.Partitions = max(1, load.Partitions)
	if load.Partitions < len(f.consumers) {
		return nil, fmt.Errorf("%w: %d partitions for %d agents that consume", bench.ErrConfig, load.Partitions, len(f.consumers))
	}
	shared, err := bench.NewShared(f.p, target, load)
	if err != nil {
		return nil, err
	}
	all, clockError, err := f.measure(shared, load)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		f.Close()
		return nil, errors.Join(err, shared.Drop())
	}
	res, err := shared.Finish(all)
	if err == nil {
		res.ClockError = clockError
	}
	return res, err
}

// measure has the agents do their parts and returns what they have found, and by how much
// times from end to end may be wrong.
func (f *Fleet) measure(shared *bench.Shared, load bench.Load) ([]*bench.Found, int64, error) {
	before, err := f.askAll()
	if err != nil {
		return nil, 0, err
	}
	if err := f.prepare(shared); err != nil {
		return nil, 0, err
	}
	at := f.clock.Now() + int64(lead)
	if err := each(f.Agents(), func(_ int, a *Agent) error {
		return a.conn.write(frame{Kind: begin, At: at + a.Clock.Ahead})
	}); err != nil {
		return nil, 0, err
	}
	producing, consuming := f.gather(f.producers), f.gather(f.consumers)
	var all gathered
	select {
	case all = <-producing:
	case all = <-consuming:
		if all.err == nil {
			all.err = fmt.Errorf("%w: consumers have ended before the producers", ErrAgent)
		}
	}
	if all.err != nil {
		return nil, 0, all.err
	}
	acked := bench.Acked(load, all.found)
	if err := each(f.consumers, func(_ int, a *Agent) error { return a.conn.write(frame{Kind: ended, Acked: acked}) }); err != nil {
		return nil, 0, err
	}
	read := <-consuming
	if read.err != nil {
		return nil, 0, read.err
	}
	if _, err = f.askAll(); err != nil {
		return nil, 0, err
	}
	return append(all.found, read.found...), f.worst(before), nil
}

// prepare hands out the plans and waits until all are connected.
func (f *Fleet) prepare(shared *bench.Shared) error {
	return each(f.Agents(), func(i int, a *Agent) error {
		part := bench.Part{Produce: bench.Slice{Index: i, Of: len(f.producers)}}
		var clocks []int64
		if n := i - len(f.producers); n >= 0 {
			part = bench.Part{Consume: bench.Slice{Index: n, Of: len(f.consumers)}}
			for _, from := range f.producers {
				clocks = append(clocks, between(from.Clock, a.Clock).Ahead)
			}
		}
		p := shared.Plan(part, clocks)
		if err := a.conn.write(frame{Kind: plan, Plan: &p}); err != nil {
			return err
		}
		_, err := a.conn.expect(ready)
		return err
	})
}

// gathered is what agents have found, or what the first that failed says.
type gathered struct {
	found []*bench.Found
	err   error
}

// gather waits for agents beside the caller. The first that fails ends the wait: others
// may be waiting for it.
func (f *Fleet) gather(agents []*Agent) <-chan gathered {
	type answer struct {
		i     int
		found *bench.Found
		err   error
	}
	answers, result := make(chan answer, len(agents)), make(chan gathered, 1)
	for i, a := range agents {
		go func() {
			got, err := f.result(a)
			answers <- answer{i, got, err}
		}()
	}
	go func() {
		all := gathered{found: make([]*bench.Found, len(agents))}
		for range agents {
			got := <-answers
			if got.err != nil {
				all.err = fmt.Errorf("%s: %w", agents[got.i].Addr, got.err)
				break
			}
			all.found[got.i] = got.found
		}
		result <- all
	}()
	return result
}

// worst is the largest error of a time that one agent has taken and another counts from.
func (f *Fleet) worst(before []Offset) int64 {
	worst := int64(0)
	for i, from := range f.producers {
		for j, to := range f.consumers {
			j += len(f.producers)
			worst = max(worst, drifted(between(before[i], before[j]), between(from.Clock, to.Clock)))
		}
	}
	return worst
}
