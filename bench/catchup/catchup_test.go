package catchup

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// platform is a simulated machine in real time.
type platform struct{ w *sim.World }

func newPlatform() platform { return platform{sim.New(sim.Options{Seed: 1, Mode: sim.RealTime})} }

func (p platform) NewDriver(o aio.Options) (aio.Driver, error) { return p.w.Driver(o), nil }
func (p platform) Pin(int) error                               { return nil }
func (p platform) Yield()                                      { runtime.Gosched() }

const path = "/bare"

// begin starts a bare loop with three partitions of at least messages each.
func begin(t *testing.T, p platform, messages int64) *bare {
	t.Helper()
	b, err := startBare(p, path, 3, messages, bench.NoCPU)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Error(err)
		}
		if _, _, err := aio.OpenFile(p.w.Driver(aio.Options{}), path, 0); err == nil {
			t.Errorf("%s is left behind", path)
		}
	})
	return b
}

func TestABareLoopServesItsWholeFileAndAgain(t *testing.T) {
	p := newPlatform()
	b := begin(t, p, 3000)
	each := int64(b.layout.batches * batchMessages)
	if end := b.served.ends[2]; end < 3000 || end%each != 0 || end-each >= 3000 {
		t.Fatalf("3000 messages end at %d, of %d in a piece", end, each)
	}
	want := 3 * b.layout.pieces * int64(b.layout.used)
	for round := range 3 {
		r, err := read(t.Context(), p, b.served, bench.NoCPU)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if r.bytes != want || r.left != 0 || r.took <= 0 || r.rate() <= 0 {
			t.Errorf("round %d: %d bytes, %d partitions unread, expected %d", round, r.bytes, r.left, want)
		}
		for n, end := range b.served.ends {
			if r.offsets[n] != end {
				t.Errorf("round %d: partition %d was read up to %d of %d", round, n, r.offsets[n], end)
			}
		}
	}
}

func TestAReaderTakesNoBatchThatIsNotTheNextOne(t *testing.T) {
	one := len(batchOf(batchMessages))
	for name, c := range map[string]struct {
		change func(piece []byte)
		want   error
	}{
		"a bit that has changed": {func(piece []byte) { piece[one+batch.HeaderSize+20] ^= 1 }, batch.ErrCorrupt},
		"a batch that is missing": {func(piece []byte) {
			copy(piece[one:], piece[2*one:])
		}, bench.ErrFailed},
		"a batch twice": {func(piece []byte) { copy(piece[one:2*one], piece[:one]) }, bench.ErrFailed},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlatform()
			b := begin(t, p, 1)
			drv := p.w.Driver(aio.Options{})
			f, _, err := aio.OpenFile(drv, path, aio.OpenWrite|aio.OpenDirect)
			if err != nil {
				t.Fatal(err)
			}
			piece, err := drv.Alloc(pieceBytes)
			if err != nil {
				t.Fatal(err)
			}
			at := b.at(1, 0)
			if err := aio.Do(drv, &aio.Op{Kind: aio.KindRead, File: f, Buf: piece, Off: at}); err != nil {
				t.Fatal(err)
			}
			c.change(piece)
			if err := aio.WriteAt(drv, f, piece, at, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := read(t.Context(), p, b.served, bench.NoCPU); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestAReaderEndsWithItsContext(t *testing.T) {
	p := newPlatform()
	b := begin(t, p, 1)
	of := b.served
	of.ends = []int64{0, 0, 0}
	if r, err := read(t.Context(), p, of, bench.NoCPU); err != nil || r.bytes != 0 {
		t.Errorf("nothing to read: %+v, error %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := read(ctx, p, b.served, bench.NoCPU); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestOptionsThatCannotBeMeasuredAreRefused(t *testing.T) {
	for want, o := range map[string]Options{
		"partitions: 65":                    {Partitions: MaxPartitions + 1},
		"partitions: -1":                    {Partitions: -1},
		"messages: 511, expected 512":       {Messages: 511},
		"messages: 640, expected 1024 to 1": {Messages: 640, Partitions: 16},
		"rounds: -1":                        {Rounds: -1},
	} {
		if _, err := Run(t.Context(), newPlatform(), o); !errors.Is(err, bench.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", o, err, want)
		}
	}
}
