package cli

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// screen is a terminal, and what a person sees and types.
func screen(t *testing.T) (person, terminal *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return person, terminal
}

func TestAtATerminalThePersonDecides(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t", "--partitions", "2")
	b.must("a\nb\nc\n", "produce", "t", "--partition", "0")
	answer := func(text string, args ...string) (string, error) {
		person, terminal := screen(t)
		if _, err := person.WriteString(text); err != nil { // it waits until it is read
			t.Fatal(err)
		}
		var out bytes.Buffer
		cmd := exec.Command(mqd, append(args, "--server", b.addr)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, &out, terminal
		err := cmd.Run()
		return out.String(), err
	}
	if out, err := answer("no\n", "topic", "trim", "t", "--partition", "0", "--offset", "end"); err == nil {
		t.Errorf("no: %q", out)
	}
	out, err := answer("y\n", "topic", "trim", "t", "--partition", "0", "--offset", "1")
	wants(t, out, "would delete 1 message", "topic t partition 0: deleted 1 message; the log begins at 1, before at 0")
	if err != nil {
		t.Error(err)
	}
	if out, err = answer("\n", "topic", "delete", "t"); err == nil {
		t.Errorf("nothing typed: %q", out)
	}
	if out := b.must("", "consume", "t", "--from", "start"); out != "b\nc\n" {
		t.Errorf("without consent something is deleted: %q is left", out)
	}
	if out, err = answer("yes\n", "topic", "delete", "t"); out != "deleted topic t\n" || err != nil {
		t.Errorf("yes: %q, %v", out, err)
	}
	b.stop()
}
