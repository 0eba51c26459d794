package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/rig"
)

var adminLine = regexp.MustCompile(`msg="admin HTTP" address=(\S+)`)

// admin is the address of the broker's admin HTTP.
func (b *broker) admin() string {
	b.t.Helper()
	if b.adminOf != b.p { // the log of later has the line no more
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		line, err := b.p.Said(ctx, `msg="admin HTTP"`)
		m := adminLine.FindStringSubmatch(line)
		if err != nil || m == nil {
			b.t.Fatalf("the log does not say where the admin HTTP is: %q, %v", line, err)
		}
		b.adminOf, b.adminAddr = b.p, m[1]
	}
	return b.adminAddr
}

// get asks the admin HTTP.
func (b *broker) get(path string) (status int, body string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.admin()+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		b.t.Fatalf("%s: %v", path, err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, string(all)
}

// mustShow expects a sample among the metrics.
func (b *broker) mustShow(sample string) {
	b.t.Helper()
	if status, body := b.get("/metrics"); status != http.StatusOK || !strings.Contains(body, "\n"+sample+"\n") {
		b.t.Errorf("status %d, %q is not among the metrics", status, sample)
	}
}

// order runs mqd admin and returns what it says and its exit status.
func (b *broker) order(verb string) (said string, status int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, rig.Binary(b.t), "admin", verb, "--admin", b.admin())
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// mustOrder expects words and a status of mqd admin.
func (b *broker) mustOrder(verb string, status int, words ...string) {
	b.t.Helper()
	said, got := b.order(verb)
	if got != status {
		b.t.Errorf("mqd admin %s: status %d, expected %d: %s; the broker said: %s", verb, got, status, said, b.p.LogTail())
	}
	for _, w := range words {
		if !strings.Contains(said, w) {
			b.t.Errorf("mqd admin %s: %q is not in %q", verb, w, said)
		}
	}
}

// produceUntilRefused sends messages until the log fails, and returns those that were
// acknowledged.
func (b *broker) produceUntilRefused(c *rig.Conn, id wire.TopicID) (acked []string) {
	b.t.Helper()
	for {
		v := fmt.Sprintf("message %d", len(acked))
		r, err := c.Produce(wire.ProduceRequest{Topic: id, Batch: batchOf(v)})
		switch {
		case err != nil:
			b.t.Fatalf("after %d messages: %v; the broker said: %s", len(acked), err, b.p.LogTail())
		case r.Code == wire.CodeStorageError:
			return acked
		case r.Code != wire.CodeNone:
			b.t.Fatalf("refused with %v, expected %v", r.Code, wire.CodeStorageError)
		}
		acked = append(acked, v)
	}
}

// mustReopen orders the logs to be opened again, and again while the device still fails.
func (b *broker) mustReopen() {
	b.t.Helper()
	for {
		said, status := b.order("reopen")
		if status == 0 || strings.Contains(said, "every log works") {
			return
		}
		if status != 1 || !strings.HasPrefix(said, "mqd: not reopened: ") || strings.Count(said, "\n") != 1 || !strings.Contains(said, "input/output error") {
			b.t.Fatalf("mqd admin reopen: status %d, %s; the broker said: %s", status, said, b.p.LogTail())
		}
		if status, body := b.get("/healthz/ready"); status != http.StatusServiceUnavailable || !strings.Contains(body, "down: ") {
			b.t.Errorf("ready with %d although nothing is served: %s", status, body)
		}
		b.mustShow(`mqd_log_failed{shard="0"} 1`)
	}
}

// takesMore appends a message, and reports false if the log has failed again. Its threads
// are few, and each comes to its faults once.
func (b *broker) takesMore(id wire.TopicID) bool {
	b.t.Helper()
	r, err := b.open().Produce(wire.ProduceRequest{Topic: id, Batch: batchOf("more")})
	if err != nil || r.Code != wire.CodeNone && r.Code != wire.CodeStorageError {
		b.t.Fatalf("produce: %v, %v; the broker said: %s", err, r.Code, b.p.LogTail())
	}
	said, status := b.order("status")
	_, metrics := b.get("/metrics")
	works := r.Code == wire.CodeNone && status == 0 && strings.Contains(metrics, "\n"+`mqd_log_failed{shard="0"} 0`+"\n")
	if works && (!strings.Contains(said, "serving, ready") || strings.Contains(metrics, "\nmqd_reopened_total 0\n")) {
		b.t.Errorf("behind a reopening: %s", said)
	}
	return works
}

// The faults strike some calls of each thread: once a thread has come to them, the device
// works again after a few attempts. The start comes to none of them: it measures the
// device with 50 writes at most, and makes some dozens of other calls.
func TestALogThatFailedIsSeenAndOpenedAgainWithoutARestart(t *testing.T) {
	rig.NeedDriver(t)
	for name, faults := range map[string][]string{
		"writes":  {"pwritev2:error=EIO:when=400..403", "pwrite64:error=EIO:when=400..403"},
		"flushes": {"pwritev2:error=EOPNOTSUPP", "fdatasync:error=EIO:when=400..403"},
	} {
		t.Run(name, func(t *testing.T) {
			b := startIn(t, tampered(t, faults...), rig.DataDir(t), "--admin-listen", "127.0.0.1:0")
			id := b.topic("t", 1)
			pid := b.p.PID()
			if status, body := b.get("/healthz/ready"); status != http.StatusOK {
				t.Fatalf("not ready: %s", body)
			}
			b.mustShow(`mqd_log_failed{shard="0"} 0`)
			b.mustOrder("status", 0, "serving, ready", "works")
			b.mustOrder("reopen", 1, "every log works")

			c := b.open()
			acked := b.produceUntilRefused(c, id)
			if len(acked) == 0 {
				t.Fatal("nothing was acknowledged")
			}
			b.mustShow(`mqd_log_failed{shard="0"} 1`)
			b.mustShow("mqd_ready 0")
			if status, body := b.get("/healthz/ready"); status != http.StatusServiceUnavailable || !strings.Contains(body, "the log of shard 0 has failed") {
				t.Errorf("ready with %d: %s", status, body)
			}
			b.mustOrder("status", 2, "NOT READY", "input/output error", "FAILED")
			b.mustHold(id, acked) // reads go on

			b.mustReopen()
			if _, err := c.Produce(wire.ProduceRequest{Topic: id, Batch: batchOf("late")}); err == nil {
				t.Error("a connection to the old node was answered")
			}
			b.mustHold(id, acked)
			for !b.takesMore(id) {
				b.mustReopen()
			}
			b.mustHold(id, acked)
			if now := b.p.PID(); now != pid {
				t.Errorf("process %d became %d", pid, now)
			}
			if err := b.p.Kill(); err != nil { // an orderly end may come to a fault too
				t.Error(err)
			}
		})
	}
}
