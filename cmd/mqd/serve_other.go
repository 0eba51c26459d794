//go:build !linux

package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/portable"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/tuning"
)

var (
	errNoURing = errors.New("io_uring: Linux only")
	errNoPin   = fmt.Errorf("a thread cannot be tied to a CPU on %s", runtime.GOOS)
)

// simplePlatform runs shards on the portable driver's variant for development. They are
// goroutines that block when they are idle, so that nothing is spent on a machine that
// has other things to do.
type simplePlatform struct{}

func newPlatform(io string, _ bool) (p platform, instead, err error) {
	if io == settings.IOURing {
		return nil, nil, errNoURing
	}
	return simplePlatform{}, nil, nil
}

// Blocking is two, as for the portable driver on Linux.
func (simplePlatform) Blocking() int { return 2 }

func (simplePlatform) NewDriver(_ int, opts aio.Options) (aio.Driver, error) {
	return portable.New(opts, portable.Config{Simple: true})
}

func (simplePlatform) Stamps() bool            { return false }
func (simplePlatform) Thread(int) shard.Thread { return nil }
func (simplePlatform) Locked() bool            { return false }
func (simplePlatform) Pin(int) error           { return errNoPin }

func driverStates() []driverState {
	return []driverState{{Name: "io_uring", State: "Linux only"}, {Name: "portable", State: "available, as a variant for development"}}
}

// driverErrors tells errors of a driver that have a cure.
var driverErrors = []error{errNoURing}

// inMemory is not known here.
func inMemory(string) bool { return false }

// timeSync has nobody to ask here.
func timeSync() (tuning.TimeSync, error) { return tuning.TimeSync{}, errors.ErrUnsupported }

// probeRing has nothing to try here.
func probeRing() error { return errNoURing }
