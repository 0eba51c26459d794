package main

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"

	"github.com/mqd-broker/mqd/admin"
	"github.com/mqd-broker/mqd/admin/flight"
	"github.com/mqd-broker/mqd/admin/scale"
	"github.com/mqd-broker/mqd/cmd/mqd/bundler"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/engine/stage"
)

// openAdmin opens the HTTP front for operators, before the node starts: a recovery that
// takes its time can be watched. Somebody who has never heard of the front shall be able
// to run two brokers, so that the default address is given up when it is taken. The flight
// recorder begins with it, also where there is no front.
func (b *broker) openAdmin() error {
	if err := b.startRecorder(); err != nil {
		return err
	}
	addr := b.cfg.AdminListen
	if addr == "" {
		return nil
	}
	b.tellSettings()
	s, err := admin.Listen(admin.Options{
		Listen: addr, Profiles: b.cfg.AdminProfiles, Version: version, Service: b.service, Log: b.log,
		Recorder: b.recorder, WakeLimit: b.wake.held, Warnings: b.wake.warnings,
		Scale: scale.Limits{FetchP99: max(0, b.cfg.ScaleFetch), ProduceRate: b.cfg.ScaleProduce}, Settings: func() []byte { return *b.settings.Load() },
	})
	taken := errors.Is(err, syscall.EADDRINUSE)
	switch {
	case err == nil:
		b.admin = s
		b.log.Info("admin HTTP", "address", s.Addr())
		return nil
	case taken && !b.cfg.IsSet(settings.AdminListen):
		b.log.Warn("no admin HTTP: another program listens on its default address; name another one with --admin-listen", "address", addr)
		return nil
	case taken:
		return &trouble{fmt.Sprintf("port in use: another program listens on %s; stop it, or name another address with --admin-listen", addr), err}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return &trouble{fmt.Sprintf("no interface of this machine has the address %s; name another one with --admin-listen", addr), err}
	case errors.Is(err, syscall.EACCES):
		return &trouble{fmt.Sprintf("this user may not listen on %s; name a port above 1023 with --admin-listen", addr), err}
	}
	return &trouble{fmt.Sprintf("not listening on %s (--admin-listen): %v", addr, err), err}
}

// startRecorder begins to record what the runtime does, if that is wanted.
func (b *broker) startRecorder() (err error) {
	c := b.cfg
	if !c.TraceRecord {
		return nil
	}
	b.recorder, err = flight.Start(flight.Options{
		Window: c.TraceWindow, Bytes: c.TraceSize, Dir: c.TraceDir, Files: c.TraceFiles, Turns: b.turns, Log: b.log,
	})
	if err != nil {
		return &trouble{fmt.Sprintf("no traces can be written to %s (--trace-dir): %v", c.TraceDir, err), err}
	}
	return nil
}

// turns are what the flight recorder hears of the loops.
func (b *broker) turns() (t flight.Turns) {
	n := b.service.Condition().Node
	if n == nil {
		return t
	}
	t.Of = n
	t.Long, t.Shard, t.Took = n.LongTurns()
	var at stage.Stage
	t.Slow, t.SlowShard, at, t.SlowTook = n.SlowStages()
	t.SlowStage = stage.Table[at].Name
	for shard, silence := range n.Silence() {
		if silence > t.Silent {
			t.Silent, t.SilentShard = silence, shard
		}
	}
	return t
}

// tellSettings has the front tell the settings that are in force, without secrets.
func (b *broker) tellSettings() {
	var text bytes.Buffer
	if err := b.cfg.Print(&text, settings.WithSources); err != nil {
		fmt.Fprintf(&text, "# %v\n", err)
	}
	hidden := bundler.Hide(text.Bytes())
	b.settings.Store(&hidden)
}

func (b *broker) closeAdmin() {
	if b.recorder != nil {
		b.recorder.Stop()
	}
	if b.admin != nil {
		_ = b.admin.Close() // the process ends
	}
}
