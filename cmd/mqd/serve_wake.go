package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/mqd-broker/mqd/cmd/mqd/tuner"
	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/wake"
)

// wakeState is the limit on the time in which the machine's CPUs wake, as far as this
// broker holds one.
type wakeState struct {
	limit *wake.Limit // nil for none
	why   string      // one that was asked for is not held
}

// hold asks for a limit, if it is not negative. A broker serves without it, more slowly: it
// says so in its log, and in its state as long as it runs.
func (w *wakeState) hold(most time.Duration, device string, log *slog.Logger) {
	if most < 0 {
		return
	}
	l, err := wake.Hold(device, most)
	if err == nil {
		w.limit = l
		log.Info("CPUs are kept from deep idle states while the broker runs", "limit", most)
		return
	}
	w.why = fmt.Sprintf("CPUs may sleep deeply: the limit of %v (shard.wake_limit, --pm-qos) is not held: %v", most, err)
	if errors.Is(err, fs.ErrPermission) {
		w.why += "; the broker's user has to be allowed to write to the device, see docs/operating/tuning.md"
	}
	log.Warn(w.why)
}

// held is the limit, if there is one.
func (w *wakeState) held() (most time.Duration, ok bool) {
	if w.limit == nil {
		return 0, false
	}
	return w.limit.Most(), true
}

// warnings are what the broker's state says.
func (w *wakeState) warnings() []string {
	if w.why == "" {
		return nil
	}
	return []string{w.why}
}

// tellHost has the log say in a line what mqd check finds on this machine. The broker serves
// already, and whoever it cannot be told to runs mqd check.
func (b *broker) tellHost() {
	needs := hostNeeds()
	needs.Probe = nil // a filter of system calls may kill who tries; the driver is known by now
	r, err := tuner.Look(needs, b.cfg.DataDir, 0, nil)
	if err != nil {
		b.log.Debug("the host was not checked", "error", err)
		return
	}
	level := slog.LevelInfo
	if r.Worst() == tuning.Critical {
		level = slog.LevelWarn
	}
	b.log.Log(context.Background(), level, "host checked; mqd check says more", "profile", r.Profile, "found", r.Brief().String())
}

func (w *wakeState) release() {
	if w.limit != nil {
		_ = w.limit.Release() // the end of the process does the same
	}
}
