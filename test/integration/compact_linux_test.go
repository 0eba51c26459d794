package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/rig"
)

// A broker looks for what it can compact every five seconds, so that a life is not shorter:
// -compact.kills=100 takes ten minutes.
var compactKills = flag.Int("compact.kills", 3, "how often a broker that compacts is killed")

// A broker is killed again and again in the middle of a compaction: while it writes a log
// anew, between the steps of putting it in the place of the old one, and some time later.
func TestAKillDuringACompactionLosesNothing(t *testing.T) {
	rig.NeedDriver(t)
	t.Run("idempotent", func(t *testing.T) {
		t.Parallel()
		compactAndKill(t, client.WithIdempotence())
	})
	t.Run("few keys at a time", func(t *testing.T) {
		t.Parallel()
		compactAndKill(t, client.WithMaxInFlight(1), "--compaction-keys", "64KiB")
	})
}

// compactor is a broker with a compacted topic, which is written to all the time.
type compactor struct {
	mortal
	*keyLedger
	topic  wire.TopicID
	stop   atomic.Bool
	writes sync.WaitGroup
	steps  *dirWatch
}

func compactAndKill(t *testing.T, how client.ProducerOption, args ...string) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience+2*time.Duration(*compactKills)*patience)
	defer cancel()
	c := &compactor{mortal: mortal{t: t, dir: rig.DataDir(t), args: args}, keyLedger: newKeyLedger()}
	c.start()
	cl := c.client(ctx, 0)
	if _, err := cl.Admin().CreateTopic(ctx, client.TopicSpec{Name: "keyed", Partitions: keyedParts, Configs: map[string]string{
		"cleanup.policy": "compact", "segment.bytes": "16KiB", "min.cleanable.dirty.ratio": "0",
		"delete.retention.ms": strconv.FormatInt(tombstonesStay.Milliseconds(), 10),
	}}); err != nil {
		t.Fatal(err)
	}
	md, err := c.conn(ctx).Topic("keyed")
	if err != nil {
		t.Fatal(err)
	}
	c.topic = md.ID
	p, err := cl.Producer("keyed", how, client.WithBatchMessages(8))
	if err != nil {
		t.Fatal(err)
	}
	for w := range 3 {
		c.writes.Go(func() { c.write(ctx, p, w) })
	}
	in, err := cl.Consumer(client.Topics("keyed"))
	if err != nil {
		t.Fatal(err)
	}
	following, unfollow := context.WithCancel(ctx)
	var follower sync.WaitGroup
	follower.Go(func() { c.follow(following, in) })
	c.watch()
	for range *compactKills {
		c.killOnce(ctx)
	}
	c.settle(ctx)
	unfollow()
	follower.Wait()
	if err := cl.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := c.p.Stop(ctx); err != nil {
		t.Error(err)
	}
	c.verify()
}

// conn is a connection to the broker as it is now.
func (c *compactor) conn(ctx context.Context) *rig.Conn {
	c.t.Helper()
	conn, err := rig.Open(ctx, *c.addr.Load())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() }) // the broker may be dead
	return conn
}

// write sends records until it is told to stop, and waits for what becomes of them. Some keys
// come again and again, some once.
func (c *compactor) write(ctx context.Context, p *client.Producer, writer int) {
	type sent struct {
		r *keyedRecord
		t client.Ticket
	}
	var open []sent
	for n := 0; !c.stop.Load(); n++ {
		r := &keyedRecord{writer: writer, n: n, deletes: rand.IntN(8) == 0}
		switch k := rand.IntN(40); {
		case k == 0:
			r.deletes = false // no key
		case k < 3:
			r.key = fmt.Sprintf("%d-once-%d", writer, rand.IntN(n+1))
		default:
			r.key = fmt.Sprintf("%d-often-%d", writer, rand.IntN(30))
		}
		c.sends(r)
		ticket, err := p.Append(ctx, r.record())
		if err != nil {
			c.t.Errorf("%s: %v", r.id(), err)
			return
		}
		if open = append(open, sent{r, ticket}); len(open) < 10 {
			continue
		}
		if err := p.Flush(ctx); ctx.Err() != nil {
			c.t.Errorf("%s was not written: %v", r.id(), err)
			return
		}
		for _, s := range open {
			at, err := s.t.Wait(ctx)
			c.told(s.r, at, err)
		}
		open = open[:0]
		time.Sleep(2 * time.Millisecond) // so that compaction keeps up
	}
	for _, s := range open {
		at, err := s.t.Wait(ctx)
		c.told(s.r, at, err)
	}
}

