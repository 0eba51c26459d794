package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/net/wire"
)

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"data directory": func(c *Config) { c.Dir = "" },
		"shards":         func(c *Config) { c.Shards = MaxShards + 1 },
		"journal size":   func(c *Config) { c.JournalBytes = MinJournalBytes - aio.BlockSize },
		"multiple":       func(c *Config) { c.JournalBytes = MinJournalBytes + 1 },
		"eighth":         func(c *Config) { c.MaxMessageBytes = 1 << 20 },
		"raise journal.size or lower topic.max_message_bytes": func(c *Config) { c.MaxMessageBytes = 1 << 20 },
		"raise cache.size or lower topic.max_message_bytes":   func(c *Config) { c.CacheBytes = c.leastCache() - 1 },
		"max message size":   func(c *Config) { c.MaxMessageBytes = MaxMessageBytes + 1 },
		"max message size: ": func(c *Config) { c.MaxMessageBytes = -1 },
		"cache size":         func(c *Config) { c.CacheBytes = c.leastCache() - 1 },
		"max connections":    func(c *Config) { c.MaxConnections = -1 },
		"default partitions": func(c *Config) { c.DefaultPartitions = -1 },
		"receive buffers":    func(c *Config) { c.RecvBuffers = 48 },
		"files":              func(c *Config) { c.Files = minFiles - 1 },
		"idle timeout":       func(c *Config) { c.IdleTimeout = -time.Second },
		"shutdown timeout":   func(c *Config) { c.ShutdownTimeout = time.Microsecond },
		"spin":               func(c *Config) { c.Spin = -1 },
		"kafka.advertise is": func(c *Config) { c.KafkaAdvertise = "foo" },
		"nobody can connect": func(c *Config) { c.KafkaAdvertise = "[::]:1" },
		"CPUs":               func(c *Config) { c.CPUs = []int{0} },
	} {
		t.Run(name, func(t *testing.T) {
			home := leak(t)
			cfg := small(2)
			change(&cfg)
			r := newMachine(t, cfg)
			if err := r.tryStart(); err == nil || !strings.Contains(err.Error(), name) {
				t.Fatalf("start: %v", err)
			}
			if _, err := r.w.FS().ReadDir(rigDir); !aio.IsNotExist(err) {
				t.Fatalf("the data directory was touched: %v", err)
			}
			home()
		})
	}
}

// mustFail starts a node, which must fail with target and words, leave nothing
// running, and not be in the way of a start when the cause has gone.
func (r *rig) mustFail(target error, words string) {
	r.t.Helper()
	home := leak(r.t)
	err := r.tryStart()
	if !errors.Is(err, target) || !strings.Contains(err.Error(), words) {
		r.t.Fatalf("start: %v, want %v and %q", err, target, words)
	}
	home()
}

func TestAStartThatFailsLeavesNothingRunning(t *testing.T) {
	errDriver := errors.New("no driver today")
	for _, c := range []struct {
		name   string
		before func(r *rig) (undo func())
		err    error
		words  string
	}{
		{"locked directory", func(r *rig) func() {
			r.w.FS().Mkdir(rigDir)
			d := r.w.Driver(aio.Options{})
			op := aio.FileOp{Kind: aio.FileLock, Path: rigDir + "/" + layout.LockFile}
			if err := aio.DoFile(d, &op); err != nil {
				r.t.Fatal(err)
			}
			return func() { d.Close() }
		}, aio.ErrLocked, layout.LockFile},
		{"port in use", func(r *rig) func() {
			d := r.w.Driver(aio.Options{})
			if _, _, err := d.Listen(rigAddr, aio.ListenShared); err != nil {
				r.t.Fatal(err)
			}
			return func() {}
		}, syscall.EADDRINUSE, "listen on " + rigAddr},
		{"bad address", func(r *rig) func() {
			r.cfg.Listen = "nonsense"
			return func() { r.cfg.Listen = rigAddr }
		}, syscall.EINVAL, "listen on nonsense"},
		{"no driver for the second shard", func(r *rig) func() {
			r.p.fail = map[int]error{1: errDriver}
			return func() { r.p.fail = nil }
		}, errDriver, "shard 1"},
		{"disk that fails", func(r *rig) func() {
			i := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Flushes}, Times: sim.Always})
			return i.End
		}, syscall.EIO, ""},
		{"disk that is full", func(r *rig) func() {
			if err := r.w.SetCapacity("/", 1<<20); err != nil {
				r.t.Fatal(err)
			}
			return func() { r.w.SetCapacity("/", 1<<40) }
		}, syscall.ENOSPC, ""},
		{"directory that cannot be made", func(r *rig) func() {
			i := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Mkdirs}, Times: sim.Always, Err: syscall.EACCES})
			return i.End
		}, syscall.EACCES, rigDir},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newMachine(t, small(3))
			undo := c.before(r)
			r.mustFail(c.err, c.words)
			undo()
			if c.name == "port in use" {
				r.w.Kill()
			}
			r.start()
			r.stop()
		})
	}
}

