package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
)

// The system calls of the portable driver can be tampered with from outside, as those
// of io_uring cannot: strace puts faults into a real broker.

// tampered is a program that runs mqd with faults in its system calls, each in the
// words of strace's option --inject. It skips the test where that cannot be done.
func tampered(t *testing.T, faults ...string) string {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skipf("no strace: %v", err)
	}
	dir := t.TempDir()
	// Detached, so that the process is the broker and not strace.
	line := []string{"exec", strace, "-D", "-f", "-qq", "-o", filepath.Join(dir, "calls")}
	names := []string{}
	for _, f := range faults {
		name, _, _ := strings.Cut(f, ":")
		names = append(names, name)
		line = append(line, "--inject="+f)
	}
	line = append(line, "--trace="+strings.Join(names, ","))
	run := filepath.Join(dir, "run")
	write := func(command string) {
		text := fmt.Sprintf("#!/bin/sh\n%s %s\n", strings.Join(line, " "), command)
		if err := process.Script(run, text); err != nil {
			t.Fatal(err)
		}
	}
	write("true")
	if out, err := exec.Command(run).CombinedOutput(); err != nil {
		t.Skipf("strace cannot be used here: %v: %s", err, out)
	}
	write(rig.Binary(t) + ` "$@"`)
	return run
}

// startIn starts a broker on the portable driver, which the caller ends.
func startIn(t *testing.T, binary, dir string, args ...string) *broker {
	t.Helper()
	p, err := process.Start(process.Config{Binary: binary, Dir: dir, Args: append([]string{
		"--io", "portable", "--shards", "1", "--idle", "block", "--journal-size", "8MiB", "--cache-size", "8MiB", "--memory-limit", "64MiB"}, args...)})
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, p: p}
	t.Cleanup(func() { _ = p.Kill() }) // it has ended unless the test has failed
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if b.addr, _, err = p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return b
}

// values collects what is read.
type values []string

func (v *values) Record(_ int64, r *batch.RecordView) { *v = append(*v, string(r.Value)) }
func (v *values) Skip(from, to int64)                 { *v = append(*v, fmt.Sprintf("skip %d to %d", from, to)) }

// mustHold reads a topic and expects exactly these messages at its beginning.
func (b *broker) mustHold(topic wire.TopicID, want []string) {
	b.t.Helper()
	var got values
	if err := b.open().ReadAll(topic, 0, 0, int64(len(want)), &got); err != nil {
		b.t.Fatalf("%v; the broker said: %s", err, b.p.LogTail())
	}
	if len(got) < len(want) {
		b.t.Fatalf("%d messages are there, %d were acknowledged", len(got), len(want))
	}
	for i, v := range want {
		if got[i] != v {
			b.t.Fatalf("message %d is %q, expected %q", i, got[i], v)
		}
	}
}

func TestFaultsOfCallsThatPassAreNotNoticed(t *testing.T) {
	rig.NeedDriver(t)
	for name, faults := range map[string][]string{
		"short":       {"pwritev2:retval=512:when=2+3", "recvfrom:error=EINTR:when=2+5", "epoll_pwait2:error=EINTR:when=3+4"},
		"no means":    {"pwritev2:error=EAGAIN:when=2+3", "accept4:error=ECONNABORTED:when=1+2", "sendmsg:error=EINTR:when=2+3"},
		"old kernel":  {"pwritev2:error=EOPNOTSUPP", "epoll_pwait2:error=ENOSYS"},
		"descriptors": {"accept4:error=EMFILE:when=1+3", "pwritev2:error=ENOMEM:when=4+7"},
	} {
		t.Run(name, func(t *testing.T) {
			binary := tampered(t, faults...)
			b := startIn(t, binary, rig.DataDir(t))
			id := b.topic("t", 1)
			c := b.open()
			var acked []string
			for i := range 200 {
				v := fmt.Sprintf("message %d", i)
				r, err := c.Produce(wire.ProduceRequest{Topic: id, Batch: batchOf(v)})
				if err != nil || r.Code != wire.CodeNone {
					t.Fatalf("message %d: %v, %v; the broker said: %s", i, err, r.Code, b.p.LogTail())
				}
				acked = append(acked, v)
			}
			b.mustHold(id, acked)
			calls, err := os.ReadFile(filepath.Join(filepath.Dir(binary), "calls"))
			// How often depends on how the broker finds it best to write.
			for _, f := range faults {
				call, _, _ := strings.Cut(f, ":")
				hit := regexp.MustCompile(`(?m)\b` + call + `\b.*\(INJECTED\)`)
				if err != nil || !hit.Match(calls) {
					t.Errorf("%s was not tampered with: %d bytes of calls, %v", call, len(calls), err)
				}
			}
			b.stop()
		})
	}
}

// A device that fails ends the log: what was acknowledged stays readable at once, and is
// there after a start on a device that works again. The start, which measures the device with
// 50 writes at most, comes to no fault.
func TestADeviceThatFailsTakesNothingBack(t *testing.T) {
	rig.NeedDriver(t)
	for name, faults := range map[string][]string{
		"writes":  {"pwritev2:error=EIO:when=400+", "pwrite64:error=EIO:when=400+"},
		"flushes": {"pwritev2:error=EOPNOTSUPP", "fdatasync:error=EIO:when=400+"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := rig.DataDir(t)
			b := startIn(t, tampered(t, faults...), dir)
			id := b.topic("t", 1)
			c := b.open()
			var acked []string
			for {
				v := fmt.Sprintf("message %d", len(acked))
				r, err := c.Produce(wire.ProduceRequest{Topic: id, Batch: batchOf(v)})
				if err != nil {
					t.Fatalf("after %d messages: %v; the broker said: %s", len(acked), err, b.p.LogTail())
				}
				if r.Code != wire.CodeNone {
					if r.Code != wire.CodeStorageError {
						t.Fatalf("refused with %v, expected %v", r.Code, wire.CodeStorageError)
					}
					break
				}
				acked = append(acked, v)
			}
			if len(acked) == 0 {
				t.Fatal("nothing was acknowledged")
			}
			b.mustHold(id, acked)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := b.p.Stop(ctx); err == nil || !strings.Contains(err.Error(), "exit status 1") {
				t.Errorf("it ended with %v, expected status 1", err)
			}

			again := startIn(t, rig.Binary(t), dir)
			again.mustHold(id, acked)
			again.mustServe(again.open(), id)
			again.stop()
		})
	}
}
