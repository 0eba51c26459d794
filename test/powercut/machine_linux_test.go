package powercut

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/test/powercut/fusedisk"
	"github.com/mqd-broker/mqd/test/process"
)

// variant is what the broker stands on.
type variant struct {
	fs     fusedisk.Filesystem
	direct bool // the loop device's direct I/O
}

func (v variant) String() string {
	if v.direct {
		return v.fs.Name + "-direct"
	}
	return v.fs.Name
}

// machine has one disk at a time, and a broker on it.
type machine struct {
	t      *testing.T
	v      variant
	binary string
	args   []string // of every life
	lies   bool     // the disk, as soon as a load begins
	lazy   bool     // ext4 leaves its log alone for long
	// sameBoot: only a filesystem failed, and not the machine.
	sameBoot bool
	server   *fusedisk.Server
	dir      string // where the disk is mounted
	disks    int

	name   string // of the attached disk, "" if there is none
	path   string // of the file that is it
	mount  *fusedisk.Attachment
	broker *process.Broker
	// start is how long the newest start took.
	start time.Duration
}

func newMachine(t *testing.T, v variant, binary string) *machine {
	t.Helper()
	server, err := fusedisk.Serve(fusedisk.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, v: v, binary: binary, server: server, dir: fusedisk.Dir(t), start: 200 * time.Millisecond}
	t.Cleanup(func() {
		if err := errors.Join(m.off(), server.Close()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// diskSize is enough for a load on either filesystem.
const diskSize = 320 << 20

// format makes a new disk with a filesystem.
func (m *machine) format() *fusedisk.Disk {
	m.t.Helper()
	d := m.v.fs.NewDisk(max(diskSize, m.v.fs.MinSize))
	path := m.server.Add("new", d)
	defer m.server.Remove("new")
	if err := m.v.fs.Format(path); err != nil {
		m.t.Fatal(err)
	}
	return d
}

// on attaches a disk and mounts it, in another boot than the last one
// unless it is to be the same. options are
// the filesystem's.
func (m *machine) on(d *fusedisk.Disk, options string) error {
	if !m.sameBoot {
		if err := fusedisk.Reboot(); err != nil {
			return err
		}
	}
	m.disks++
	m.name = fmt.Sprintf("disk-%d", m.disks)
	m.path = m.server.Add(m.name, d)
	return m.remount(m.path, options)
}

func (m *machine) remount(path, options string) error {
	mount, err := m.v.fs.Attach(path, m.dir, m.v.direct, options)
	if err != nil {
		return err
	}
	m.mount = mount
	return nil
}

// off ends everything: broker, mount, loop device, disk. There may be nothing.
func (m *machine) off() error {
	err := errors.Join(m.kill(), m.unmount())
	if m.name != "" {
		m.server.Remove(m.name)
		m.name = ""
	}
	return err
}

func (m *machine) unmount() (err error) {
	if m.mount != nil {
		err = m.mount.Detach()
		m.mount = nil
	}
	return err
}

// launch starts a broker on the disk. It need not be ready.
func (m *machine) launch(args ...string) error {
	var log io.Writer
	if *logFlag {
		log = os.Stderr
	}
	b, err := process.Start(process.Config{
		Binary: m.binary, Dir: filepath.Join(m.dir, "data"), Log: log, Args: append(args, m.args...),
	})
	m.broker = b
	return err
}

// ready waits until the broker serves. The error has what it said if it refuses.
func (m *machine) ready() (addr string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	addr, took, err := m.broker.Ready(ctx)
	if err == nil {
		m.start = took
	}
	return addr, err
}

// kill ends the broker. One that has ended by itself is an error.
func (m *machine) kill() error {
	if m.broker == nil {
		return nil
	}
	err := m.broker.Kill()
	m.broker = nil
	return err
}

// recovered is what a broker logs when it begins to serve.
type recovered struct {
	Replayed int64 `json:"replayed"`
	Torn     int64 `json:"torn_tails"`
	Damaged  int64 `json:"damaged"`
	Gaps     int64 `json:"gaps"`
}

// recovery is what the broker said about its start. It says so after its address.
func (m *machine) recovery() (r recovered, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	line, err := m.broker.Said(ctx, `"msg":"serving"`)
	if err == nil {
		err = json.Unmarshal([]byte(line), &r)
	}
	return r, err
}
