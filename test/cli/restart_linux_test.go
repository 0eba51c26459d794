package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAnOrderlyEndLeavesNothingToReplay(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir, "--shards", "2")
	in := run(t, "", "generate", "messages", "--count", "3000").out
	for _, class := range []string{"flushed", "written", "memory"} {
		b.must("", "topic", "create", class, "--partitions", "4", "--durability", class)
		b.must(in, "produce", class)
	}
	b.stop()
	b = serve(t, dir, "--shards", "2")
	for field, want := range map[string]any{"replayed": 0.0, "torn_tails": 0.0, "damaged": 0.0, "gaps": 0.0, "term": 2.0} {
		if got := b.serving()[field]; got != want {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
	for _, class := range []string{"flushed", "written", "memory"} {
		if got := strings.Count(b.must("", "consume", class), "\n"); got != 3000 {
			t.Errorf("%s has %d messages", class, got)
		}
	}
	b.stop()
}

// A broker dies while a producer is at work. What the producer saw acknowledged is
// there after the restart, at its place, also with another number of shards.
func TestWhatIsAcknowledgedSurvivesAKill(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir, "--shards", "3")
	b.must("", "topic", "create", "t", "--partitions", "4")
	text := run(t, "", "generate", "messages", "--count", "400000").out
	in := strings.Split(text, "\n")
	acks := filepath.Join(t.TempDir(), "acks")
	// Through a pipe the test sees acknowledgements as they come.
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	// Its input does not end, so that it is at work however fast it is.
	cmd := exec.Command(mqd, "produce", "t", "--acks-file", pipe, "--rate", "200000", "--server", b.addr)
	input, w := ioPipe(t)
	cmd.Stdin, cmd.Stderr = input, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	input.Close()
	go func() { _, _ = w.WriteString(text) }() // until the producer ends
	r, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var seen bytes.Buffer
	const enough = 20_000
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fmt.Fprintln(&seen, lines.Text())
		if n == enough {
			b.kill()
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the producer ended well, although its broker was killed")
	}
	if err := os.WriteFile(acks, seen.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	count := strings.Count(seen.String(), "\n")
	wants(t, strings.ReplaceAll(errs.String(), ",", ""), fmt.Sprintf("mqd: %d of ", count), "messages acknowledged: ")

	for _, shards := range []string{"1", "2"} {
		b = serve(t, dir, "--shards", shards)
		checkAcks(t, b, "t", acks, in, enough)
		if got := strings.Count(b.must("", "consume", "t"), "\n"); got < count {
			t.Errorf("%d shards: %d messages, %d were acknowledged", len(shards), got, count)
		}
		b.must("more\n", "produce", "t")
		b.kill()
	}
	b = serve(t, dir)
	checkAcks(t, b, "t", acks, in, enough)
	b.stop()
}

// After a crash offsets that may have been served are passed over: the end of the
// topic is then behind its last message, and consume has to find its own end.
func TestConsumeEndsAtAGap(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir)
	b.must("", "topic", "create", "t", "--durability", "memory", "--config", "flush.interval=1h")
	b.must("lost\n", "produce", "t")
	b.kill()
	b = serve(t, dir)
	if gaps := b.serving()["gaps"]; gaps != 1.0 {
		t.Errorf("%v gaps were recorded", gaps)
	}
	if out := b.must("", "consume", "t"); out != "" {
		t.Errorf("what was lost came out: %q", out)
	}
	b.must("kept\n", "produce", "t")
	for _, args := range []string{"", "--from start", "--from 0"} {
		if out := b.must("", append([]string{"consume", "t"}, strings.Fields(args)...)...); out != "kept\n" {
			t.Errorf("consume %s: %q", args, out)
		}
	}
	b.stop()
}

func TestAProducerSaysWhenTheBrokerHasGone(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t")
	in, w := ioPipe(t)
	var errs bytes.Buffer
	acks := filepath.Join(t.TempDir(), "acks")
	if err := unix.Mkfifo(acks, 0o600); err != nil {
		t.Fatal(err)
	}
	// So long it waits for a broker, and for an answer.
	cmd := exec.Command(mqd, "produce", "t", "--timeout", "8s", "--acks-file", acks, "--server", b.addr)
	cmd.Stdin, cmd.Stderr = in, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	in.Close()
	r, err := os.Open(acks)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ack := bufio.NewReader(r)
	fmt.Fprintln(w, "one")
	if line, err := ack.ReadString('\n'); err != nil || line != "0 0 1\n" {
		t.Fatalf("%q, %v", line, err)
	}
	b.kill()
	fmt.Fprintln(w, "two")
	if err := cmd.Wait(); err == nil {
		t.Fatal("the producer ended well, although its broker was killed")
	}
	wants(t, oneLine(t, result{errs: errs.String(), status: cmd.ProcessState.ExitCode()}), "1 of 2 messages acknowledged")
}

func TestAnInterruptedProducerWaitsForWhatItHasSent(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t")
	in, w := ioPipe(t)
	var errs bytes.Buffer
	acks := filepath.Join(t.TempDir(), "acks")
	if err := unix.Mkfifo(acks, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(mqd, "produce", "t", "--acks-file", acks, "--server", b.addr)
	cmd.Stdin, cmd.Stderr = in, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	in.Close()
	r, err := os.Open(acks)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fmt.Fprintln(w, "one")
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || line != "0 0 1\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("an interrupted producer ended well")
	}
	wants(t, oneLine(t, result{errs: errs.String(), status: cmd.ProcessState.ExitCode()}),
		"all 1 messages that were read are acknowledged: interrupted")
	b.stop()
}

// ioPipe is a pipe whose ends are closed with the test.
func ioPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}
