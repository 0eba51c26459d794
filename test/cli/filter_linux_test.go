package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filterVar has the test binary forbid itself io_uring, with the error given as a
// number or filterKills, and become the command in its arguments.
const filterVar = "TEST_FILTER_OF_MQD"

// filterKills has the kernel kill who uses io_uring.
const filterKills = "kill"

// runFiltered does not return.
func runFiltered(errno string, args []string) {
	runtime.LockOSThread()
	verdict := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	var err error
	if errno != filterKills {
		var n uint64
		n, err = strconv.ParseUint(errno, 10, 16)
		verdict = unix.SECCOMP_RET_ERRNO | uint32(n)
	}
	if err == nil {
		err = forbidURing(verdict)
	}
	if err == nil {
		if err = os.Unsetenv(filterVar); err == nil {
			err = syscall.Exec(args[0], args, os.Environ())
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(99)
}

// forbidURing has a filter give the calls of io_uring an answer, for this thread and
// what it executes.
func forbidURing(verdict uint32) error {
	const loadNumber = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS // offset 0 of struct seccomp_data
	const ifEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	const answer = unix.BPF_RET | unix.BPF_K
	program := []unix.SockFilter{
		{Code: loadNumber},
		{Code: ifEqual, K: unix.SYS_IO_URING_SETUP, Jt: 2},
		{Code: ifEqual, K: unix.SYS_IO_URING_ENTER, Jt: 1},
		{Code: ifEqual, K: unix.SYS_IO_URING_REGISTER, Jf: 1},
		{Code: answer, K: verdict},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno2 := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter)))
	if errno2 != 0 {
		return fmt.Errorf("seccomp: %w", errno2)
	}
	return nil
}

// filtered runs the program where the calls of io_uring fail with errno.
func filtered(t *testing.T, errno syscall.Errno, args ...string) result {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(filterVar, strconv.Itoa(int(errno)))
	saved := mqd
	mqd = self
	defer func() { mqd = saved }()
	r := run(t, "", append([]string{saved}, args...)...)
	if r.status == 99 {
		t.Skipf("seccomp filters cannot be used here: %s", r.errs)
	}
	return r
}

func TestForbiddenURingIsExplainedToWhoInsistsOnIt(t *testing.T) {
	needBroker(t)
	args := []string{"serve", "--io", "uring", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0"}
	forbidden := oneLine(t, filtered(t, syscall.EPERM, args...))
	wants(t, forbidden, "io_uring is forbidden", "seccomp", "--io=portable")
	missing := oneLine(t, filtered(t, syscall.ENOSYS, args...))
	wants(t, missing, "io_uring is not supported", "--io=portable")
}

// Where io_uring is forbidden the portable driver serves, and says why in one line.
// What it has written is the other driver's as well.
func TestABrokerServesWhereURingIsForbidden(t *testing.T) {
	needBroker(t)
	if r := filtered(t, syscall.EPERM, "version"); r.status != 0 { // skips where filters cannot be used
		t.Fatalf("status %d: %s", r.status, r.errs)
	}
	dir := t.TempDir()
	want := ""
	for _, tc := range []struct {
		errno  syscall.Errno
		reason []string
	}{
		{syscall.EPERM, []string{"io_uring is forbidden", "seccomp"}},
		{syscall.ENOSYS, []string{"io_uring is not supported"}},
	} {
		b := serveFiltered(t, strconv.Itoa(int(tc.errno)), dir, "--shards", "2")
		if got := b.serving()["driver"]; got != "portable" {
			t.Fatalf("the driver is %v", got)
		}
		warnings := b.warnings()
		if len(warnings) == 0 || !strings.Contains(warnings[0], "portable driver serves instead of io_uring") {
			t.Fatalf("warnings: %q", warnings)
		}
		wants(t, warnings[0], tc.reason...)
		for _, w := range warnings[1:] {
			if strings.Contains(w, "io_uring") {
				t.Errorf("said again: %s", w)
			}
		}
		if want == "" {
			b.must("", "topic", "create", "t", "--partitions", "1")
		}
		text := run(t, "", "generate", "messages", "--count", "2000").out
		b.must(text, "produce", "t")
		want += text
		if got := b.must("", "consume", "t"); got != want {
			t.Fatalf("%d bytes were consumed, %d produced, or they differ", len(got), len(want))
		}
		b.kill()
	}
	b := serve(t, dir, "--shards", "1")
	if got := b.must("", "consume", "t"); got != want {
		t.Fatalf("after the kill %d bytes were consumed, %d produced, or they differ", len(got), len(want))
	}
	b.stop()
}

// Some filters kill who tries: the portable driver is one that does not.
func TestWhoAsksForThePortableDriverNeverTriesURing(t *testing.T) {
	needBroker(t)
	if r := filtered(t, syscall.EPERM, "version"); r.status != 0 { // skips where filters cannot be used
		t.Fatalf("status %d: %s", r.status, r.errs)
	}
	b := serveFiltered(t, filterKills, t.TempDir(), "--io", "portable")
	b.must("", "topic", "create", "t")
	b.must("a\n", "produce", "t")
	if got := b.must("", "consume", "t"); got != "a\n" {
		t.Errorf("consumed %q", got)
	}
	b.stop()
}

// serveFiltered starts a broker behind a filter; see filterVar.
func serveFiltered(t *testing.T, filter, dir string, args ...string) *broker {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, mqd)
	cmd.Env = append(os.Environ(), filterVar+"="+filter)
	return serveBy(t, cmd, dir, args...)
}

