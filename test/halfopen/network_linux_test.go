package halfopen

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/test/process"
	"golang.org/x/sys/unix"
)

// farMAC is the address of the far machine's end of the cable.
const farMAC = "02:00:00:00:77:02"

// host is a machine: a network namespace, which lives as long as a process in it.
type host struct {
	t   *testing.T
	pid int
	dev string // its end of the cable
	ip  string
}

// network makes two machines and a cable between them, or skips the test with the reason.
func network(t *testing.T) (near, far *host) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root makes network namespaces")
	}
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: %v", tool, err)
		}
	}
	near = &host{t: t, dev: "cable0", ip: "10.77.0.1"}
	far = &host{t: t, dev: "cable1", ip: "10.77.0.2"}
	near.boot()
	far.boot()
	if out, err := near.run("ip", "link", "add", near.dev, "type", "veth", "peer", "name", far.dev, "address", farMAC, "netns", fmt.Sprint(far.pid)); err != nil {
		t.Skipf("no virtual cable: %v: %s", err, out)
	}
	for _, h := range []*host{near, far} {
		h.must("ip", "link", "set", "lo", "up")
		h.must("ip", "link", "set", h.dev, "up")
		h.must("ip", "addr", "add", h.ip+"/24", "dev", h.dev)
	}
	// A router in between would go on taking packets: nobody is asked whether the far
	// machine is there.
	near.must("ip", "neigh", "replace", far.ip, "lladdr", farMAC, "dev", near.dev, "nud", "permanent")
	return near, far
}

// boot starts the process that keeps the namespace. It dies with this one.
func (h *host) boot() {
	h.t.Helper()
	cmd := exec.Command("sleep", "infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		h.t.Skipf("no network namespace: %v", err)
	}
	h.pid = cmd.Process.Pid
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// command is a command that is run on the machine.
func (h *host) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"--net=" + h.file(), "--", name}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (h *host) file() string { return fmt.Sprintf("/proc/%d/ns/net", h.pid) }

func (h *host) run(name string, args ...string) (string, error) {
	out, err := h.command(name, args...).CombinedOutput()
	return string(out), err
}

func (h *host) must(name string, args ...string) string {
	h.t.Helper()
	out, err := h.run(name, args...)
	if err != nil {
		h.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return out
}

// wrapper is a program that runs binary on the machine.
func (h *host) wrapper(binary string) string {
	h.t.Helper()
	path := filepath.Join(h.t.TempDir(), "mqd")
	script := fmt.Sprintf("#!/bin/sh\nexec nsenter --net=%s -- '%s' \"$@\"\n", h.file(), binary)
	if err := process.Script(path, script); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// dial connects from the machine. A socket belongs to the namespace of the thread that
// makes it, so that one thread moves there, and ends with its goroutine.
func (h *host) dial(ctx context.Context, addr string) (net.Conn, error) {
	type answer struct {
		c   net.Conn
		err error
	}
	done := make(chan answer, 1)
	go func() {
		runtime.LockOSThread()
		ns, err := os.Open(h.file())
		if err != nil {
			done <- answer{nil, err}
			return
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- answer{nil, err}
			return
		}
		c, err := (&net.Dialer{KeepAlive: -1}).DialContext(ctx, "tcp", addr)
		done <- answer{c, err}
	}()
	a := <-done
	return a.c, a.err
}

// vanish has the machine take and send nothing any more. Its sockets stay as they are.
func (h *host) vanish() { h.must("ip", "addr", "flush", "dev", h.dev) }

// comeBack gives it its address again.
func (h *host) comeBack() { h.must("ip", "addr", "add", h.ip+"/24", "dev", h.dev) }

// wait waits until a condition holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v until %s", patience, what)
		}
	}
}
