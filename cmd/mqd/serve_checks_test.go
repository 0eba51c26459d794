package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/recovery"
)

func TestOnlyThisMachineIsListenedToUnlessTold(t *testing.T) {
	for addr, local := range map[string]bool{
		"127.0.0.1:7878": true, "127.3.2.1:0": true, "[::1]:7878": true, "localhost:7878": true,
		"0.0.0.0:7878": false, ":7878": false, "[::]:7878": false, "192.168.1.1:7878": false, "broker.example:7878": false,
	} {
		c := configure(t)
		c.Listen = addr
		err := checkListen(c)
		if (err == nil) != local || err != nil && !strings.Contains(err.Error(), "--insecure") {
			t.Errorf("%s: %v", addr, err)
		}
		c.Insecure = true
		if err := checkListen(c); err != nil {
			t.Errorf("%s with --insecure: %v", addr, err)
		}
	}
	c := configure(t)
	c.Listen, c.Insecure = "127.0.0.1", true
	if err := checkListen(c); err == nil {
		t.Error("an address without a port was accepted")
	}
	for _, addr := range []string{"127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:http"} {
		c.Listen = addr
		if err := checkListen(c); err == nil || !strings.Contains(err.Error(), "a port of 0 to 65535") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestAHostThatIsNotKnownIsSaidFirst(t *testing.T) {
	clearEnv(t)
	for _, host := range []string{"nosuch.onion", "no host"} { // nobody is asked for these
		_, errs, status := execute("serve", "--data-dir", filepath.Join(t.TempDir(), "d"), "--listen", host+":99")
		if status != 1 || !strings.HasPrefix(errs, "mqd: the host of "+host+":99 is not known (flag --listen: ") || strings.Count(errs, "\n") != 1 {
			t.Errorf("status %d, %s", status, errs)
		}
	}
	for _, addr := range []string{"127.0.0.1:1", "[::1]:1", "[fe80::1%lo]:1", ":1", "localhost:1", "nonsense"} {
		if err := checkHost(t.Context(), configure(t, settings.Listen, addr)); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestAPortThatIsFreeInAMomentIsWaitedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := configure(t, settings.Listen, l.Addr().String())
	if err := checkPort(t.Context(), c, 1); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port in use: %v", err)
	}
	free := time.AfterFunc(50*time.Millisecond, func() { l.Close() })
	defer free.Stop()
	if err := checkPort(t.Context(), c, 100*portLooks); err != nil {
		t.Errorf("a port that was in use: %v", err)
	}
}

func TestADirectoryOfSomethingElseIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := func(what, path string) {
		t.Helper()
		if err := checkDataDir(path); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	good("missing", filepath.Join(dir, "missing", "deep"))
	good("empty", dir)
	write(layout.LockFile)
	good("begun and not finished", dir)
	write("photo.jpg")
	if err := checkDataDir(dir); err == nil || !strings.Contains(err.Error(), "photo.jpg") {
		t.Errorf("a directory of photos: %v", err)
	}
	if err := checkDataDir(filepath.Join(dir, "photo.jpg")); err == nil || !strings.Contains(err.Error(), "is a file") {
		t.Errorf("a file: %v", err)
	}
	write(checkpoint.NodeFile)
	good("a data directory with a stranger", dir)
}

func TestFilesOfTheLogGoBeforeConnections(t *testing.T) {
	fit := func(limit int, pairs ...string) (int, []string, error) {
		c := configure(t, pairs...)
		notes, err := fitOpenFiles(c, 2, limit)
		return c.MaxConnections, notes, err
	}
	for _, limit := range []int{0, 2*1024 + 64 + 10_000, 1 << 20} {
		if n, notes, err := fit(limit); n != 10_000 || len(notes) != 0 || err != nil {
			t.Errorf("limit %d: %d connections, %v, %v", limit, n, notes, err)
		}
	}
	if n, notes, err := fit(4096); n != 4096-2*1024-64 || len(notes) != 1 || err != nil || !strings.Contains(notes[0], "LimitNOFILE=12112") {
		t.Errorf("%d connections, %v, %v", n, notes, err)
	}
	if _, _, err := fit(4096, settings.MaxConnections, "5000"); err == nil || !strings.Contains(err.Error(), "need 7112") {
		t.Errorf("5000 connections that the operator wants: %v", err)
	}
	if _, _, err := fit(2000); err == nil {
		t.Error("a limit below the tables of the shards was accepted")
	}
}

func TestShardsGetTheFilesThatConnectionsLeave(t *testing.T) {
	c := configure(t)
	for limit, want := range map[int]int{
		0:                        mostShardFiles,
		2*1024 + 64 + 10_000:     shardFiles,
		2*1024 + 64 + 9_000:      shardFiles,
		2*5000 + 64 + 10_000 + 1: 5000,
		1 << 20:                  mostShardFiles,
	} {
		if got := filesOfShard(c, 2, limit); got != want {
			t.Errorf("limit %d: %d files a shard, expected %d", limit, got, want)
		}
	}
}

func TestWhatStopsAStartIsSaidInOneLineWithACure(t *testing.T) {
	c := configure(t, settings.KafkaListen, "127.0.0.1:9092")
	for name, tc := range map[string]struct {
		err  error
		want []string
	}{
		"kafka":    {fmt.Errorf("listen on %s: %w", c.KafkaListen, syscall.EADDRINUSE), []string{"port in use", c.KafkaListen, "--kafka-listen"}},
		"port":     {fmt.Errorf("listen on x: %w", syscall.EADDRINUSE), []string{"port in use", c.Listen, "--listen"}},
		"address":  {syscall.EADDRNOTAVAIL, []string{"no interface", c.Listen}},
		"locked":   {fmt.Errorf("%w: %w", layout.ErrBadDataDir, aio.ErrLocked), []string{"locked", c.DataDir, "--data-dir"}},
		"denied":   {fmt.Errorf("%w: %w", layout.ErrBadDataDir, syscall.EACCES), []string{"not writable", c.DataDir}},
		"readonly": {fmt.Errorf("%w: %w", layout.ErrBadDataDir, syscall.EROFS), []string{"not writable", c.DataDir}},
		"damaged":  {fmt.Errorf("%w: no checkpoint: %w", layout.ErrBadDataDir, errors.Join(checkpoint.ErrDamaged, checkpoint.ErrTruncated)), []string{"damaged: no checkpoint", c.DataDir, "mqd verify", "mqd salvage"}},
		"gone":     {fmt.Errorf("%w: the catalog: %w", layout.ErrBadDataDir, &layout.CorruptError{Path: "x.log", Expected: "a segment", Found: "no file"}), []string{c.DataDir, "x.log", "expected a segment, found no file", "mqd verify", "mqd salvage"}},
		"behind":   {fmt.Errorf("%w: %w: x", layout.ErrBadDataDir, recovery.ErrDisagree), []string{c.DataDir, "do not agree: x", "mqd verify", "mqd salvage"}},
		"direct":   {fmt.Errorf("open: %w", aio.ErrNoDirect), []string{"O_DIRECT", "ext4", "--io=portable"}},
		"node":     {fmt.Errorf("x: %w", checkpoint.ErrUnsupported), []string{"newer version of mqd", c.DataDir}},
		"journal":  {fmt.Errorf("x: %w", journal.ErrVersion), []string{"newer version of mqd"}},
		"catalog":  {fmt.Errorf("x: %w", catalog.ErrUnsupported), []string{"newer version of mqd"}},
		"low port": {&net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EACCES)}, []string{"this user may not listen on", "--listen"}},
		"memory":   {fmt.Errorf("shard 0: %w: uring: mapping 9 bytes: %w", aio.ErrMapping, syscall.ENOMEM), []string{"there is not so much memory", "--cache-size is 128 MiB"}},
		"full":     {fmt.Errorf("x: %w", syscall.ENOSPC), []string{"full", "no inode", "df -i", "--journal-size"}},
		"other":    {fmt.Errorf("first line\nsecond line"), []string{"first line; second line"}},
	} {
		text := startTrouble(tc.err, c).Error()
		if strings.Contains(text, "\n") {
			t.Errorf("%s: more than a line: %q", name, text)
		}
		for _, want := range tc.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q lacks %q", name, text, want)
			}
		}
	}
}
