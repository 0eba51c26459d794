package cli

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// refused starts a broker that must not start, and returns why.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	needBroker(t)
	line := append([]string{"serve", "--listen", "127.0.0.1:0"}, small...)
	r := run(t, "", append(line, args...)...)
	// Warnings come before, as lines of the log.
	var last result
	for text := range strings.Lines(r.errs) {
		if !strings.HasPrefix(text, "{") {
			last.errs += text
		}
	}
	last.status = r.status
	return oneLine(t, last)
}

func TestATakenPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := filepath.Join(t.TempDir(), "data")
	line := refused(t, "--data-dir", dir, "--listen", l.Addr().String())
	wants(t, line, "port in use", l.Addr().String(), "--listen")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a broker that has not started has made its directory (%v)", err)
	}
}

// The sockets of a broker share their port among its shards; another broker must
// not share in.
func TestThePortOfAnotherBrokerIsTaken(t *testing.T) {
	b := serve(t, t.TempDir(), "--shards", "2")
	line := refused(t, "--data-dir", t.TempDir(), "--listen", b.addr)
	wants(t, line, "port in use", b.addr)
	b.stop()
}

func TestADataDirectoryInUseIsNamed(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir)
	line := refused(t, "--data-dir", dir)
	wants(t, line, "data directory "+dir+" is locked")
	b.stop()
	serve(t, dir).stop()
}

// People remove lock files that they take for what a crash has left. Neither a second broker
// nor a salvage may work on the directory then: both would write to the journals of the first.
func TestWhoeverRemovesLockFilesLetsNobodyIn(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir)
	for _, name := range []string{"lock", "journals/journal-0.lock"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, refused(t, "--data-dir", dir), "data directory "+dir+" is locked")
	if r := run(t, "", "salvage", "--data-dir", dir); r.status == 0 || !strings.Contains(r.errs, "a broker runs on") {
		t.Errorf("salvage ends with status %d and says %s%s", r.status, r.out, r.errs)
	}
	b.stop()
	serve(t, dir).stop()
}

func TestADirectoryOfSomethingElseIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "thesis.txt")
	if err := os.WriteFile(file, []byte("words"), 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, refused(t, "--data-dir", dir), dir+" is no data directory", "thesis.txt")
	wants(t, refused(t, "--data-dir", file), file+" is a file")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the directory now holds %v, %v", left, err)
	}
}

func TestANewerFormatIsRefusedAndLeftAlone(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir).stop()
	path := filepath.Join(dir, "mqd.node")
	node, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// docs/format/checkpoint.md: the version is at 4, the CRC-32C of the rest at the
	// end.
	newer := append([]byte{}, node...)
	binary.BigEndian.PutUint16(newer[4:], binary.BigEndian.Uint16(newer[4:])+1)
	end := len(newer) - 4
	binary.BigEndian.PutUint32(newer[end:], crc32.Checksum(newer[:end], crc32.MakeTable(crc32.Castagnoli)))
	if err := os.WriteFile(path, newer, 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, refused(t, "--data-dir", dir), "written by a newer version of mqd", dir, "v0.0.0-test")
	wants(t, oneLine(t, run(t, "", "salvage", "--data-dir", dir)), "written by a newer version of mqd", dir)
	v := run(t, "", "verify", "--data-dir", dir)
	if wants(t, v.out, "mqd.node at byte 4: a newer version of mqd has written it"); v.status != 1 || strings.Contains(v.out+v.errs, "whole: ") {
		t.Errorf("verify: status %d, %s%s", v.status, v.out, v.errs)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(newer) {
		t.Errorf("the node file was changed: %v", err)
	}
	if err := os.WriteFile(path, node, 0o600); err != nil {
		t.Fatal(err)
	}
	serve(t, dir).stop()
}

