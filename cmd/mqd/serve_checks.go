package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/internal/quantity"
)

// lookupPatience bounds the look-up of the host to listen on.
const lookupPatience = 5 * time.Second

// door is an address that is listened on.
type door struct{ setting, flag, addr string }

// doorsOf are all of them.
func doorsOf(c *settings.Config) []door {
	all := []door{{settings.Listen, "--listen", c.Listen}}
	if c.KafkaListen != "" {
		all = append(all, door{settings.KafkaListen, "--kafka-listen", c.KafkaListen})
	}
	if c.AdminListen != "" {
		all = append(all, door{settings.AdminListen, "--admin-listen", c.AdminListen})
	}
	return all
}

// checkHost refuses hosts to listen on that nobody knows.
func checkHost(ctx context.Context, c *settings.Config) error {
	for _, d := range doorsOf(c) {
		if err := d.checkHost(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (d door) checkHost(ctx context.Context, c *settings.Config) error {
	host, _, err := net.SplitHostPort(d.addr)
	if err != nil || host == "" || host == "localhost" {
		return nil // for checkListen to judge
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err == nil && len(found) == 0 {
		err = errors.New("no such host") // as for .onion
	}
	if err != nil {
		return fmt.Errorf("the host of %s is not known (%s: %w); name an address of this machine with %s", d.addr, c.Where(d.setting), err, d.flag)
	}
	return nil
}

// checkListen refuses addresses that other machines can reach, unless told.
func checkListen(c *settings.Config) error {
	for _, d := range doorsOf(c) {
		host, port, err := net.SplitHostPort(d.addr)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		switch {
		case err != nil:
			return fmt.Errorf("%s: %s is %q, expected host:port, with a port of 0 to 65535", c.Where(d.setting), d.setting, d.addr)
		case !c.Insecure && !isLoopback(host):
			return fmt.Errorf("not listening on %s: other machines could reach it, and there is no authentication or encryption yet; "+
				"listen on 127.0.0.1, or say --insecure if the network keeps strangers out", d.addr)
		case d.setting != settings.Listen && d.addr == c.Listen && port != "0":
			return fmt.Errorf("%s and %s are both %s; name another address with %s", settings.Listen, d.setting, d.addr, d.flag)
		}
	}
	return nil
}

// portLooks is how often it is looked whether a port has become free, every 10 ms. The
// kernel takes the rings of a killed process down behind its back, and with them its
// sockets: a broker that is started at once in its place finds the port taken for a moment.
// Looks are counted and not time, which goes on where the whole machine stands still.
const portLooks = 100

// checkPort refuses an address that cannot be listened on, before anything is
// written to the data directory. The node looks again when it has the directory.
func checkPort(ctx context.Context, c *settings.Config, looks int) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := canListen(c.Listen)
		if err == nil && c.KafkaListen != "" {
			err = canListen(c.KafkaListen)
		}
		if err == nil {
			return nil
		}
		if looks--; looks <= 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func canListen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// isLoopback reports whether only this machine can reach host. The empty host is
// every address.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// ownNames are what a data directory holds, and what a new filesystem does.
var ownNames = []string{
	checkpoint.NodeFile, layout.LockFile, layout.CheckpointsDir, layout.JournalsDir, layout.TopicsDir, layout.GroupsDir, "lost+found",
}

// checkDataDir refuses a path that is something else than a data directory. One
// that is missing or empty becomes one.
func checkDataDir(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("data directory %s is a file", dir)
	case err != nil:
		return fmt.Errorf("%w: %w", layout.ErrBadDataDir, err)
	}
	stranger := ""
	for _, e := range entries {
		if e.Name() == checkpoint.NodeFile {
			return nil
		}
		if stranger == "" && !slices.Contains(ownNames, e.Name()) && !aio.IsTemp(e.Name()) {
			stranger = e.Name()
		}
	}
	if stranger != "" {
		return fmt.Errorf("%s is no data directory: it holds %s and no %s; name one with --data-dir that is empty, missing or made by mqd",
			dir, stranger, checkpoint.NodeFile)
	}
	return nil
}

// Open files that a node needs beside its connections.
const (
	shardFiles     = 1024 // the table of a shard's driver, at least
	mostShardFiles = 8192 // and at most
	programFiles   = 64   // logs, pipes, rings, sockets that listen
)

// fitOpenFiles sees that files of the log always find a descriptor, whatever
// clients do: connections get what the limit leaves. 0 is no limit.
func fitOpenFiles(c *settings.Config, shards, limit int) (notes []string, err error) {
	left := limit - shards*shardFiles - programFiles
	if limit == 0 || left >= c.MaxConnections {
		return nil, nil
	}
	need := limit - left + c.MaxConnections
	if left < 1 || c.IsSet(settings.MaxConnections) {
		return nil, fmt.Errorf("the limit of open files (RLIMIT_NOFILE) is %d, and %s with %s (%s) need %d; "+
			"raise it (ulimit -n, LimitNOFILE=), or lower --shards or --max-connections", limit,
			quantity.Of(shards, "shard", "shards"), quantity.Of(c.MaxConnections, "connection", "connections"), settings.MaxConnections, need)
	}
	note := fmt.Sprintf("the limit of open files (RLIMIT_NOFILE) of %d leaves room for %s instead of %d; LimitNOFILE=%d would be enough",
		limit, quantity.Of(left, "connection", "connections"), c.MaxConnections, need)
	c.MaxConnections = left
	return []string{note}, nil
}

// filesOfShard is the size of a shard's table of files: what the limit leaves beside
// connections. With more busy partitions than that, files are opened and closed all
// the time.
func filesOfShard(c *settings.Config, shards, limit int) int {
	if limit == 0 {
		return mostShardFiles
	}
	return min(mostShardFiles, max(shardFiles, (limit-programFiles-c.MaxConnections)/shards))
}

// startTrouble turns what stopped the start into one line that says what to do.
func startTrouble(err error, c *settings.Config) error {
	if known := (*trouble)(nil); errors.As(err, &known) {
		return err
	}
	text := startAdvice(err, c)
	if text == "" {
		text = err.Error()
	}
	return &trouble{strings.ReplaceAll(text, "\n", "; "), err}
}

func startAdvice(err error, c *settings.Config) string {
	dir, addr, flag := c.DataDir, c.Listen, "--listen"
	if c.KafkaListen != "" && strings.Contains(err.Error(), c.KafkaListen) {
		addr, flag = c.KafkaListen, "--kafka-listen"
	}
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
	}
	switch {
	case is(aio.ErrMapping):
		return fmt.Sprintf("%v; --cache-size is %s for all shards together: lower it", err, quantity.Bytes(c.CacheSize))
	case is(driverErrors...):
		return fmt.Sprintf("%v; or use the portable driver, with --io=portable", err)
	case is(checkpoint.ErrUnsupported, journal.ErrVersion, catalog.ErrUnsupported):
		return fmt.Sprintf("data directory %s was written by a newer version of mqd; start that version, this one (%s) has changed nothing: %v", dir, version, err)
	case is(aio.ErrLocked):
		return fmt.Sprintf("data directory %s is locked: another broker runs on it; stop that one, or name another directory with --data-dir", dir)
	case is(aio.ErrNoDirect):
		return fmt.Sprintf("the filesystem of data directory %s has no O_DIRECT, which io_uring is used with; use one such as ext4 or XFS, or --io=portable, which goes through the page cache: %v", dir, err)
	case is(syscall.EADDRINUSE):
		return fmt.Sprintf("port in use: another program listens on %s; stop it, or name another address with %s", addr, flag)
	case is(syscall.EADDRNOTAVAIL):
		return fmt.Sprintf("no interface of this machine has the address %s; name another one with %s", addr, flag)
	case is(syscall.EACCES) && errors.As(err, new(*net.OpError)):
		return fmt.Sprintf("this user may not listen on %s; name a port above 1023 with %s", addr, flag)
	case is(syscall.ENOSPC, syscall.EDQUOT):
		return fmt.Sprintf("the filesystem of data directory %s is full, or has no inode left (df -i); make room, or lower --journal-size for a new directory: %v", dir, err)
	case is(layout.ErrBadDataDir) && is(fs.ErrPermission, syscall.EROFS):
		return fmt.Sprintf("data directory %s is not writable for this user (%s); name another with --data-dir, or give it to the user",
			dir, strings.TrimPrefix(err.Error(), layout.ErrBadDataDir.Error()+": "))
	case is(layout.ErrBadDataDir) && is(checkpoint.ErrDamaged, checkpoint.ErrTruncated, checkpoint.ErrIdentity, recovery.ErrDisagree, layout.ErrCorrupt):
		return fmt.Sprintf("data directory %s is damaged: %s; nothing in it has been given up. mqd verify names everything that is damaged. Put back the named files from a copy of the directory of the same time, or start from the copy; mqd salvage gives up messages that cannot be read, but needs a checkpoint of every shard",
			dir, strings.TrimPrefix(err.Error(), layout.ErrBadDataDir.Error()+": "))
	}
	return ""
}
