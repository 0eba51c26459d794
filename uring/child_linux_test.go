package uring

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

// Some limits hold for a whole process. Tests of those run the test binary again
// as a child that does one of these and prints what it found.
var children = map[string]func(args []string) error{
	"memlock": memlockChild,
	"seccomp": seccompChild,
	"load":    loadChild,
}

const childVar = "URING_TEST_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childVar); name != "" {
		runtime.LockOSThread()
		if err := children[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is the command that runs a child, by way of a wrapper if there is one.
func child(t *testing.T, name string, wrapper []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	line := append(append(wrapper, self), args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), childVar+"="+name)
	cmd.Dir = t.TempDir()
	return cmd
}

// runChild returns what a child prints.
func runChild(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := child(t, name, nil, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("child %s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// childArena is the I/O memory of memlockChild.
const childArena = 4 << 20

// memlockChild gives up its privileges, limits locked memory to args[0] bytes,
// opens a driver, and writes and reads through all of its memory.
func memlockChild(args []string) error {
	limit, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	if os.Getuid() == 0 {
		// A user of its own, because locked memory is counted by user.
		id := 61_000 + os.Getpid()%1000
		if err := errors.Join(os.Chown(".", id, id), unix.Setresgid(id, id, id), unix.Setresuid(id, id, id)); err != nil {
			return err
		}
	}
	o := small
	o.ArenaBytes = childArena
	d, err := New(o, Config{})
	if errors.Is(err, ErrLockedMemory) {
		fmt.Printf("refused: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Printf("registered %d of %d\n", d.arena.registered, len(d.arena.mem))
	for _, note := range d.Notes() {
		fmt.Printf("note: %s\n", note)
	}
	f, _, err := aio.OpenFile(d, "f", aio.OpenWrite|aio.OpenCreate)
	if err != nil {
		return err
	}
	b, err := d.Alloc(int(o.ArenaBytes) - 4096)
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = byte(i >> 12)
	}
	if err := aio.WriteAt(d, f, b, 0, 0); err != nil {
		return err
	}
	last, err := d.Alloc(4096)
	if err != nil {
		return err
	}
	for _, at := range []int{0, len(b) - 4096} {
		n, err := aio.ReadAt(d, f, last, int64(at))
		if err != nil || n != 4096 || last[0] != byte(at>>12) {
			return fmt.Errorf("read %d bytes at %d, the first is %d: %w", n, at, last[0], err)
		}
	}
	return d.Close()
}

var (
	registeredLine = regexp.MustCompile(`registered (\d+) of (\d+)`)
	needLine       = regexp.MustCompile(`LimitMEMLOCK=(\d+)`)
)

func TestLittleLockedMemoryIsLivedWithAndReported(t *testing.T) {
	var lim unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lim))
	if lim.Max < childArena+1<<20 {
		t.Skipf("the limit of locked memory is %d, this test needs one above %d", lim.Max, childArena+1<<20)
	}
	out := runChild(t, "memlock", strconv.Itoa(2<<20))
	reg, need := registeredLine.FindStringSubmatch(out), needLine.FindStringSubmatch(out)
	if reg == nil || need == nil || strings.Count(out, "note:") != 1 {
		t.Fatalf("a limit of 2 MiB: %s", out)
	}
	if reg[1] != strconv.Itoa(1<<20) || reg[2] != strconv.Itoa(childArena) {
		t.Errorf("of 4 MiB in a limit of 2 MiB, 1 MiB and the ring can be registered: %s", out)
	}
	// The stated limit is enough, and exact.
	exact, err := strconv.Atoi(need[1])
	check(t, err)
	if out := runChild(t, "memlock", need[1]); strings.Contains(out, "note:") || !strings.Contains(out, fmt.Sprintf("registered %d of", childArena)) {
		t.Errorf("the stated limit of %d is not enough: %s", exact, out)
	}
	if out := runChild(t, "memlock", strconv.Itoa(exact-4096)); !strings.Contains(out, "note:") {
		t.Errorf("less than the stated limit of %d is enough: %s", exact, out)
	}
	if out := runChild(t, "memlock", strconv.Itoa(300<<10)); !strings.Contains(out, "registered 0 of") {
		t.Errorf("a limit of 300 KiB: %s", out)
	}
	// Enough for the ring, and not for the ring of receive buffers.
	if out := runChild(t, "memlock", strconv.Itoa(exact-childArena-4096)); !strings.Contains(out, "refused:") || !needLine.MatchString(out) {
		t.Errorf("a limit of a page less than the ring needs: %s", out)
	}
	if out := runChild(t, "memlock", "4096"); !strings.Contains(out, "refused:") || !strings.Contains(out, "LimitMEMLOCK") {
		t.Errorf("a limit of 4 KiB: %s", out)
	}
}

// seccompChild forbids io_uring_setup with the errno args[0] and prints what New
// and Probe say.
func seccompChild(args []string) error {
	errno, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		jump  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
		allow = 0x7fff0000 // SECCOMP_RET_ALLOW
		deny  = 0x00050000 // SECCOMP_RET_ERRNO
		tsync = 1          // SECCOMP_FILTER_FLAG_TSYNC
	)
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // the number of the system call
		{Code: jump, K: unix.SYS_IO_URING_SETUP, Jf: 1},
		{Code: ret, K: deny | uint32(errno)},
		{Code: ret, K: allow},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, 1, tsync, uintptr(unsafe.Pointer(&prog))); e != 0 {
		fmt.Printf("no seccomp: %v\n", e)
		return nil
	}
	_, err = New(small, Config{})
	_, perr := Probe()
	fmt.Printf("forbidden %v %v unsupported %v %v\nnew: %v\nprobe: %v\n", errors.Is(err, ErrForbidden), errors.Is(perr, ErrForbidden),
		errors.Is(err, ErrUnsupported), errors.Is(perr, ErrUnsupported), err, perr)
	return nil
}