func TestADamagedDataDirectoryIsRefused(t *testing.T) {
	r := newRig(t, small(2))
	r.create(r.dial(), "t", 4, "flushed")
	r.stop()
	for _, c := range []struct {
		path string
		off  int64
		err  error
	}{
		{rigDir + "/" + checkpoint.NodeFile, 0, checkpoint.ErrDamaged},
		{rigDir + "/" + checkpoint.NodeFile, 20, checkpoint.ErrDamaged},
	} {
		if err := r.w.Corrupt(c.path, c.off, 0x40); err != nil {
			t.Fatal(err)
		}
		r.mustFail(c.err, c.path)
		if err := r.w.Corrupt(c.path, c.off, 0x40); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	r.stop()
}

func TestAStartThatIsCanceledLeavesNothingRunning(t *testing.T) {
	home := leak(t)
	r := newMachine(t, small(2))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, r.cfg, r.p); !errors.Is(err, context.Canceled) {
		t.Fatalf("start: %v", err)
	}
	home()
}

func TestAFreePortIsFound(t *testing.T) {
	cfg := small(2)
	cfg.Listen = "127.0.0.1:0"
	r := newRig(t, cfg)
	if addr := r.n.Addr(); addr == cfg.Listen || !strings.HasPrefix(addr, "127.0.0.1:") {
		t.Fatalf("address %s", addr)
	}
	r.cfg.Listen = r.n.Addr()
	r.connect(anyShard).ping()
	r.stop()
}

// TestADirectoryLivesOnWithOtherSettings starts a directory with one number of
// shards, journal size and message limit after the other, up and down, and finds in it
// what was acknowledged under all of them, after orderly ends and after deaths.
func TestADirectoryLivesOnWithOtherSettings(t *testing.T) {
	r := newMachine(t, small(1))
	want := map[spot][]byte{}
	const least, most = MinMessageBytes, MaxMessageBytes
	for life, size := range []int{least, 64 << 10, 128 << 10, 1 << 20, least, most, 64 << 10, 1 << 20, least} {
		r.cfg.Shards, r.cfg.MaxMessageBytes = 1+life%3, size
		r.cfg.JournalBytes = max(MinJournalBytes, messageShare*int64(size))
		r.cfg.CacheBytes = 64 << 20
		r.start()
		c := r.dial()
		if life == 0 {
			r.create(c, "t", 3, "flushed")
		}
		for p := range int32(3) {
			producer, err := c.Producer("t", client.WithPartition(p), client.WithBatchMax(8<<20), client.WithBuffer(64<<20))
			if err != nil {
				t.Fatal(err)
			}
			v := stamp(life, int(p), min(size, 1<<20)-300)
			at, err := producer.Send(r.context(), client.Record{Value: v})
			if err != nil {
				t.Fatalf("life %d, message of %d bytes: %v", life, len(v), err)
			}
			want[spot{at.Topic, at.Partition, at.Offset}] = v
		}
		l := newLoad(r)
		l.acked = want
		l.mustHave("t")
		closeNow(c)
		if life%2 == 0 {
			r.stop()
		} else {
			r.die()
		}
		if t.Failed() {
			t.Fatalf("in life %d, limit %d bytes", life, size)
		}
	}
}

func TestTheBrokersLimitIsToldInHello(t *testing.T) {
	cfg := small(2)
	cfg.MaxMessageBytes = 64 << 10
	r := newRig(t, cfg)
	h := r.connect(anyShard).hello
	if h.MaxBatch != 64<<10 || h.MaxFrame < h.MaxBatch || h.Shards != 2 || h.ServerVersion != "test" || h.Protocol != wire.Protocol {
		t.Fatalf("hello: %+v", h)
	}
	if fmt.Sprintf("%x", h.NodeID) == strings.Repeat("00", 16) {
		t.Fatal("the node has no identity")
	}
	r.stop()
}
