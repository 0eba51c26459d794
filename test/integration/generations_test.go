package integration

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/rig"
)

// genParts is the number of partitions of the store whose checkpoints are damaged, genBatch
// the size of a batch.
const (
	genParts = 4
	genBatch = 96 << 10
)

// damagedStore is a store that is killed under load, whose newest checkpoints are damaged
// then, and what it has acknowledged.
type damagedStore struct {
	restarted
	rng    *rand.Rand
	serial uint64
	acked  [genParts]map[int64]uint64 // offset to serial
}

// TestDamageToTheNewestCheckpointsBehindKills kills a broker under load again and again,
// damages the newest checkpoint of each shard, and starts it again: everything is there.
func TestDamageToTheNewestCheckpointsBehindKills(t *testing.T) {
	rig.NeedDriver(t)
	s := &damagedStore{restarted: restarted{broker: broker{t: t}, dir: rig.DataDir(t)}, rng: rand.New(rand.NewPCG(1, 28))}
	for p := range s.acked {
		s.acked[p] = map[int64]uint64{}
	}
	s.start()
	s.topic = s.broker.topic("damaged", genParts, wire.Config{Key: "segment.bytes", Value: "1MiB"})
	lives := 10
	if testing.Short() {
		lives = 3
	}
	for life := range lives {
		// About 2 to 10 MiB for each shard, whose journals have checkpoints at 2 to 3 MiB.
		s.load(40 + s.rng.IntN(160))
		if damaged := s.damage(); damaged == 0 {
			t.Fatalf("life %d: there are no checkpoints", life)
		}
		s.start()
		if said := s.p.LogTail(); strings.Contains(said, "LOSS") || strings.Contains(said, "DAMAGED") {
			t.Fatalf("life %d: the broker said: %s", life, said)
		}
		s.mustHold()
	}
	s.stop()
}

// load appends to all partitions at a time, and kills the broker when so many batches have
// been acknowledged, while others are on their way.
func (s *damagedStore) load(batches int) {
	s.t.Helper()
	acks := make(chan struct{})
	stop := make(chan struct{})
	var all sync.WaitGroup
	for p := range genParts {
		c, from := s.open(), s.serial+uint64(p)<<32
		all.Go(func() {
			for n := uint64(1); ; n++ {
				a, err := c.Produce(wire.ProduceRequest{Topic: s.topic, Partition: int32(p), Batch: generationBatch(from + n)})
				if err != nil {
					return // it has been killed
				}
				if a.Code != wire.CodeNone {
					s.t.Errorf("partition %d: %v", p, a.Code)
					return
				}
				s.acked[p][a.BaseOffset] = from + n
				select {
				case acks <- struct{}{}:
				case <-stop:
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	for range batches {
		select {
		case <-acks:
		case <-over:
			s.t.Fatalf("nobody produces any more; the broker said: %s", s.p.LogTail())
		}
	}
	close(stop)
	if err := s.p.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-over
	s.serial += 1 << 16 // more than a life has
}

// generationBatch is a batch of one record with a number that no other has.
func generationBatch(serial uint64) []byte {
	v := make([]byte, genBatch)
	for i := 0; i+8 <= len(v); i += 8 {
		binary.BigEndian.PutUint64(v[i:], serial)
	}
	return batchOf(string(v))
}

// damage turns over a byte in the middle of the newest checkpoint of each shard.
func (s *damagedStore) damage() (damaged int) {
	s.t.Helper()
	for shard := range uint16(2) {
		var newest *checkpoint.Snapshot
		for parity := range uint64(2) {
			b, err := os.ReadFile(filepath.Join(s.dir, "checkpoints", checkpoint.FileName(shard, parity)))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				s.t.Fatal(err)
			}
			c, err := checkpoint.Decode(b)
			if err != nil {
				s.t.Fatal(err)
			}
			if newest == nil || c.Sequence > newest.Sequence {
				newest = c
			}
		}
		if newest == nil {
			continue
		}
		path := filepath.Join(s.dir, "checkpoints", checkpoint.FileName(shard, newest.Sequence))
		b, err := os.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		b[len(b)/2] ^= 0xff
		if err := os.WriteFile(path, b, 0o600); err != nil {
			s.t.Fatal(err)
		}
		damaged++
	}
	return damaged
}

// mustHold reads everything, and looks for what was acknowledged.
func (s *damagedStore) mustHold() {
	s.t.Helper()
	c := s.open()
	for p, acked := range s.acked {
		first, end, err := c.Bounds(s.topic, int32(p))
		if err != nil || first != 0 {
			s.t.Fatalf("partition %d: offsets %d to %d, %v", p, first, end, err)
		}
		found := 0
		for at := int64(0); at < end; {
			f, err := c.Fetch(wire.FetchRequest{Topic: s.topic, Partition: int32(p), Offset: at, MaxBytes: 1 << 20, MaxWait: 5000, MinBytes: 1})
			if err != nil || f.Code != wire.CodeNone || len(f.Batches) == 0 {
				s.t.Fatalf("partition %d at %d of %d: %v, %v, %d bytes", p, at, end, err, f.Code, len(f.Batches))
			}
			for rest := f.Batches; len(rest) > 0; at++ {
				var b []byte
				if b, rest, err = batch.Split(rest); err != nil {
					s.t.Fatal(err)
				}
				h, err := batch.CheckStored(b)
				if err != nil || h.BaseOffset != at {
					s.t.Fatalf("partition %d: a batch at %d, %v; expected one at %d", p, h.BaseOffset, err, at)
				}
				serial, was := acked[at]
				if !was {
					continue // it was not acknowledged
				}
				want := generationBatch(serial)
				if found++; !bytes.Equal(b[batch.HeaderSize:], want[batch.HeaderSize:]) {
					s.t.Fatalf("partition %d at %d: not what was acknowledged", p, at)
				}
			}
		}
		if found != len(acked) {
			s.t.Fatalf("partition %d: %d batches of %d that were acknowledged are there", p, found, len(acked))
		}
	}
}