func TestAFilterThatForbidsRingsIsNamed(t *testing.T) {
	for errno, want := range map[unix.Errno][]string{
		unix.EPERM:  {"forbidden true true unsupported false false", "seccomp profile"},
		unix.ENOSYS: {"forbidden false false unsupported true true", "no io_uring_setup"},
	} {
		out := runChild(t, "seccomp", strconv.Itoa(int(errno)))
		if strings.HasPrefix(out, "no seccomp") {
			t.Skip(strings.TrimSpace(out))
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%v: %q is not in\n%s", errno, w, out)
			}
		}
	}
}

// loadChild writes, reads and sends under whatever makes its calls fail, and
// checks every byte.
func loadChild([]string) error {
	d, err := New(small, Config{SubmitEntries: 4})
	if err != nil {
		return err
	}
	f, _, err := aio.OpenFile(d, "f", aio.OpenWrite|aio.OpenCreate|aio.OpenDirect)
	if err != nil {
		return err
	}
	b, err := d.Alloc(16 * aio.BlockSize)
	if err != nil {
		return err
	}
	for round := range 20 {
		for i := range b {
			b[i] = byte(i>>12 + round)
		}
		done := make([]int, 16)
		ops := make([]aio.Op, 16)
		o := &log{then: func(op *aio.Op) { done[op.Tag]++ }}
		for i := range ops {
			at := i * aio.BlockSize
			ops[i] = aio.Op{Kind: aio.KindWrite, File: f, Buf: b[at : at+aio.BlockSize], Off: int64(at), Owner: o, Tag: uint64(i)}
			d.Submit(&ops[i])
		}
		for d.InFlight() > 0 {
			if _, err := d.Poll(50 * time.Millisecond); err != nil {
				return err
			}
		}
		for i, n := range done {
			if n != 1 || ops[i].Err != nil {
				return fmt.Errorf("round %d: write %d completed %d times: %w", round, i, n, ops[i].Err)
			}
		}
		data, err := os.ReadFile("f")
		if err != nil || string(data) != string(b) {
			return fmt.Errorf("round %d: the file does not hold what was written: %w", round, err)
		}
	}
	fmt.Printf("pressure %d\n", d.Stats().Pressure)
	return d.Close()
}

// TestRefusedEntersLoseAndRepeatNothing has strace make io_uring_enter fail.
func TestRefusedEntersLoseAndRepeatNothing(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace")
	}
	if out, err := exec.Command(strace, "-f", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace does not work here: %s", out)
	}
	for _, errno := range []string{"EBUSY", "EAGAIN", "EINTR"} {
		for _, when := range []string{"2+3", "3+5"} {
			cmd := child(t, "load", []string{strace, "-f", "-o", os.DevNull, "-e", "trace=io_uring_enter",
				"-e", "inject=io_uring_enter:error=" + errno + ":when=" + when})
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s at %s: %v\n%s", errno, when, err, out)
			}
			if refused := !strings.Contains(string(out), "pressure 0\n"); refused != (errno != "EINTR") {
				t.Errorf("%s at %s: %s", errno, when, out)
			}
		}
	}
}
