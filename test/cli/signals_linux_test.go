package cli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/test/process"
)

// A producer that was told to end waits for the answers to what it has sent. Told once
// more it ends on the spot.
func TestASecondSignalEndsAProducerThatWaits(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t")
	acks := filepath.Join(t.TempDir(), "acks")
	cmd := exec.Command(mqd, "produce", "t", "--acks-file", acks, "--timeout", "1h", "--server", b.addr)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() {
		t.Error("the producer does not end")
		_ = cmd.Process.Kill()
	})
	defer timer.Stop()
	send := func(line string) {
		t.Helper()
		if _, err := in.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	send("answered\n")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		if text, err := os.ReadFile(acks); err == nil && bytes.HasPrefix(text, []byte("0 0 1\n")) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the first message is not acknowledged")
		}
	}
	b.signal(syscall.SIGSTOP)
	patient, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := process.Frozen(patient, b.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	send("not answered\n")
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait() // how it ended is in ProcessState
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the producer ended with %v", cmd.ProcessState)
	}
	b.signal(syscall.SIGCONT)
	b.stop()
}
