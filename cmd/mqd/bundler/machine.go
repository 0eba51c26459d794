package bundler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/cmd/mqd/tuner"
	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/capture"
)

const (
	// mostLog is how much of the end of a log is taken, in bytes.
	mostLog = 1 << 20
	// mostListed is how many files of a data directory are listed.
	mostListed = 50_000
)

// hostFiles are taken beside those that a check reads.
var hostFiles = []string{
	"proc/version", "proc/loadavg", "proc/uptime", "proc/interrupts", "proc/softirqs", "proc/diskstats", "proc/net/snmp",
	"proc/pressure/cpu", "proc/pressure/io", "proc/pressure/memory",
}

// processFiles are those of the broker's process.
var processFiles = []string{"comm", "stat", "status", "limits", "io", "cgroup", "schedstat"}

// host adds what mqd check says, and the files that it has read.
func (b *bundle) host(n tuner.Needs, dir string, pid int) {
	var files *capture.Files
	r, err := tuner.Look(n, dir, pid, func(f tuning.Files) tuning.Files {
		files = capture.New(f)
		return files
	})
	var table, object bytes.Buffer
	if err == nil {
		err = errors.Join(tuning.WriteTable(&table, r, true), tuning.WriteJSON(&object, r))
	}
	b.add("check.txt", "what mqd check says of this machine", text, table.Bytes(), err)
	b.add("check.json", "the same, as JSON", text, object.Bytes(), err)
	if files == nil {
		return
	}
	for _, name := range hostFiles {
		files.Text(name)
	}
	for _, name := range processFiles {
		if pid != 0 {
			files.Text(fmt.Sprintf("proc/%d/%s", pid, name))
		}
	}
	look := "mqd check --root host --data-dir " + dir
	if pid != 0 {
		look = fmt.Sprintf("%s --pid %d", look, pid)
	}
	for _, f := range files.Entries() {
		e := b.add("host/"+f.Name, "for "+look, text, f.Text, nil)
		e.link, e.dir = f.Link, f.Dir
	}
}

// listing lists the files of a data directory with their sizes. Nothing in them is read.
func listing(dir string) ([]byte, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintln(&out, dir)
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err == nil {
		fmt.Fprintf(&out, "filesystem: %d bytes, %d free, %d files free\n", st.Blocks*uint64(st.Bsize), st.Bavail*uint64(st.Bsize), st.Ffree)
	}
	fmt.Fprintf(&out, "\n%-10s %14s %14s %-20s %s\n", "mode", "bytes", "on disk", "modified", "path")
	listed, bytesAll := 0, int64(0)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if listed++; listed > mostListed {
			return fs.SkipAll
		}
		if err != nil {
			fmt.Fprintf(&out, "%v\n", err)
			return nil
		}
		info, err := d.Info()
		if err != nil {
			fmt.Fprintf(&out, "%v\n", err) // it has gone meanwhile
			return nil
		}
		blocks := int64(0)
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			blocks = int64(st.Blocks) * 512
		}
		bytesAll += info.Size()
		name, _ := filepath.Rel(dir, path)
		fmt.Fprintf(&out, "%-10s %14d %14d %-20s %s\n", info.Mode(), info.Size(), blocks, info.ModTime().UTC().Format(time.RFC3339), name)
		return nil
	})
	if listed > mostListed {
		fmt.Fprintf(&out, "\nand more: only %d are listed\n", mostListed)
	}
	fmt.Fprintf(&out, "\n%d entries, %d bytes\n", min(listed, mostListed), bytesAll)
	return out.Bytes(), err
}

// endOf is the end of a log, or the reason why ctx has ended: what is no file, such as a
// pipe from journalctl -f, may have nothing to read for ever, or never end.
func endOf(ctx context.Context, name string, in io.Reader) ([]byte, error) {
	type result struct {
		end []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		end, err := tail(ctx, name, in)
		done <- result{end, err}
	}()
	select {
	case r := <-done:
		return r.end, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// tail is the end of a log: of a file, or of what comes in for "-" until ctx ends.
func tail(ctx context.Context, name string, in io.Reader) (end []byte, err error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > mostLog {
			if _, err := f.Seek(-mostLog, io.SeekEnd); err != nil {
				return nil, err
			}
		}
	}
	piece := make([]byte, 64<<10)
	for err == nil {
		if err = context.Cause(ctx); err != nil {
			break
		}
		var n int
		n, err = in.Read(piece)
		if end = append(end, piece[:n]...); len(end) > 2*mostLog {
			end = append([]byte(nil), end[len(end)-mostLog:]...)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return end[max(0, len(end)-mostLog):], err
}
