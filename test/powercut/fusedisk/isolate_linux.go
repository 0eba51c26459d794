package fusedisk

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	// isolatedVar tells a process that it runs in a mount namespace of its own, and
	// names a directory for it.
	isolatedVar = "FUSEDISK_DIR"
	bootIDFile  = "/proc/sys/kernel/random/boot_id"
)

// Isolate runs a package's tests in a child with a mount namespace of its own, and
// returns its exit status. It is for TestMain, which passes the result to os.Exit:
//
//	os.Exit(fusedisk.Isolate(m.Run))
//
// Whatever ends the child, a signal to this process included, ends everything that
// it has mounted and attached. Where there cannot be such a child the tests run in
// this process, and [Need] skips them.
func Isolate(run func() int) int {
	if os.Getenv(helperVar) != "" {
		return help(os.Args[1:])
	}
	if os.Getenv(isolatedVar) != "" {
		if err := keep(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return run()
	}
	if os.Geteuid() != 0 {
		return run()
	}
	dir, err := os.MkdirTemp("", "mqd-powercut-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// The child's mounts are not in this namespace: nothing is removed through them.
	defer func() { _ = os.RemoveAll(dir) }()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	defer signal.Stop(signals)
	// The kernel takes the death of this thread for the death of the parent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := self(os.Args[1:])
	cmd.Env = append(os.Environ(), isolatedVar+"="+dir, "TMPDIR="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Setpgid: true, Pdeathsig: unix.SIGKILL}
	if cmd.Start() != nil {
		return run()
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s) // gone already: Wait tells
			case <-ended:
				return
			}
		}
	}()
	err = cmd.Wait()
	close(ended)
	if err != nil && cmd.ProcessState.ExitCode() <= 0 {
		fmt.Fprintf(os.Stderr, "the tests ended with %v\n", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// keep starts a child that holds on to the namespace until this process is gone.
// The last process of a namespace unmounts what is in it before it closes its files:
// one that serves a disk would wait for itself, and for ever.
func keep() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	// Nobody writes: the end of this process ends the child's reading.
	end = write
	cmd := self([]string{helpKeep})
	cmd.Env = append(os.Environ(), helperVar+"=1")
	cmd.Stdin = read
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return errors.Join(cmd.Start(), read.Close())
}

// end is open as long as this process lives.
var end *os.File

// self is this program with other arguments.
func self(args []string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	return exec.Command(path, args...)
}

// Need skips a test, with the reason, where there can be no disks.
func Need(t testing.TB) {
	t.Helper()
	switch {
	case os.Geteuid() != 0:
		t.Skip("mounting and loop devices need root")
	case os.Getenv(isolatedVar) == "":
		t.Skip("this process may not have a mount namespace of its own")
	}
	for _, path := range []string{"/dev/fuse", "/dev/loop-control"} {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Skipf("no disks can be made on this machine: %s: %v", path, err)
		}
		_ = unix.Close(fd)
	}
	if why := Ext4.Missing(); why != "" {
		t.Skip(why)
	}
}

// Dir makes a directory that ends with the process.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(os.Getenv(isolatedVar), "dir-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Reboot gives the kernel, as everyone in this namespace sees it, the identity of
// another boot: a machine whose power failed has one.
func Reboot() error {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	id := fmt.Sprintf("%x-%x-%x-%x-%x\n", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	path := filepath.Join(os.Getenv(isolatedVar), "boot_id")
	_, err := os.Stat(path)
	if err := os.WriteFile(path, []byte(id), 0o600); err != nil {
		return err
	}
	if err == nil {
		return nil // it lies over the kernel's already
	}
	if err := unix.Mount(path, bootIDFile, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(fmt.Errorf("fusedisk: mount on %s: %w", bootIDFile, err), os.Remove(path))
	}
	return nil
}

// known reports whether the kernel has told that it has a filesystem. Those that
// are modules it loads when they are mounted first.
func known(name string) bool {
	text, err := os.ReadFile("/proc/filesystems")
	return err == nil && strings.Contains(string(text), "\t"+name+"\n")
}