// follow reads the topic while it is written, through all deaths.
func (c *compactor) follow(ctx context.Context, in *client.Consumer) {
	var next [keyedParts]int64
	for ctx.Err() == nil {
		b, err := in.Poll(ctx)
		if err != nil {
			var e *client.Error
			if ctx.Err() == nil && (!errors.As(err, &e) || !e.Retriable) {
				c.t.Errorf("the consumer: %v", err)
				return
			}
			continue
		}
		c.mu.Lock()
		for r := range b.Records() {
			if r.Offset < next[b.Partition] {
				c.fail("%d/%d comes behind %d", b.Partition, r.Offset, next[b.Partition]-1)
			}
			next[b.Partition] = r.Offset + 1
			id, _ := r.Header(idHeader)
			c.found(b.Partition, r.Offset, id, r.Key, r.Value)
		}
		c.mu.Unlock()
		b.Release()
	}
}

// partitions are the directories of the partitions.
func (c *compactor) partitions() []string {
	dirs, err := filepath.Glob(filepath.Join(c.dir, "topics", "keyed.*", "*"))
	if err != nil {
		c.t.Fatal(err)
	}
	return dirs
}

// watch begins to watch the partitions' directories once they are there.
func (c *compactor) watch() {
	c.t.Helper()
	b := &broker{t: c.t}
	b.wait("there are directories", func() bool { return len(c.partitions()) == keyedParts })
	c.steps = watchDirs(c.t, c.partitions())
}

// scanAll reads all partitions, and counts what is superseded by something before below.
func (c *compactor) scanAll(conn *rig.Conn, below [keyedParts]int64) (stale int, err error) {
	for p := range int32(keyedParts) {
		s := c.scan(p, below[p])
		if err := s.read(conn, c.topic); err != nil {
			return 0, err
		}
		stale += s.stale
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wrong) > 0 {
		c.t.Fatalf("%s\nthe broker said: %s", strings.Join(c.wrong[:min(10, len(c.wrong))], "\n"), c.p.LogTail())
	}
	return stale, nil
}

// newestLog is the base of the newest log of a partition.
func (c *compactor) newestLog(p int32) (base int64) {
	logs, err := filepath.Glob(filepath.Join(c.dir, "topics", "keyed.*", fmt.Sprint(p), "*.log"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, l := range logs {
		n, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(l), ".log"), 10, 64)
		if err != nil {
			c.t.Fatal(err)
		}
		base = max(base, n)
	}
	return base
}

