package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/node"
	"github.com/mqd-broker/mqd/test/rig"
)

const (
	dataDir  = "/data"
	maxTurns = 200_000
	// clientWait is how long the client waits when nothing comes.
	clientWait = 100 * time.Microsecond
)

// machine is a simulated machine with a whole node on it.
type machine struct {
	w     *sim.World
	rng   *rand.Rand
	cfg   node.Config
	n     *node.Manual // nil while there is none
	link  *link
	notes []string
	harm  harm
}

// harm changes the drivers of a node, to show that the checks notice; nil: nothing.
type harm func(aio.Driver) aio.Driver

func newMachine(w *sim.World, cfg node.Config, rng *rand.Rand, h harm) (*machine, error) {
	m := &machine{w: w, rng: rng, cfg: cfg, harm: h}
	m.cfg.Dir, m.cfg.Listen, m.cfg.Version, m.cfg.Idle = dataDir, "127.0.0.1:7878", "images", shard.IdleBlock
	m.cfg.RecvBuffers, m.cfg.IndexBytes, m.cfg.IdleTimeout = 16, 64<<10, time.Hour
	m.cfg.Log = slog.New((*recorder)(m))
	var err error
	m.link, err = newLink(w, m.cfg.Listen)
	return m, err
}

// platform puts the shards on the machine.
type platform machine

func (p *platform) NewDriver(_ int, o aio.Options) (aio.Driver, error) {
	o.Entries, o.RecvBufferBytes = 128, 16<<10
	var d aio.Driver = p.w.Driver(o)
	if p.harm != nil {
		d = p.harm(d)
	}
	return tap{d, p.link}, nil
}

func (p *platform) Thread(int) shard.Thread { return nil }
func (p *platform) Locked() bool            { return false }
func (p *platform) Pin(int) error           { return nil }

// recorder keeps what tells of damage in the node's log.
type recorder machine

func (l *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (l *recorder) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *recorder) WithGroup(string) slog.Handler            { return l }

func (l *recorder) Handle(_ context.Context, rec slog.Record) error {
	if tellsOfDamage(rec.Message) {
		l.notes = append(l.notes, rec.Message)
	}
	return nil
}

func tellsOfDamage(line string) bool {
	return strings.Contains(line, "DAMAGED") || strings.Contains(line, "LOSS") || strings.Contains(line, "cannot be used") ||
		strings.Contains(line, "passed over")
}

// start starts the node and connects to it.
func (m *machine) start() error {
	n, err := node.StartManual(m.cfg, (*platform)(m))
	if err != nil {
		return err
	}
	m.n = n
	ready := false
	if err := m.link.connect(func(h *wire.Header, _ []byte) { ready = h != nil && !h.IsError() }); err != nil {
		return err
	}
	return m.until("the connection", func() bool { return ready })
}

// turn gives the client and every shard a turn.
func (m *machine) turn() error {
	if _, err := m.link.far.Poll(clientWait); err != nil {
		return err
	}
	if m.link.err != nil {
		return m.link.err
	}
	first := m.rng.IntN(m.cfg.Shards)
	for i := range m.cfg.Shards {
		if err := m.n.Step((first + i) % m.cfg.Shards); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) until(what string, done func() bool) error {
	for n := 0; !done(); n++ {
		if n > maxTurns {
			return fmt.Errorf("never: %s", what)
		}
		if err := m.turn(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// call sends a request and waits for its answer, which it returns as a copy.
func (m *machine) call(encode func(corr uint32) []byte) ([]byte, error) {
	var body []byte
	var err error
	done := false
	m.link.do(encode, func(h *wire.Header, b []byte) {
		done = true
		switch {
		case h == nil:
			err = errors.New("no answer")
		case h.IsError():
			e, bad := wire.DecodeErrorResponse(b)
			err = errors.Join(fmt.Errorf("%v %s", e.Code, e.Message), bad)
		default:
			body = append(body, b...)
		}
	})
	if err := m.until("an answer", func() bool { return done }); err != nil {
		return nil, err
	}
	return body, err
}

// Fetch implements rig.Fetcher.
func (m *machine) Fetch(req wire.FetchRequest) (wire.FetchResponse, error) {
	req.MaxBytes, req.MaxRecords = 64<<10, 0
	body, err := m.call(func(corr uint32) []byte { return wire.AppendFetchRequest(nil, corr, &req) })
	if err != nil {
		return wire.FetchResponse{}, err
	}
	return wire.DecodeFetchResponse(body)
}

// readAll reads all that the node serves.
func (m *machine) readAll() (*found, error) {
	got := newFound()
	got.stats, got.notes = m.n.Node().RecoveryStats(), m.notes
	body, err := m.call(func(corr uint32) []byte {
		return wire.AppendMetadataRequest(nil, corr, wire.MetadataRequest{All: true})
	})
	if err != nil {
		return nil, err
	}
	md, err := wire.DecodeMetadataResponse(body)
	if err != nil {
		return nil, err
	}
	for _, t := range md.Topics {
		tp := &topic{name: t.Name, id: t.ID}
		got.topics[t.ID] = &topicFound{t.Name, classOf(t.Class)}
		for n := range t.PartitionShards {
			p := &part{topic: tp, n: int32(n)}
			r, err := m.read(p)
			if err != nil {
				return nil, fmt.Errorf("%v: %w", p, err)
			}
			got.parts[p.key()] = r
		}
	}
	return got, nil
}

// read reads a partition from its start to its end.
func (m *machine) read(p *part) (*reading, error) {
	var bounds [2]int64
	for i, time := range []int64{wire.TimeStart, wire.TimeEnd} {
		body, err := m.call(func(corr uint32) []byte {
			return wire.AppendListOffsetsRequest(nil, corr, wire.ListOffsetsRequest{Topic: p.topic.id, Partition: p.n, Time: time})
		})
		if err != nil {
			return nil, err
		}
		o, err := wire.DecodeListOffsetsResponse(body)
		if err != nil || o.Code != wire.CodeNone {
			return nil, fmt.Errorf("bounds: %v %w", o.Code, err)
		}
		bounds[i] = o.Offset
	}
	r := &reading{start: bounds[0], end: bounds[1]}
	return r, rig.ReadAll(m, p.topic.id, p.n, r.start, r.end, r)
}
