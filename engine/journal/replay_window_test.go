package journal

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

// readCounter is a region that counts how often each of its blocks is read.
type readCounter struct {
	*memRegion
	reads []int
}

func newReadCounter(r *memRegion) *readCounter {
	return &readCounter{r, make([]int, len(r.data)/BlockSize)}
}

func (c *readCounter) Read(op *aio.Op, buf []byte, off int64) {
	for at := off; at < off+int64(len(buf)); at += BlockSize {
		c.reads[at/BlockSize]++
	}
	c.memRegion.Read(op, buf, off)
}

// total is the number of blocks of the ring that were read, and most how often one was.
func (c *readCounter) total() (n, most int) {
	for _, k := range c.reads[RingStart/BlockSize:] {
		n, most = n+k, max(most, k)
	}
	return n, most
}

// largeBench is a journal of 20 MiB with about 5 MiB of rounds of up to 1 MiB in use,
// which pass the end of the ring.
func largeBench(t *testing.T, o Options) *bench {
	o.RoundBytes = 1 << 20
	b := newBench(t, 20<<20, o)
	for range 3 {
		for _, n := range []int{1e6, 100, 3e5, 7e5, 5000, 1e6, 2e4, 1e6, 100, 1e6, 1e6, 8e5, 8e5, 4e5} {
			b.write(n, NeedFlushed)
			if b.j.WrittenLSN() > 8 {
				b.j.Release(b.j.WrittenLSN() - 8)
				b.run()
			}
		}
	}
	return b
}

func TestAReplayReadsNoBlockTwice(t *testing.T) {
	b := largeBench(t, Options{})
	want, list := b.scan()
	if want.rounds[0].pos < want.NextPos {
		t.Fatalf("the rounds at %d to %d do not pass the end of the ring", want.rounds[0].pos, want.NextPos)
	}
	s, err := NewScanner(b.d)
	if err != nil {
		t.Fatal(err)
	}
	c := newReadCounter(b.region)
	res, err := s.Scan(c, nil)
	if err != nil || res.Entries != uint64(len(list)) {
		t.Fatalf("%d entries, %v; expected %d", res.Entries, err, len(list))
	}
	// The extents in which the search ends, at the head, have been given up by then.
	if n, most := c.total(); most > 2 || n > len(c.reads)+windowBytes/BlockSize {
		t.Fatalf("%d blocks read of %d, one of them %d times", n, len(c.reads), most)
	}
	again := newReadCounter(b.region)
	visited := 0
	err = s.Revisit(again, res, func(*Header, *Entry, []byte) error { visited++; return nil })
	if err != nil || visited != len(list) {
		t.Fatalf("%d entries visited again, %v; expected %d", visited, err, len(list))
	}
	if _, most := again.total(); most > 1 {
		t.Fatalf("a block was read %d times", most)
	}
}