// killOnce kills the broker at a step of a compaction, and starts the next one.
func (c *compactor) killOnce(ctx context.Context) {
	c.t.Helper()
	if _, err := c.scanAll(c.conn(ctx), [keyedParts]int64{}); err != nil {
		c.t.Fatal(err)
	}
	// Somebody reads all the while.
	conn, dead := c.conn(ctx), make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			if _, err := c.scanAll(conn, [keyedParts]int64{}); err != nil {
				return // the broker is dead
			}
			select {
			case <-dead:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	step, n := steps[rand.IntN(len(steps))], 1+rand.IntN(30)
	c.steps.wait(ctx, step, n)
	if rand.IntN(3) == 0 {
		<-time.After(time.Duration(rand.IntN(2000)) * time.Microsecond)
	}
	if err := c.mortal.p.Kill(); err != nil {
		c.t.Fatal(err)
	}
	close(dead)
	reading.Wait()
	c.t.Logf("killed when %d times %s: %s", n, step.what, c.left())
	c.verify()
	c.start()
}

// left says what a death has left of a compaction.
func (c *compactor) left() string {
	unfinished, alone := 0, 0
	for p, dir := range c.partitions() {
		logs, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is sound
		tmp, _ := filepath.Glob(filepath.Join(dir, "*.log.tmp"))
		unfinished += len(tmp)
		for _, l := range logs {
			_, err := os.Stat(strings.TrimSuffix(l, ".log") + ".index")
			if err != nil && !strings.Contains(l, fmt.Sprintf("%020d", c.newestLog(int32(p)))) {
				alone++
			}
		}
	}
	return fmt.Sprintf("%d new logs beside the old ones, %d logs without an index", unfinished, alone)
}

// verify has mqd verify read everything that is on the disk.
func (c *compactor) verify() {
	c.t.Helper()
	out, err := exec.Command(rig.Binary(c.t), "verify", "--data-dir", c.dir).CombinedOutput()
	if err != nil {
		c.t.Fatalf("mqd verify: %v\n%s", err, out)
	}
}

// settle waits until everything has gone that could when the broker started, and some
// tombstones, and holds the rest against what was acknowledged.
func (c *compactor) settle(ctx context.Context) {
	c.t.Helper()
	var below [keyedParts]int64
	for p := range below {
		below[p] = c.newestLog(int32(p))
	}
	conn := c.conn(ctx)
	read := func() (stale int) {
		stale, err := c.scanAll(conn, below)
		if err != nil {
			c.t.Fatalf("%v; the broker said: %s", err, c.p.LogTail())
		}
		return stale
	}
	// Compaction gives way to who reads from files, so that nobody may do that all the time.
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for began, stale := time.Now(), read(); stale > 0 || len(c.dead) == 0; stale = read() {
		if time.Since(began) > 3*patience {
			c.t.Fatalf("after %v %d records are there that are superseded, and %d tombstones have gone", 3*patience, stale, len(c.dead))
		}
		<-tick.C
	}
	c.stop.Store(true)
	c.writes.Wait()
	read()
	if log := c.p.LogTail(); strings.Contains(log, "not compacted") || strings.Contains(log, "panic") {
		c.t.Errorf("the broker said: %s", log)
	}
	gone, lost := 0, 0
	for _, r := range c.sent {
		switch {
		case r.offset < 0 && !r.unknown:
			c.t.Errorf("%s has no end", r.id())
		case r.offset >= 0 && c.gone[r.partition][r.offset]:
			gone++
			if newest, _ := c.newest(r.key); r.key == "" || newest == r && !r.deletes {
				lost++
				c.t.Errorf("%s at %d/%d is lost", r.id(), r.partition, r.offset)
			}
		}
	}
	c.t.Logf("%d records, %d have gone, %d tombstones among them with all that they deleted", len(c.sent), gone, len(c.dead))
}

// step is something that compaction does in a directory.
type step struct {
	what, suffix string
	mask         uint32
}

var steps = []step{
	{"a new log was begun", ".log.tmp", syscall.IN_CREATE},
	{"a new log was written", ".log.tmp", syscall.IN_CLOSE_WRITE},
	{"an index was removed", ".index", syscall.IN_DELETE},
	{"a log was replaced", ".log", syscall.IN_MOVED_TO},
}

// dirWatch counts what happens in directories.
type dirWatch struct {
	t    *testing.T
	seen map[step]*atomic.Int64
	more chan struct{} // there may be more of something
}

func watchDirs(t *testing.T, dirs []string) *dirWatch {
	t.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	t.Cleanup(func() { _ = events.Close() }) // only read from
	for _, dir := range dirs {
		if _, err := syscall.InotifyAddWatch(fd, dir, syscall.IN_CREATE|syscall.IN_CLOSE_WRITE|syscall.IN_DELETE|syscall.IN_MOVED_TO); err != nil {
			t.Fatal(err)
		}
	}
	w := &dirWatch{t: t, seen: map[step]*atomic.Int64{}, more: make(chan struct{}, 1)}
	for _, s := range steps {
		w.seen[s] = new(atomic.Int64)
	}
	go w.listen(events)
	return w
}

// listen counts steps.
func (w *dirWatch) listen(events *os.File) {
	buf := make([]byte, 64<<10)
	for {
		n, err := events.Read(buf)
		if err != nil {
			return // closed
		}
		for at := 0; at < n; {
			e := (*syscall.InotifyEvent)(unsafe.Pointer(&buf[at]))
			at += syscall.SizeofInotifyEvent
			name := strings.TrimRight(string(buf[at:at+int(e.Len)]), "\x00")
			at += int(e.Len)
			for _, s := range steps {
				if e.Mask&s.mask != 0 && strings.HasSuffix(name, s.suffix) {
					w.seen[s].Add(1)
				}
			}
		}
		select {
		case w.more <- struct{}{}:
		default:
		}
	}
}

// wait waits until a step has been seen n times from now on.
func (w *dirWatch) wait(ctx context.Context, which step, n int) {
	w.t.Helper()
	limit, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	seen := w.seen[which]
	for end := seen.Load() + int64(n); seen.Load() < end; {
		select {
		case <-w.more:
		case <-limit.Done():
			w.t.Fatalf("waited %v until %d times %s: %d are missing", 2*patience, n, which.what, end-seen.Load())
		}
	}
}
