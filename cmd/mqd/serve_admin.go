package main

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"

	"github.com/mqd-broker/mqd/admin"
	"github.com/mqd-broker/mqd/cmd/mqd/bundler"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
)

// openAdmin opens the HTTP front for operators, before the node starts: a recovery that
// takes its time can be watched. Somebody who has never heard of the front shall be able
// to run two brokers, so that the default address is given up when it is taken.
func (b *broker) openAdmin() error {
	addr := b.cfg.AdminListen
	if addr == "" {
		return nil
	}
	b.tellSettings()
	s, err := admin.Listen(admin.Options{
		Listen: addr, Profiles: b.cfg.AdminProfiles, Version: version, Service: b.service, Log: b.log,
		Settings: func() []byte { return *b.settings.Load() },
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
	if b.admin != nil {
		_ = b.admin.Close() // the process ends
	}
}
