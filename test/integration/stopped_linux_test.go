package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
)

// follower is a process that reads a topic as long as it lives.
type follower struct {
	t   *testing.T
	cmd *exec.Cmd
	out string // the file with what it has read
}

func (b *broker) follow(topic string) *follower {
	b.t.Helper()
	f := &follower{t: b.t, out: filepath.Join(b.t.TempDir(), "out")}
	out, err := os.Create(f.out)
	if err != nil {
		b.t.Fatal(err)
	}
	defer out.Close()
	f.cmd = exec.Command(rig.Binary(b.t), "consume", topic, "--follow", "--server", b.addr)
	f.cmd.Stdout, f.cmd.Stderr = out, os.Stderr
	if err := f.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = f.cmd.Process.Kill() // also one that is stopped
		_ = f.cmd.Wait()
	})
	return f
}

func (f *follower) signal(s syscall.Signal) {
	f.t.Helper()
	if err := f.cmd.Process.Signal(s); err != nil {
		f.t.Fatal(err)
	}
}

// stop stops the process as Ctrl-Z does, and waits until it stands still.
func (f *follower) stop() {
	f.t.Helper()
	f.signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := process.Frozen(ctx, f.cmd.Process.Pid); err != nil {
		f.t.Fatal(err)
	}
}

// has is how many messages it has read.
func (f *follower) has() int {
	f.t.Helper()
	read, err := os.ReadFile(f.out)
	if err != nil {
		f.t.Fatal(err)
	}
	return bytes.Count(read, []byte("\n"))
}

// sample is the sum of a metric over its labels, of those that fit the pattern.
func (b *broker) sample(pattern string) int {
	b.t.Helper()
	_, body := b.get("/metrics")
	sum := 0
	for _, m := range regexp.MustCompile(`(?m)^`+pattern+` (\d+)$`).FindAllStringSubmatch(body, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			b.t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// publisher sends numbered messages of 20 KB every 20 ms.
type publisher struct {
	t    *testing.T
	p    *client.Producer
	tick *time.Ticker
	sent int
}

func (p *publisher) message(n int) []byte {
	return fmt.Appendf(nil, "%06d %s", n, bytes.Repeat([]byte("x"), 20_000-7))
}

// until publishes at least so many, and on until done; it returns how long each took.
func (p *publisher) until(least int, done func() bool) (took []time.Duration) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for len(took) < least || !done() {
		<-p.tick.C
		began := time.Now()
		at, err := p.p.Send(ctx, client.Record{Value: p.message(p.sent)})
		if err != nil || at.Offset != int64(p.sent) {
			p.t.Fatalf("message %d is at %d: %v", p.sent, at.Offset, err)
		}
		took = append(took, time.Since(began))
		p.sent++
	}
	slices.Sort(took)
	return took
}

// Of three consumers on one shard one is stopped. The publisher and the others go on; the
// broker has at most one answer for the one that stands still, hears nothing of it, and
// ends its connection. When it goes on it has missed nothing.
func TestC8AStoppedConsumerHoldsUpNobody(t *testing.T) {
	const some = 50
	b := start(t, "--shards", "1", "--idle-timeout", "2s", "--admin-listen", "127.0.0.1:0")
	c, err := client.Dial(t.Context(), []string{b.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if _, err := c.Admin().CreateTopic(t.Context(), client.TopicSpec{Name: "alerts", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	// On a machine that stands still for so long the publisher is idle too: what it has
	// sent then is sent again.
	producer, err := c.Producer("alerts", client.WithIdempotence())
	if err != nil {
		t.Fatal(err)
	}
	p := &publisher{t: t, p: producer, tick: time.NewTicker(20 * time.Millisecond)}
	defer p.tick.Stop()
	stopped, others := b.follow("alerts"), []*follower{b.follow("alerts"), b.follow("alerts")}
	before := p.until(some, func() bool { return stopped.has() > 0 })
	idle := func() int { return b.sample(`mqd_connections_closed_total\{[^}]*reason="idle timeout"\}`) }
	closed := idle()
	stopped.stop()
	behind := stopped.has()
	during := p.until(some, func() bool { return idle() > closed })
	for i, f := range others {
		b.wait(fmt.Sprintf("consumer %d has everything", i+1), func() bool { return f.has() == p.sent })
	}
	if n := stopped.has(); n != behind {
		t.Fatalf("the consumer that is stopped has read %d messages more", n-behind)
	}
	stopped.signal(syscall.SIGCONT)
	after := p.until(some, func() bool { return true })
	for _, f := range append(others, stopped) {
		b.wait("the consumer has everything", func() bool { return f.has() == p.sent })
		p.mustBeAll(f)
	}
	b.mustBeBounded()
	t.Logf("%d messages, of which %d while one of three consumers stood still; medians of an acknowledgement before, during and after: %v, %v, %v",
		p.sent, len(during), before[len(before)/2], during[len(during)/2], after[len(after)/2])
}

// mustBeAll expects everything that was published, once and in order.
func (p *publisher) mustBeAll(f *follower) {
	p.t.Helper()
	read, err := os.ReadFile(f.out)
	if err != nil {
		p.t.Fatal(err)
	}
	for n, line := range bytes.Split(bytes.TrimSuffix(read, []byte("\n")), []byte("\n")) {
		if !bytes.Equal(line, p.message(n)) {
			p.t.Fatalf("message %d is %.40q, of %d bytes", n, line, len(line))
		}
	}
}
