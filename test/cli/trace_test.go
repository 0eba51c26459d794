package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestATurnThatIsTooLongLeavesATrace(t *testing.T) {
	admin, traces := withoutPort(t), filepath.Join(t.TempDir(), "traces")
	record := []string{"--admin-listen", admin, "--trace-record", "--shards", "1", "--max-message-bytes", "8MiB", "--journal-size", "64MiB", "--cache-size", "64MiB"}
	b := serve(t, t.TempDir(), append(record, "--trace-dir", traces, "--trace-turn", "100us")...)
	b.must("", "topic", "create", "large", "--durability", "memory", "--config", "max.message.bytes=8MiB")
	// To check and copy so much at once takes longer than that.
	large := strings.Repeat("x", 7_000_000) + "\n"
	b.must(strings.Repeat(large, 2), "produce", "large")
	if !b.log.wait("a turn was too long") {
		t.Fatal("the broker has ended")
	}
	files, err := filepath.Glob(filepath.Join(traces, "mqd-*-shard*.trace"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files %q, %v", files, err)
	}
	out := filepath.Join(t.TempDir(), "now.trace")
	if r := run(t, "", "admin", "trace", "--admin", admin, "--out", out); r.status != 0 || !strings.Contains(r.out, "go tool trace "+out) {
		t.Errorf("status %d: %s%s", r.status, r.out, r.errs)
	}
	for _, file := range append(files, out) {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text[:min(len(text), 16)]), " trace\x00") || len(text) < 1000 {
			t.Errorf("%s: %d bytes, %v", file, len(text), err)
		}
	}
	wants(t, oneLine(t, run(t, "", "admin", "trace", "--admin", admin, "--out", out)), out+" exists", "--out")
	b.stop()

	// Any durable write takes longer than the least time that a stage may be given.
	traces = filepath.Join(t.TempDir(), "of-stages")
	b = serve(t, t.TempDir(), append(record, "--trace-dir", traces, "--trace-turn", "10s", "--trace-stages", "ack_send=100us,round_wait=100us,device=100us")...)
	b.must("", "topic", "create", "large", "--config", "max.message.bytes=8MiB")
	b.must(strings.Repeat(large, 2), "produce", "large")
	if !b.log.wait("a stage took too long") {
		t.Fatal("the broker has ended")
	}
	if files, err := filepath.Glob(filepath.Join(traces, "mqd-*-shard0-*.trace")); err != nil || len(files) == 0 {
		t.Errorf("files %q, %v", files, err)
	}
	b.stop()

	b = serve(t, t.TempDir(), "--admin-listen", admin)
	wants(t, oneLine(t, run(t, "", "admin", "trace", "--admin", admin, "--out", out+"2")), "the flight recorder is off", "--trace-record")
	wants(t, refused(t, "--data-dir", t.TempDir(), "--admin-listen=", "--trace-record", "--trace-dir", out), "no traces can be written to "+out, "--trace-dir")
}
