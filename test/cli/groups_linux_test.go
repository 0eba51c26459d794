package cli

import (
	"bufio"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// follow starts a member that follows, and returns it after its first n lines.
func follow(t *testing.T, b *broker, n int) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(mqd, "consume", "t", "--group", "g", "--follow", "--server", b.addr)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() {
		t.Error("the member reads nothing")
		_ = cmd.Process.Kill() // it may have ended
	})
	defer timer.Stop()
	var got strings.Builder
	lines := bufio.NewScanner(out)
	for range n {
		if !lines.Scan() {
			t.Fatalf("the output ended after %q", got.String())
		}
		got.WriteString(lines.Text() + "\n")
	}
	return cmd, got.String()
}

// A group goes on behind what was written, whether its member had enough, was ended with
// Ctrl-C or was killed.
func TestConsumeCommitsWhatItHasWritten(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t", "--partitions", "1")
	b.must("0\n1\n2\n3\n4\n", "produce", "t")
	if got := b.must("", "consume", "t", "--group", "g", "--count", "2"); got != "0\n1\n" {
		t.Fatalf("the first two: %q", got)
	}
	if got := b.must("", "consume", "t", "-g", "g"); got != "2\n3\n4\n" {
		t.Fatalf("the rest: %q", got)
	}
	b.must("5\n6\n", "produce", "t")
	cmd, got := follow(t, b, 2)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || got != "5\n6\n" {
		t.Fatalf("ended by Ctrl-C: %v, %q", err, got)
	}
	b.must("7\n8\n", "produce", "t")
	cmd, got = follow(t, b, 2)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if got != "7\n8\n" {
		t.Fatalf("before the kill: %q", got)
	}
	// Its session has to pass. It had no time to commit, unless the machine stood still
	// before the kill.
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); len(b.group("g").Members) > 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("a member that was killed is in its group for good")
		}
	}
	next := *b.group("g").Partitions[0].Committed
	if next < 7 || next > 9 {
		t.Fatalf("%d is committed", next)
	}
	b.must("9\n", "produce", "t")
	want := "7\n8\n9\n"[2*(next-7):]
	cmd, got = follow(t, b, strings.Count(want, "\n"))
	_ = cmd.Process.Kill() // it has written
	_ = cmd.Wait()
	if got != want {
		t.Fatalf("after the kill: %q, expected %q", got, want)
	}
}
