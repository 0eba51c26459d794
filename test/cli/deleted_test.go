package cli

import (
	"bufio"
	"bytes"
	"os/exec"
	"testing"
	"time"
)

func TestAFollowerIsToldThatItsTopicWasDeleted(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "orders")
	b.must("first\n", "produce", "orders")
	var errs bytes.Buffer
	cmd := exec.Command(mqd, "consume", "orders", "--follow", "--server", b.addr)
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() {
		t.Error("the follower does not end")
		_ = cmd.Process.Kill()
	})
	defer timer.Stop()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "first\n" {
		t.Errorf("%q, %v", line, err)
	}
	b.must("", "topic", "delete", "orders", "--yes")
	err = cmd.Wait()
	line := oneLine(t, result{errs: errs.String(), status: cmd.ProcessState.ExitCode()})
	wants(t, line, `topic "orders" was deleted`)
	if err == nil || bytes.Contains(errs.Bytes(), []byte("does not exist")) {
		t.Errorf("ended with %v: %s", err, line)
	}
	b.stop()
}

func TestTheFlagVersionIsTheVerb(t *testing.T) {
	for _, rest := range [][]string{nil, {"-o", "json"}} {
		verb := run(t, "", append([]string{"version"}, rest...)...)
		flag := run(t, "", append([]string{"--version"}, rest...)...)
		if flag != verb || verb.status != 0 {
			t.Errorf("%+v and %+v", flag, verb)
		}
	}
}