func TestStrangersAreNotListenedTo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	wants(t, refused(t, "--data-dir", dir, "--listen", "0.0.0.0:0"), "not listening on 0.0.0.0:0", "no authentication", "--insecure")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a data directory was made: %v", err)
	}
	b := serve(t, dir, "--listen", "0.0.0.0:0", "--insecure")
	if !strings.HasPrefix(b.addr, "0.0.0.0:") {
		t.Errorf("it listens on %s", b.addr)
	}
	b.stop()
}

func TestThePortableDriverServesWhoAsksForIt(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir, "--io", "portable", "--shards", "1")
	if got := b.serving()["driver"]; got != "portable" {
		t.Fatalf("the driver is %v", got)
	}
	for _, w := range b.warnings() {
		if strings.Contains(w, "portable") {
			t.Errorf("a warning of what was asked for: %s", w)
		}
	}
	b.must("", "topic", "create", "t")
	b.must("a\nb\n", "produce", "t")
	b.stop()
	b = serve(t, dir, "--io", "portable")
	for field, want := range map[string]any{"replayed": 0.0, "torn_tails": 0.0, "damaged": 0.0, "gaps": 0.0} {
		if got := b.serving()[field]; got != want {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
	if got := b.must("", "consume", "t"); got != "a\nb\n" {
		t.Errorf("consumed %q", got)
	}
	b.stop()
}

func TestAJournalTooSmallForTheMessagesIsRefused(t *testing.T) {
	wants(t, refused(t, "--data-dir", t.TempDir(), "--journal-size", "1MiB"), "max message size", "an eighth of the journal")
}

func TestAnAdvertisedAddressWithoutAListenerIsWarnedOf(t *testing.T) {
	b := serve(t, t.TempDir(), "--kafka-advertise", "broker.example:9092")
	b.warned("kafka.advertise is for nobody")
	b.stop()
	wants(t, refused(t, "--data-dir", t.TempDir(), "--kafka-advertise", "foo"), `kafka.advertise is "foo", expected host:port`)
}

func TestMoreShardsThanCPUsRunWithAWarning(t *testing.T) {
	shards := runtime.NumCPU() + 1
	if shards > 16 {
		t.Skipf("%d CPUs: more shards than those would be a test of memory", runtime.NumCPU())
	}
	b := serve(t, t.TempDir(), "--shards", strconv.Itoa(shards), "--recv-buffers", "16", "--cache-size", "128MiB")
	if got := b.serving()["shards"]; got != float64(shards) {
		t.Errorf("%v shards", got)
	}
	b.warned("they share CPUs")
	b.must("", "topic", "create", "t", "--partitions", "64")
	b.must("a\nb\nc\n", "produce", "t")
	if got := strings.Fields(b.must("", "consume", "t")); len(got) != 3 {
		t.Errorf("consumed %q", got)
	}
	b.stop()
}

func TestTheReadyFileHoldsTheAddress(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready")
	b := serve(t, t.TempDir(), "--ready-file", file)
	text, err := os.ReadFile(file)
	if err != nil || string(text) != b.addr+"\n" {
		t.Errorf("%q, %v", text, err)
	}
	b.signal(syscall.SIGINT)
	if err := <-b.done; err != nil {
		t.Errorf("SIGINT: %v", err)
	}
	wants(t, b.log.String(), `"msg":"stopping"`, `"msg":"stopped"`)
}

func TestSettingsAreReadAgainOnSIGHUP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mqd.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("log:\n  level: info\n")
	b := serve(t, t.TempDir(), "--config", file)
	write("log:\n  level: debug\nnet:\n  idle_timeout: 1h\n")
	b.signal(syscall.SIGHUP)
	if !b.log.wait("configuration reloaded") {
		t.Fatal("the broker ended")
	}
	wants(t, b.log.String(), "changed setting needs a restart", "net.idle_timeout", `"log_level":"debug"`)
	write("log:\n  level: loud\n")
	b.signal(syscall.SIGHUP)
	if !b.log.wait("configuration not reloaded") {
		t.Fatal("the broker ended")
	}
	wants(t, b.log.String(), file+":2:10: log.level is")
	b.stop()
}
