package interop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// library is a client that runs inside the test: a table of what it can.
type library struct {
	ops map[string]func(ctx context.Context, q request) (reply, error)
	// stop ends what is still running.
	stop []func()
}

func (l *library) do(ctx context.Context, q request) (reply, error) {
	op := l.ops[q.Op]
	if op == nil {
		return reply{Unsupported: "no " + q.Op}, nil
	}
	a, err := op(ctx, q)
	if none := unsupported(""); errors.As(err, &none) {
		return reply{Unsupported: string(none)}, nil
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a, nil
}

func (l *library) end() string {
	for _, f := range l.stop {
		f()
	}
	l.stop = nil
	return ""
}

// unsupported is the error of what a client does not have.
type unsupported string

func (u unsupported) Error() string { return string(u) }

// member is one of a group.
type member struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	owns int
	err  error
}

func (m *member) set(owns int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owns = owns
}

func (m *member) add(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owns += n
}

// members are those of a client's groups.
type members struct {
	// work is a member, until ctx ends: it notes what it reads, commits it, and keeps m.owns.
	work func(ctx context.Context, q request, m *member) error

	all map[string]*member // used by one goroutine

	mu    sync.Mutex
	seen  map[int]int
	reads int
}

// note counts records by their values.
func (g *members) note(values ...[]byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range values {
		number, _, _ := strings.Cut(string(v), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("a record with value %q", v)
		}
		g.seen[n]++
		g.reads++
	}
	return nil
}

// serve adds the members' requests to a client's.
func (g *members) serve(l *library) {
	g.all, g.seen = map[string]*member{}, map[int]int{}
	l.ops["join"] = func(_ context.Context, q request) (reply, error) {
		ctx, cancel := context.WithCancel(context.Background())
		m := &member{cancel: cancel, done: make(chan struct{})}
		g.all[q.Member] = m
		go func() {
			defer close(m.done)
			err := g.work(ctx, q, m)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.err = err
		}()
		return reply{}, nil
	}
	l.ops["leave"] = func(_ context.Context, q request) (reply, error) {
		m := g.all[q.Member]
		delete(g.all, q.Member)
		m.cancel()
		<-m.done
		return reply{}, m.err
	}
	l.ops["group"] = func(context.Context, request) (reply, error) {
		a := reply{Owns: map[string]int{}}
		for name, m := range g.all {
			m.mu.Lock()
			owns, err := m.owns, m.err
			m.mu.Unlock()
			if err != nil {
				return a, fmt.Errorf("member %s: %w", name, err)
			}
			a.Owns[name] = owns
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		a.Seen, a.Reads = slices.Collect(maps.Keys(g.seen)), g.reads
		return a, nil
	}
	l.ops["forget"] = func(context.Context, request) (reply, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		clear(g.seen)
		g.reads = 0
		return reply{}, nil
	}
	l.stop = append(l.stop, func() {
		for _, m := range g.all {
			m.cancel()
			<-m.done
		}
	})
}

// sending adds start and stop to a client's requests. flow sends records from 0 on until
// over ends, waits for their acknowledgements, and returns how many they are.
func sending(l *library, flow func(over context.Context, topic string) (int, error)) {
	type result struct {
		n   int
		err error
	}
	var cancel context.CancelFunc
	var results chan result
	l.ops["start"] = func(_ context.Context, q request) (reply, error) {
		var over context.Context
		over, cancel = context.WithCancel(context.Background())
		results = make(chan result, 1)
		go func(results chan<- result) {
			n, err := flow(over, q.Topic)
			results <- result{n, err}
		}(results)
		return reply{}, nil
	}
	l.ops["stop"] = func(ctx context.Context, _ request) (reply, error) {
		cancel()
		select {
		case r := <-results:
			return reply{N: r.n}, r.err
		case <-ctx.Done():
			return reply{}, ctx.Err()
		}
	}
	l.stop = append(l.stop, func() {
		if cancel != nil {
			cancel()
		}
	})
}

// sized is the value of a record of a topic, made as long as asked.
func sized(topic string, q request, i int) []byte {
	v := record(topic, i).Value
	if more := q.Size - len(v); more > 0 {
		v = append(v, strings.Repeat(".", more)...)
	}
	return v
}

// hello answers with the version of a module.
func hello(module string) func(context.Context, request) (reply, error) {
	return func(context.Context, request) (reply, error) {
		v, err := moduleVersion(module)
		return reply{Version: v}, err
	}
}
