package cli

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filterVar has the test binary forbid itself io_uring, with the error given as a
// number, and become the command in its arguments.
const filterVar = "MQD_CLI_TEST_FILTER"

// runFiltered does not return.
func runFiltered(errno string, args []string) {
	runtime.LockOSThread()
	n, err := strconv.ParseUint(errno, 10, 16)
	if err == nil {
		err = forbidURing(uint32(n))
	}
	if err == nil {
		if err = os.Unsetenv(filterVar); err == nil {
			err = syscall.Exec(args[0], args, os.Environ())
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(99)
}

// forbidURing has io_uring_setup fail with errno, for this thread and what it
// executes.
func forbidURing(errno uint32) error {
	const loadNumber = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS // offset 0 of struct seccomp_data
	const ifEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	const answer = unix.BPF_RET | unix.BPF_K
	program := []unix.SockFilter{
		{Code: loadNumber},
		{Code: ifEqual, K: unix.SYS_IO_URING_SETUP, Jf: 1},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | errno},
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

// filtered runs the program where io_uring_setup fails with errno.
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

func TestForbiddenURingIsExplained(t *testing.T) {
	needBroker(t)
	dir := t.TempDir()
	forbidden := oneLine(t, filtered(t, syscall.EPERM, "serve", "--data-dir", dir, "--listen", "127.0.0.1:0"))
	wants(t, forbidden, "io_uring is forbidden", "seccomp", "portable one comes")
	missing := oneLine(t, filtered(t, syscall.ENOSYS, "serve", "--data-dir", dir, "--listen", "127.0.0.1:0"))
	wants(t, missing, "io_uring is not supported", "portable one comes")
}

func TestVersionTellsThatURingIsForbidden(t *testing.T) {
	needBroker(t)
	r := filtered(t, syscall.EPERM, "version")
	if r.status != 0 {
		t.Fatalf("status %d: %s", r.status, r.errs)
	}
	wants(t, r.out, "io_uring: io_uring is forbidden")
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
	if err == nil {
		t.Fatalf("mqd %v ended well: %s", args, errs)
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
	wants(t, refused(t, "--data-dir", dir), "has no O_DIRECT", dir)
}
