package fusedisk

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { os.Exit(Isolate(m.Run)) }

// serve serves disks for a test.
func serve(t *testing.T) *Server {
	t.Helper()
	Need(t)
	s, err := Serve(Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// shell has a child run a command: this process must not wait for its own disk.
func shell(t *testing.T, script string, args ...string) string {
	t.Helper()
	out, err := exec.Command("sh", append([]string{"-ec", script, "sh"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

// attached has a filesystem on a new disk. It commits nothing by itself while a test lasts.
func attached(t *testing.T, s *Server, name string, f Filesystem, direct bool) (*Disk, *Attachment) {
	t.Helper()
	d := f.NewDisk(f.MinSize)
	path := s.Add(name, d)
	if err := f.Format(path); err != nil {
		t.Fatal(err)
	}
	options := ""
	if f.Name == Ext4.Name {
		options = "commit=300" // seconds; 5 without it
	}
	a, err := f.Attach(path, Dir(t), direct, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Detach(); err != nil {
			t.Error(err)
		}
	})
	return d, a
}

// image mounts what a power cut leaves.
func image(t *testing.T, s *Server, f Filesystem, d *Disk, m Mode) string {
	t.Helper()
	img := d.Cut(m, rand.New(rand.NewPCG(1, 1)))
	a, err := f.Attach(s.Add("image-"+m.String(), img.Disk), Dir(t), false, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Detach(); err != nil {
			t.Error(err)
		}
	})
	return a.Dir
}

func TestAFilesystemLosesWhatItDidNotSync(t *testing.T) {
	for _, f := range []Filesystem{Ext4, XFS} {
		for _, direct := range []bool{false, true} {
			name := f.Name + " buffered"
			if direct {
				name = f.Name + " direct"
			}
			t.Run(name, func(t *testing.T) {
				s := serve(t)
				if why := f.Missing(); why != "" {
					t.Skip(why)
				}
				d, a := attached(t, s, "disk", f, direct)
				shell(t, `cd "$1"; echo kept >kept; sync; echo gone >gone`, a.Dir)
				for m := range Modes {
					dir := image(t, s, f, d, m)
					if got := shell(t, `cat "$1/kept"; [ ! -e "$1/gone" ] || cat "$1/gone"`, dir); got != "kept\n" {
						t.Errorf("after a cut that leaves %v: %q", m, got)
					}
				}
				if got := shell(t, `cat "$1/gone" "$1/kept"`, a.Dir); got != "gone\nkept\n" {
					t.Errorf("the disk itself has %q", got)
				}
				if n := d.Stats().Flushes; n < 2 {
					t.Errorf("%d flushes arrived, expected those of mkfs and of sync", n)
				}
			})
		}
	}
}

func TestDirectWritesAreVolatileUntilTheirFlush(t *testing.T) {
	s := serve(t)
	d, a := attached(t, s, "disk", Ext4, true)
	shell(t, `dd if=/dev/zero of="$1/f" bs=4096 count=64 conv=fsync status=none; sync`, a.Dir)
	before := d.Stats()
	shell(t, `tr '\0' x </dev/zero | dd iflag=fullblock of="$1/f" bs=4096 count=64 oflag=direct conv=notrunc status=none`, a.Dir)
	if now := d.Stats(); now.Unflushed < 64*4096 || now.Flushes != before.Flushes {
		t.Fatalf("%d bytes unflushed after %d flushes, expected 256 KiB and %d", now.Unflushed, now.Flushes, before.Flushes)
	}
	count := `tr -cd x <"$1/f" | wc -c`
	if n := strings.TrimSpace(shell(t, count, image(t, s, Ext4, d, None))); n != "0" {
		t.Errorf("%s bytes are there without a flush", n)
	}
	shell(t, `sync "$1/f"`, a.Dir)
	img := image(t, s, Ext4, d, Half)
	if n := strings.TrimSpace(shell(t, count, img)); n != "262144" {
		t.Errorf("%s of 262144 bytes are there after a flush", n)
	}
}

func TestAShutdownTakesTheLog(t *testing.T) {
	s := serve(t)
	d := Ext4.NewDisk(Ext4.MinSize)
	path := s.Add("disk", d)
	if err := Ext4.Format(path); err != nil {
		t.Fatal(err)
	}
	a, err := Ext4.Attach(path, Dir(t), false, "commit=300")
	if err != nil {
		t.Fatal(err)
	}
	shell(t, `echo kept >"$1/kept"; sync; echo gone >"$1/gone"`, a.Dir)
	if err := a.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if err := a.Detach(); err != nil {
		t.Fatal(err)
	}
	if a, err = Ext4.Attach(path, Dir(t), false, ""); err != nil {
		t.Fatal(err)
	}
	if got := shell(t, `cd "$1"; echo [kg]*`, a.Dir); got != "kept\n" {
		t.Errorf("files after a shutdown: %q", got)
	}
	if err := a.Detach(); err != nil {
		t.Fatal(err)
	}
}

func TestADiskThatFailsAFlushIsHeardOf(t *testing.T) {
	s := serve(t)
	d, a := attached(t, s, "disk", Ext4, false)
	d.FailFlushes(1)
	out, err := exec.Command("dd", "if=/dev/zero", "of="+filepath.Join(a.Dir, "f"), "bs=4096", "count=1", "conv=fsync").CombinedOutput()
	if err == nil {
		t.Fatalf("fsync on a disk that failed its flush reported success: %s", out)
	}
}

// victimVar makes a test attach a disk and wait for its end, or bring it about by
// itself when its input ends.
const victimVar = "FUSEDISK_VICTIM"

func TestEveryEndOfATestLeavesNothing(t *testing.T) {
	if os.Getenv(victimVar) != "" {
		s := serve(t)
		attached(t, s, "victim", Ext4, false)
		os.Stdout.WriteString("attached\n")
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is all that matters
		var none map[string]int
		none["a panic"]++
	}
	Need(t)
	before := loops(t)
	for how, end := range map[string]func(*exec.Cmd, io.Closer) error{
		"SIGTERM": func(c *exec.Cmd, _ io.Closer) error { return c.Process.Signal(unix.SIGTERM) },
		"SIGINT":  func(c *exec.Cmd, _ io.Closer) error { return c.Process.Signal(unix.SIGINT) },
		"SIGKILL": func(c *exec.Cmd, _ io.Closer) error { return c.Process.Kill() },
		"panic":   func(_ *exec.Cmd, in io.Closer) error { return in.Close() },
	} {
		victim, in := startVictim(t)
		if got := loops(t); got == before {
			t.Errorf("no loop device more than %q is attached", before)
		}
		if err := end(victim, in); err != nil {
			t.Fatal(err)
		}
		if err := victim.Wait(); err == nil {
			t.Errorf("%s was no end by force", how)
		}
		const patience, pause = 2 * time.Minute, 10 * time.Millisecond
		for deadline := time.Now().Add(patience); loops(t) != before; time.Sleep(pause) {
			if time.Now().After(deadline) {
				t.Fatalf("after %s loop devices are still attached: %s", how, loops(t))
			}
		}
	}
}

// startVictim runs this package's test again, in a namespace of its own, and waits
// until it has attached a disk.
func startVictim(t *testing.T) (*exec.Cmd, io.Closer) {
	t.Helper()
	cmd := self([]string{"-test.run=^TestEveryEndOfATestLeavesNothing$", "-test.v"})
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, isolatedVar+"=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, victimVar+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for !strings.Contains(said.String(), "attached") {
		var b [256]byte
		n, err := out.Read(b[:])
		if said.Write(b[:n]); err != nil {
			t.Fatalf("%v: %s", err, said.String())
		}
	}
	return cmd, in
}

// loops is which loop devices of a victim are attached now.
func loops(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	var ours []string // others on this machine have loop devices too
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && strings.HasSuffix(strings.TrimSpace(string(text)), "/victim") {
			ours = append(ours, f)
		}
	}
	return strings.Join(ours, " ")
}