func TestVersionTellsThatURingIsForbidden(t *testing.T) {
	needBroker(t)
	r := filtered(t, syscall.EPERM, "version")
	if r.status != 0 {
		t.Fatalf("status %d: %s", r.status, r.errs)
	}
	wants(t, r.out, "io_uring: io_uring is forbidden", "portable: available")
}

// asNobody runs the program as a user who owns nothing.
func asNobody(t *testing.T, args ...string) result {
	t.Helper()
	const nobody = 65534
	cmd := exec.Command(mqd, args...)
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	errs, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		t.Fatalf("mqd %v ended well: %s", args, errs)
	case errors.Is(err, fs.ErrPermission):
		t.Skipf("another user cannot start programs below %s: %v", os.TempDir(), err)
	}
	return result{"", string(errs), cmd.ProcessState.ExitCode()}
}

func TestADirectoryThatIsNotWritableIsNamed(t *testing.T) {
	needBroker(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	// t.TempDir is below a directory that only its owner may enter.
	for _, path := range []string{dir, dir + "/below"} {
		line := oneLine(t, asNobody(t, "serve", "--data-dir", path, "--listen", "127.0.0.1:0"))
		wants(t, line, "data directory "+path+" is not writable")
	}
}

func TestAFilesystemWithoutDirectIOIsNamed(t *testing.T) {
	needBroker(t)
	wants(t, refused(t, "--io", "uring", "--data-dir", withoutDirectIO(t)), "has no O_DIRECT", "--io=portable")
}

func TestThePortableDriverServesWithoutDirectIO(t *testing.T) {
	needBroker(t)
	dir := withoutDirectIO(t)
	for life, io := range []string{"auto", "portable"} {
		b := serve(t, dir, "--io", io, "--shards", "2")
		b.serving()
		if !b.log.wait("page cache") {
			t.Fatalf("the broker has ended: %s", b.log)
		}
		noted, instead := 0, 0
		for _, w := range b.warnings() {
			if strings.Contains(w, "page cache") {
				noted++
				wants(t, w, "O_DIRECT", "durability written")
			}
			if strings.Contains(w, "serves instead of io_uring") {
				instead++
			}
		}
		if noted != 1 || instead != 1-life {
			t.Errorf("%d warnings of the page cache and %d of the driver, expected 1 and %d: %s", noted, instead, 1-life, b.log)
		}
		if life == 0 {
			b.must("", "topic", "create", "t", "--partitions", "4")
			b.must("", "topic", "create", "w", "--durability", "written")
		}
		for _, topic := range []string{"t", "w"} {
			b.must("a\nb\n", "produce", topic)
			if got := strings.Fields(b.must("", "consume", topic)); len(got) != 2*(life+1) {
				t.Errorf("life %d: %s has %q", life, topic, got)
			}
		}
		b.kill()
	}
}

// withoutDirectIO is a directory on a filesystem that has no O_DIRECT.
func withoutDirectIO(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "ramfs", 0, ""); err != nil {
		t.Skipf("a ramfs, which has no O_DIRECT, cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		// Lazily: the kernel lets go of a dead process's ring a little later.
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
