package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The driver for development, which is all there is outside Linux, runs a whole node on
// the machine's files and sockets. What a node had acknowledged when its files were
// copied is there for one that starts on the copy, which is what a kill would leave.
func TestTheDriverForDevelopmentRunsANode(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		cfg := small(shards)
		cfg.Dir, cfg.Listen = filepath.Join(t.TempDir(), "first"), "127.0.0.1:0"
		r := &rig{t: t, p: &platform{}, cfg: cfg, log: &logged{}}
		r.cfg.Log = slog.New(slog.NewTextHandler(r.log, nil))
		t.Cleanup(func() {
			if r.n != nil {
				_ = r.n.Stop(context.Background())
			}
		})
		serve := func() {
			r.cfg.Listen = "127.0.0.1:0"
			r.start()
			r.cfg.Listen = r.n.Addr()
		}
		serve()
		topics := []string{"written", "flushed"}
		c := r.dial()
		for _, class := range topics {
			r.create(c, class, 5, class)
		}
		l := newLoad(r)
		l.consume(topics...)
		for _, topic := range topics {
			l.produce(topic, 300)
			l.produce(topic, 300)
		}
		l.wait(4 * 300)
		l.end()
		if len(l.failed) > 0 {
			t.Fatalf("%v", l.failed)
		}
		killed := filepath.Join(t.TempDir(), "killed")
		for {
			err := os.CopyFS(killed, os.DirFS(cfg.Dir))
			if err == nil {
				break
			}
			if !errors.Is(err, fs.ErrNotExist) { // else something got its name meanwhile
				t.Fatal(err)
			}
			if err := os.RemoveAll(killed); err != nil {
				t.Fatal(err)
			}
		}
		l.mustHave(topics...)
		for _, dir := range []string{cfg.Dir, killed} {
			r.stop()
			r.cfg.Dir = dir
			serve()
			l.mustHave(topics...)
		}
		r.stop()
		if n := strings.Count(r.log.String(), "variant for development"); n != 3 {
			t.Errorf("three nodes said %d times what they run on:\n%s", n, r.log)
		}
	})
}
