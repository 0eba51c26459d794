package powercut

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/test/powercut/fusedisk"
	"github.com/mqd-broker/mqd/test/rig"
)

// TestLogsAreOpenedAgainOnADiskThatWorksAgain has a flush of a real filesystem fail, which
// may make the filesystem read-only, and has the broker open its logs again, if need be
// on a new mount: a broker that has nothing to serve keeps no file open. The process goes
// on all the time.
func TestLogsAreOpenedAgainOnADiskThatWorksAgain(t *testing.T) {
	fusedisk.Need(t)
	rig.NeedDriver(t)
	seed := newSeed(t)
	binary := rig.Binary(t)
	for _, fs := range []fusedisk.Filesystem{fusedisk.Ext4, fusedisk.XFS} {
		t.Run(fs.Name, func(t *testing.T) {
			if why := fs.Missing(); why != "" {
				t.Skip(why)
			}
			rng := rand.New(rand.NewPCG(seed, 11))
			var sum report
			mounts := 0
			for n := range max(2, *imagesFlag/25) {
				m := newMachine(t, variant{fs: fs}, binary)
				again, err := m.reopened(rng, &sum)
				if err != nil {
					t.Fatalf("seed %d, run %d, serve %v: %v", seed, n, m.args, err)
				}
				mounts += again
			}
			t.Logf("%d new mounts; %v", mounts, &sum)
		})
	}
}

// reopened has a flush fail under a load, has the logs opened again, and holds what is
// served then against what was acknowledged. It returns how often the filesystem had to
// be mounted anew.
func (m *machine) reopened(rng *rand.Rand, r *report) (mounts int, err error) {
	defer func() { err = errors.Join(err, m.off()) }()
	maxSize := m.draw(rng)
	d := m.format()
	if err := m.on(d, m.mountOptions(rng)); err != nil {
		return 0, err
	}
	if err := m.launch("--shards", shards(rng), "--admin-listen", "127.0.0.1:0"); err != nil {
		return 0, err
	}
	addr, err := m.ready()
	if err != nil {
		return 0, err
	}
	l, err := startLoad(addr, rng, maxSize)
	if err != nil {
		return 0, err
	}
	rest(context.Background(), 50*time.Millisecond+upTo(rng, 500*time.Millisecond))
	if err := errors.Join(m.failAFlush(d), l.end()); err != nil {
		return 0, err
	}
	topics := l.expect(l.mark(), l.mark())
	crashed(topics)
	for {
		status, said, err := m.askAdmin(http.MethodPost, "/v1/reopen")
		switch {
		case err != nil:
			return mounts, err
		case status == http.StatusOK:
			if err := m.read(addr, topics, r); err != nil {
				return mounts, err
			}
			if err := write(addr, topics, rng, func() bool { return false }); err != nil {
				return mounts, err
			}
			return mounts, m.read(addr, topics, r)
		case mounts > 0 || !strings.Contains(said, "read-only file system") && !strings.Contains(said, "input/output error"):
			return mounts, fmt.Errorf("not opened again behind %d new mounts: %d %s", mounts, status, said)
		}
		mounts++
		path := m.mount.Dir
		if err := m.unmount(); err != nil {
			return mounts, fmt.Errorf("a broker that serves nothing keeps %s: %w", path, err)
		}
		if err := m.remount(m.path, ""); err != nil {
			return mounts, err
		}
	}
}

// failAFlush has flushes fail, one after the other, until the broker has noticed one: the
// filesystem's own may come before.
func (m *machine) failAFlush(d *fusedisk.Disk) error {
	const look = 20 * time.Millisecond
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		d.FailFlushes(1)
		rest(context.Background(), look)
		d.FailFlushes(0)
		status, _, err := m.askAdmin(http.MethodGet, "/healthz/ready")
		if err != nil || status == http.StatusServiceUnavailable {
			return err
		}
	}
	return errors.New("the broker has not noticed that flushes fail")
}

// askAdmin asks the broker's admin HTTP.
func (m *machine) askAdmin(method, path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, err := m.broker.Said(ctx, `"msg":"admin HTTP"`)
	var line struct{ Address string }
	if err == nil {
		err = json.Unmarshal([]byte(text), &line)
	}
	if err != nil {
		return 0, "", err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+line.Address+path, nil)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Mqd-Order", "test")
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return 0, "", fmt.Errorf("%w; the broker said: %s", err, m.broker.LogTail())
	}
	all, err := io.ReadAll(res.Body)
	return res.StatusCode, string(all), errors.Join(err, res.Body.Close())
}
