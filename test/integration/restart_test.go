package integration

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
)

// What the store of the restart is made of. Without flags it has small segments and
// little data; with -restart.batches=320 -restart.bytes=1048000 -restart.segment=512MiB
// it has 20 GB in 64 partitions.
var (
	restartParts   = flag.Int("restart.partitions", 64, "partitions of the store that is restarted")
	restartBatches = flag.Int("restart.batches", 12, "batches in each of its partitions")
	restartBytes   = flag.Int("restart.bytes", 12<<10, "size of a batch in `bytes`")
	restartSegment = flag.String("restart.segment", "16KiB", "segment.bytes")
	restartArgs    = flag.String("restart.args", "--shards 2 --journal-size 8MiB", "further arguments of mqd serve")
	restarts       = flag.Int("restart.times", 3, "how often the broker is killed and started")
)

// restarted is a store that brokers serve one after the other.
type restarted struct {
	broker
	dir   string
	topic wire.TopicID
}

func (r *restarted) start() (took time.Duration) {
	r.t.Helper()
	args := strings.Fields(*restartArgs)
	p, err := process.Start(process.Config{Binary: rig.Binary(r.t), Dir: r.dir, Args: args})
	if err != nil {
		r.t.Fatal(err)
	}
	r.p = p
	r.t.Cleanup(func() { _ = p.Kill() }) // it may have ended in order
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if r.addr, took, err = p.Ready(ctx); err != nil {
		r.t.Fatal(err)
	}
	return took
}

// produce appends n batches to every partition, over several connections.
func (r *restarted) produce(n int) {
	r.t.Helper()
	const conns = 8
	var all sync.WaitGroup
	errs := make([]error, conns)
	for i := range conns {
		c := r.open()
		all.Go(func() {
			defer func() { _ = c.Close() }() // all is answered
			for k := range n {
				for p := i; p < *restartParts && errs[i] == nil; p += conns {
					a, err := c.Produce(wire.ProduceRequest{Topic: r.topic, Partition: int32(p), Batch: restartBatch(p, k)})
					if err == nil && a.Code != wire.CodeNone {
						err = fmt.Errorf("partition %d: %v", p, a.Code)
					}
					errs[i] = err
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			r.t.Fatalf("produce: %v; the broker said: %s", err, r.p.LogTail())
		}
	}
}

// restartBatch is a batch of one record, which names its partition and number.
func restartBatch(partition, n int) []byte {
	v := make([]byte, *restartBytes-200)
	binary.BigEndian.PutUint32(v, uint32(partition))
	binary.BigEndian.PutUint32(v[4:], uint32(n))
	return batchOf(string(v))
}

// mustRead fetches what stands at an offset of a partition.
func (r *restarted) mustRead(c *rig.Conn, partition int, offset int64, n int) {
	r.t.Helper()
	f, err := c.Fetch(wire.FetchRequest{Topic: r.topic, Partition: int32(partition), Offset: offset, MaxRecords: 1, MaxBytes: 1})
	if err != nil || f.Code != wire.CodeNone {
		r.t.Fatalf("fetch of partition %d at %d: %v, %v", partition, offset, err, f.Code)
	}
	b, _, err := batch.Split(f.Batches)
	if err != nil {
		r.t.Fatal(err)
	}
	h, err := batch.CheckStored(b)
	if want := restartBatch(partition, n); err != nil || h.BaseOffset != offset || string(b[len(b)-len(want)+batch.HeaderSize:]) != string(want[batch.HeaderSize:]) {
		r.t.Fatalf("partition %d at %d: a batch at %d (%v) that was not produced there", partition, offset, h.BaseOffset, err)
	}
}

// logs are the number of log files in the data directory and their bytes.
func (r *restarted) logs() (n int, bytes int64) {
	r.t.Helper()
	err := filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".log" {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n, bytes = n+1, bytes+info.Size()
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return n, bytes
}

// TestABrokerIsBackSoonAfterItsDeath kills a broker with many segments under way and
// starts it again. How long that takes is printed and not asserted: what a start does not
// do, whatever is stored, is held by tests on the simulator.
func TestABrokerIsBackSoonAfterItsDeath(t *testing.T) {
	rig.NeedDriver(t)
	r := &restarted{broker: broker{t: t}, dir: rig.DataDir(t)}
	r.start()
	r.topic = r.broker.topic("restarted", uint32(*restartParts), wire.Config{Key: "segment.bytes", Value: *restartSegment})
	r.produce(*restartBatches)
	for life := range *restarts {
		if err := r.p.Kill(); err != nil {
			t.Fatal(err)
		}
		segments, bytes := r.logs()
		took := r.start()
		t.Logf("killed with %d segments in %d partitions, %d MB: serving after %d ms\n%s",
			segments, *restartParts, bytes/1e6, took.Milliseconds(), r.p.LogTail())
		c := r.open()
		for p := range *restartParts {
			start, end, err := c.Bounds(r.topic, int32(p))
			if want := int64(*restartBatches + life); err != nil || start != 0 || end != want {
				t.Fatalf("partition %d: offsets %d to %d (%v), expected 0 to %d", p, start, end, err, want)
			}
			if p%16 == 0 {
				r.mustRead(c, p, 0, 0)
				r.mustRead(c, p, int64(*restartBatches/2), *restartBatches/2)
			}
		}
		r.produce(1)
	}
	r.stop()
}
