package main

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/portable"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/uring"
	"golang.org/x/sys/unix"
)

// linuxPlatform runs shards on io_uring, or on the portable driver.
type linuxPlatform struct{ portable, stamps bool }

// newPlatform picks the driver. Where io_uring should have been used and cannot be,
// instead says why. Stamps has the kernel note when it receives, where the driver can.
func newPlatform(io string, stamps bool) (p platform, instead, err error) {
	if io == settings.IOPortable {
		return linuxPlatform{portable: true}, nil, nil
	}
	_, err = uring.Probe()
	if io == settings.Auto && (errors.Is(err, uring.ErrForbidden) || errors.Is(err, uring.ErrUnsupported)) {
		return linuxPlatform{portable: true}, err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return linuxPlatform{stamps: stamps}, nil, nil
}

// Blocking is two for the portable driver. A thread that stays in the kernel keeps its
// place in Go's scheduler until that is noticed, and one that comes back meanwhile would
// wait for it.
func (p linuxPlatform) Blocking() int {
	if p.portable {
		return 2
	}
	return 0
}

func (p linuxPlatform) NewDriver(_ int, opts aio.Options) (aio.Driver, error) {
	if p.portable {
		return portable.New(opts, portable.Config{})
	}
	return uring.New(opts, uring.Config{Warm: true, Stamps: p.stamps})
}

func (p linuxPlatform) Stamps() bool          { return p.stamps }
func (linuxPlatform) Thread(int) shard.Thread { return uring.Thread{} }
func (linuxPlatform) Locked() bool            { return true }
func (linuxPlatform) Pin(cpu int) error       { return uring.PinThread(cpu) }

// driverStates says for each driver whether it would work here.
func driverStates() []driverState {
	state := driverState{Name: "io_uring", State: "available"}
	if f, err := uring.Probe(); err != nil {
		state.State = err.Error()
	} else if !f.Deferred {
		state.State = "available, without DEFER_TASKRUN (Linux 6.1)"
	}
	return []driverState{state, {Name: "portable", State: "available"}}
}

// probeRing makes an io_uring as a shard would.
func probeRing() error {
	_, err := uring.Probe()
	return err
}

// timeSync asks the kernel about its clock.
func timeSync() (tuning.TimeSync, error) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return tuning.TimeSync{}, err
	}
	unit := time.Microsecond
	if t.Status&unix.STA_NANO != 0 {
		unit = time.Nanosecond
	}
	return tuning.TimeSync{Synced: t.Status&unix.STA_UNSYNC == 0, Off: time.Duration(t.Offset) * unit}, nil
}

// driverErrors tells errors of a driver that have a cure.
var driverErrors = []error{uring.ErrForbidden, uring.ErrUnsupported, uring.ErrLockedMemory}

// inMemory reports whether the filesystem that holds, or will hold, dir keeps
// everything in memory.
func inMemory(dir string) bool {
	var st unix.Statfs_t
	for unix.Statfs(dir, &st) != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	magic := uint32(st.Type) // signed and 32 bits wide on some architectures
	return magic == unix.TMPFS_MAGIC || magic == unix.RAMFS_MAGIC
}
