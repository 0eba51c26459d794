package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/test/history"
	"github.com/mqd-broker/mqd/test/powercut/fusedisk"
	"github.com/mqd-broker/mqd/test/rig"
)

// A broker compacts a topic that is written to, and images are taken while it does. Its
// first look at what it can compact comes after five seconds.
func TestPowerCutsDuringACompactionTakeNothing(t *testing.T) {
	fusedisk.Need(t)
	rig.NeedDriver(t)
	seed := newSeed(t)
	binary := rig.Binary(t)
	var sum report
	for i, v := range variants[:2] {
		t.Run(v.String(), func(t *testing.T) {
			if why := v.fs.Missing(); why != "" {
				t.Skip(why)
			}
			rng := rand.New(rand.NewPCG(seed, 100+uint64(i)))
			m := newMachine(t, v, binary)
			m.draw(rng)
			cuts, l, err := m.compact(rng, max(4, *imagesFlag/4))
			if err != nil {
				t.Fatalf("seed %d, serve %v: %v", seed, m.args, err)
			}
			for n, c := range cuts {
				if err := m.examine(c.Image, l.expect(c.before, c.after), second(rng.IntN(3)), rng, &sum); err != nil {
					t.Fatalf("seed %d, cut %d, serve %v: %v", seed, n, m.args, err)
				}
			}
		})
	}
	t.Logf("%v", &sum)
}

// compact has a broker on a new disk compact a topic, and takes n images meanwhile.
func (m *machine) compact(rng *rand.Rand, n int) (cuts []cut, l *load, err error) {
	defer func() { err = errors.Join(err, m.off()) }()
	d := m.format()
	if err := m.on(d, m.mountOptions(rng)); err != nil {
		return nil, nil, err
	}
	if err := m.launch("--shards", shards(rng)); err != nil {
		return nil, nil, err
	}
	addr, err := m.ready()
	if err != nil {
		return nil, nil, err
	}
	if l, err = startKeyed(addr, rng); err != nil {
		return nil, nil, err
	}
	// The next looks find work too.
	for len(cuts) < n {
		if err := m.untilCompacting(); err != nil {
			return nil, nil, errors.Join(err, m.kill(), l.end())
		}
		rest(context.Background(), upTo(rng, 5*time.Millisecond))
		cuts = append(cuts, take(d, rng, l.mark))
	}
	return cuts, l, errors.Join(m.kill(), l.end())
}

// startKeyed begins to write to a topic that is compacted.
func startKeyed(addr string, rng *rand.Rand) (*load, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, []string{addr}, client.WithClientID("load"))
	if err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.Background())
	l := &load{client: c, rng: rng, maxSize: 8 << 10, stop: stop}
	index, tp, err := l.create(ctx, history.Flushed, 4, map[string]string{
		"segment.bytes": "16KiB", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0",
	})
	if err == nil {
		err = l.startWriter(run, index, tp, 100*time.Microsecond, 200)
	}
	if err != nil {
		return nil, errors.Join(err, l.end())
	}
	return l, nil
}

// untilCompacting waits until a log is being written anew.
func (m *machine) untilCompacting() error {
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		found, err := filepath.Glob(filepath.Join(m.dir, "data", "topics", "*", "*", "*.log.tmp"))
		if err != nil || len(found) > 0 {
			return err
		}
	}
	return fmt.Errorf("nothing was compacted within %v; the broker said: %s", patience, m.broker.LogTail())
}
