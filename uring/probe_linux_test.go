package uring

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// fakeKernel is a kernel with chosen properties.
type fakeKernel struct {
	disabled string // kernel.io_uring_disabled, "" for none
	refused  uint32 // setup flags that it does not know
	lastOp   uint8
	lacks    []uint8
	err      error
}

func (k fakeKernel) sysctl() (string, bool) { return k.disabled, k.disabled != "" }

func (k fakeKernel) setup(flags uint32) (uint32, *giouring.Probe, error) {
	if k.err != nil {
		return 0, nil, k.err
	}
	if flags&k.refused != 0 {
		return 0, nil, unix.EINVAL
	}
	p := &giouring.Probe{LastOp: k.lastOp, OpsLen: k.lastOp + 1}
	for i := range p.OpsLen {
		p.Ops[i] = giouring.ProbeOp{Op: i, Flags: 1} // IO_URING_OP_SUPPORTED
	}
	for _, op := range k.lacks {
		p.Ops[op].Flags = 0
	}
	return 1, p, nil
}

func TestProbeNamesWhatIsMissingOrForbids(t *testing.T) {
	for _, c := range []struct {
		name   string
		kernel fakeKernel
		is     error
		says   []string
	}{
		{"all there", fakeKernel{lastOp: 50}, nil, nil},
		{"Linux 6.0", fakeKernel{lastOp: giouring.OpSendZC, refused: giouring.SetupDeferTaskrun}, nil, nil},
		{"Linux 5.19", fakeKernel{lastOp: 46, refused: giouring.SetupSingleIssuer}, ErrUnsupported, []string{"SINGLE_ISSUER", "6.0"}},
		{"an older kernel with backports", fakeKernel{lastOp: giouring.OpSend}, ErrUnsupported, []string{"RECV (Linux 6.0", "SEND_ZC (Linux 6.0)"}},
		{"one operation off", fakeKernel{lastOp: 50, lacks: []uint8{giouring.OpFsync}}, ErrUnsupported, []string{"it lacks FSYNC (Linux 5.1);"}},
		{"none", fakeKernel{err: unix.ENOSYS}, ErrUnsupported, []string{"io_uring_setup"}},
		{"sysctl 2", fakeKernel{err: unix.EPERM, disabled: "2"}, ErrForbidden, []string{"kernel.io_uring_disabled is 2", "sysctl -w kernel.io_uring_disabled=0"}},
		{"sysctl 1", fakeKernel{err: unix.EPERM, disabled: "1"}, ErrForbidden, []string{"kernel.io_uring_disabled is 1", "io_uring_group"}},
		{"seccomp", fakeKernel{err: unix.EPERM, disabled: "0"}, ErrForbidden, []string{"kernel.io_uring_disabled is 0", "seccomp", "io_uring_enter"}},
		{"seccomp on an older kernel", fakeKernel{err: unix.EPERM}, ErrForbidden, []string{"no setting kernel.io_uring_disabled", "seccomp"}},
		{"a security module", fakeKernel{err: unix.EACCES, disabled: "0"}, ErrForbidden, []string{"security module"}},
		{"locked memory", fakeKernel{err: unix.ENOMEM}, ErrLockedMemory, []string{"not even the smallest ring fits", "LimitMEMLOCK"}},
		{"descriptors", fakeKernel{err: unix.EMFILE}, unix.EMFILE, nil},
	} {
		f, err := probe(c.kernel)
		if !errors.Is(err, c.is) {
			t.Errorf("%s: %v, expected %v", c.name, err, c.is)
			continue
		}
		if c.kernel.err != nil && !errors.Is(err, c.kernel.err) {
			t.Errorf("%s: the error hides the kernel's: %v", c.name, err)
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q is not in %q", c.name, s, err)
			}
		}
		if c.is == nil && (f.LastOp != c.kernel.lastOp || f.Deferred != (c.kernel.refused == 0) || f.Flags&c.kernel.refused != 0) {
			t.Errorf("%s: %+v", c.name, f)
		}
		if f.Disabled != c.kernel.disabled {
			t.Errorf("%s: kernel.io_uring_disabled is reported as %q", c.name, f.Disabled)
		}
	}
}

// TestProbeAgreesWithTheDriver: where the probe finds nothing missing, a driver
// can be made, with the flags that the probe found.
func TestProbeAgreesWithTheDriver(t *testing.T) {
	f, err := Probe()
	check(t, err)
	d := open(t, small, Config{})
	if d.ring.setup.flags&f.Flags != f.Flags || d.ring.setup.features != f.Kernel || f.LastOp < giouring.OpSendZC {
		t.Fatalf("%+v, but the ring has flags 0x%x and features 0x%x", f, d.ring.setup.flags, d.ring.setup.features)
	}
	for _, n := range needs {
		if n.name == "" || n.since == "" {
			t.Errorf("%+v is not for people", n)
		}
	}
}

// TestEveryOperationUsedIsProbed: the probe asks for what the ring is allowed.
func TestEveryOperationUsedIsProbed(t *testing.T) {
	asked := map[uint8]bool{giouring.OpNop: true}
	for _, n := range needs {
		asked[n.op] = true
	}
	for _, op := range allowedOps {
		if !asked[op] {
			t.Errorf("operation %d is used and not asked for", op)
		}
	}
}

func TestPinning(t *testing.T) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and the pin with it
		var allowed unix.CPUSet
		if err := unix.SchedGetaffinity(0, &allowed); err != nil {
			done <- err
			return
		}
		cpu := 0
		for !allowed.IsSet(cpu) {
			cpu++
		}
		if err := PinThread(cpu); err != nil {
			done <- err
			return
		}
		var now unix.CPUSet
		err := unix.SchedGetaffinity(0, &now)
		if now.Count() != 1 || !now.IsSet(cpu) {
			err = fmt.Errorf("pinned to CPU %d, may run on %d CPUs", cpu, now.Count())
		}
		Thread{}.Yield()
		done <- err
	}()
	check(t, <-done)
	for _, cpu := range []int{-1, 1023, 1 << 20} {
		if err := PinThread(cpu); !errors.Is(err, unix.EINVAL) {
			t.Errorf("CPU %d: %v", cpu, err)
		}
	}
}
