package fusedisk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Filesystem is what a disk is formatted with.
type Filesystem struct {
	// Name is the kernel's.
	Name string
	// MinSize is the smallest disk that it is made on, in bytes.
	MinSize int64
	// Sector is the sector size of its disks in bytes.
	Sector  int64
	mkfs    []string
	options string // of every mount
}

// The filesystems.
var (
	Ext4 = Filesystem{
		Name: "ext4", MinSize: 96 << 20, Sector: SectorSize,
		mkfs: []string{"mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=1"},
	}
	// XFS does not survive torn blocks of metadata: of one whose first sector alone is
	// new, its recovery takes the rest for new too, and then finds the checksum wrong.
	// So its disks have sectors of the size of those blocks. It refuses to mount two
	// filesystems with the same identity at a time unless it is told not to look.
	XFS = Filesystem{
		Name: "xfs", MinSize: 320 << 20, Sector: pageSize,
		mkfs: []string{"mkfs.xfs", "-q", "-f", "-K"}, options: "nouuid",
	}
)

// NewDisk makes a disk for the filesystem, size bytes.
func (f Filesystem) NewDisk(size int64) *Disk { return New(size, f.Sector) }

// Missing says what this machine lacks for a filesystem, "" if it can have it.
func (f Filesystem) Missing() string {
	if _, err := exec.LookPath(f.mkfs[0]); err != nil {
		return fmt.Sprintf("%s is not installed", f.mkfs[0])
	}
	if known(f.Name) {
		return ""
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err == nil {
		found, _ := filepath.Glob(filepath.Join("/lib/modules", strings.TrimSpace(string(release)), "kernel/fs", f.Name, f.Name+".ko*"))
		if len(found) > 0 {
			return ""
		}
	}
	return "the kernel has no " + f.Name
}

// Format makes a filesystem on a disk that a [Server] shows at path.
func (f Filesystem) Format(path string) error {
	return runHelper(append([]string{helpFormat, path, fmt.Sprint(f.Sector)}, f.mkfs...)...)
}

// Attachment is a mounted filesystem on a loop device on a disk.
type Attachment struct {
	// Dir is where it is mounted.
	Dir string
}

// Attach mounts the filesystem of a disk that a [Server] shows at path on a
// directory. direct is the loop device's direct I/O; options are those of the
// filesystem, "" for none.
func (f Filesystem) Attach(path, dir string, direct bool, options string) (*Attachment, error) {
	all := strings.Trim(f.options+","+options, ",")
	if err := runHelper(helpAttach, path, fmt.Sprint(f.Sector), fmt.Sprint(direct), dir, f.Name, all); err != nil {
		return nil, err
	}
	return &Attachment{dir}, nil
}

// Detach unmounts, and with that the loop device is free.
func (a *Attachment) Detach() error { return runHelper(helpDetach, a.Dir) }

// Shutdown has the filesystem stop at once, as if the machine had died, without
// writing its log (FS_IOC_SHUTDOWN with NOLOGFLUSH). The disk keeps its cache.
func (a *Attachment) Shutdown() error { return runHelper(helpShutdown, a.Dir) }

// helperVar makes this program do one thing and end.
const helperVar = "FUSEDISK_HELPER"

// What a helper does.
const (
	helpFormat   = "format"
	helpAttach   = "attach"
	helpDetach   = "detach"
	helpShutdown = "shutdown"
	helpKeep     = "keep"
)

// helperPatience bounds what a helper does: only one that hangs takes so long.
const helperPatience = 3 * time.Minute

// runHelper has a child do what would have this process wait for its own answers.
func runHelper(args ...string) error {
	runtime.LockOSThread() // the kernel takes the thread's death for the parent's
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(context.Background(), helperPatience)
	defer cancel()
	path, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), helperVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fusedisk: %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// help is the helper: it returns its exit status.
func help(args []string) int {
	var err error
	switch args[0] {
	case helpFormat:
		err = format(args[1], args[2], args[3:])
	case helpAttach:
		err = attach(args[1], args[2], args[3] == "true", args[4], args[5], args[6])
	case helpDetach:
		err = detach(args[1])
	case helpShutdown:
		err = shutdown(args[1])
	case helpKeep:
		_, err = io.Copy(io.Discard, os.Stdin)
	default:
		err = fmt.Errorf("no such help: %q", args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func format(path, sector string, mkfs []string) (err error) {
	loop, err := openLoop(path, sector, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, loop.Close()) }()
	if out, err := exec.Command(mkfs[0], append(mkfs[1:], loop.Name())...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", mkfs[0], err, out)
	}
	return loop.Sync()
}

func attach(path, sector string, direct bool, dir, filesystem, options string) (err error) {
	loop, err := openLoop(path, sector, direct)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, loop.Close()) }()
	if err := unix.Mount(loop.Name(), dir, filesystem, unix.MS_NOATIME, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", filesystem, loop.Name(), err)
	}
	return nil
}

// detach unmounts. The kernel may need a moment until the files of a process that
// was killed are closed.
func detach(dir string) error {
	const patience, pause = 2 * time.Minute, 5 * time.Millisecond
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		err := unix.Unmount(dir, 0)
		if err == nil || !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
}

// shutdown: the ioctl and its argument are those of ext4, XFS and others.
func shutdown(dir string) error {
	const ioctlShutdown, noLogFlush = 0x8004587d, 2
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = unix.IoctlSetPointerInt(int(d.Fd()), ioctlShutdown, noLogFlush)
	return errors.Join(err, d.Close())
}

// openLoop makes a loop device of a file. The device is gone when nobody has it
// open and nothing on it is mounted.
func openLoop(path, sector string, direct bool) (*os.File, error) {
	config := unix.LoopConfig{Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	if direct {
		config.Info.Flags |= unix.LO_FLAGS_DIRECT_IO
	}
	if _, err := fmt.Sscan(sector, &config.Size); err != nil {
		return nil, fmt.Errorf("sector size %q: %w", sector, err)
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = control.Close() }() // only asked
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the device has it open by itself
	const attempts = 100                // somebody else may take the free device first
	for range attempts {
		config.Fd = uint32(file.Fd())
		loop, err := configureLoop(control, &config)
		if err == nil || !errors.Is(err, unix.EBUSY) {
			return loop, err
		}
	}
	return nil, errors.New("no loop device stays free")
}

func configureLoop(control *os.File, config *unix.LoopConfig) (*os.File, error) {
	const getFree = 0x4c82
	n, err := unix.IoctlRetInt(int(control.Fd()), getFree)
	if err != nil {
		return nil, fmt.Errorf("a free loop device: %w", err)
	}
	name, err := loopNode(n)
	if err != nil {
		return nil, err
	}
	loop, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlLoopConfigure(int(loop.Fd()), config); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), loop.Close())
	}
	if config.Info.Flags&unix.LO_FLAGS_DIRECT_IO == 0 {
		return loop, nil
	}
	info, err := unix.IoctlLoopGetStatus64(int(loop.Fd()))
	if err == nil && info.Flags&unix.LO_FLAGS_DIRECT_IO == 0 {
		err = errors.New("the loop device refuses direct I/O")
	}
	if err != nil {
		return nil, errors.Join(err, loop.Close())
	}
	return loop, nil
}

// loopNode is the path of a loop device, which is made where nobody makes nodes.
func loopNode(n int) (string, error) {
	name := fmt.Sprintf("/dev/loop%d", n)
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	const loopMajor = 7
	name = filepath.Join(os.Getenv(isolatedVar), fmt.Sprintf("loop%d", n))
	if err := unix.Mknod(name, unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(n)))); err != nil && !errors.Is(err, unix.EEXIST) {
		return "", fmt.Errorf("make %s: %w", name, err)
	}
	return name, nil
}
