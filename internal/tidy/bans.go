package tidy

import (
	"go/ast"
	"path"
	"slices"
	"strings"

	"github.com/mqd-broker/mqd/internal/layers"
)

// Ban forbids names of one imported package in files that are not tests.
type Ban struct {
	// Package is the import path whose names are banned.
	Package string
	// Names are banned; a "*" at the end stands for any rest.
	Names []string
	// In are the directories (patterns of layers.Match) where the ban holds.
	In []string
	// Except are directories or files where it does not; a file may be a
	// pattern of path.Match.
	Except []string
	// Why is printed with a finding.
	Why string
}

// shardCode are the packages whose code runs on shards, or is called there.
var shardCode = []string{"engine/...", "broker/...", "net/...", "batch", "ringbuf"}

// driverCode are the packages below the I/O port. They make the system calls
// that nobody else makes.
var driverCode = []string{"uring", "engine/aio/hostfs", "engine/aio/hostnet", "engine/aio/portable", "engine/aio/aiotest"}

// clockFiles make the simulator's real-time mode out of the machine's time.
var clockFiles = []string{"engine/aio/sim/sleep.go", "engine/aio/sim/world.go"}

// everywhere matches all directories.
var everywhere = []string{"..."}

// blockingCalls are system calls that may wait for a device or for a peer.
var blockingCalls = []string{
	"Open*", "Creat", "Close", "Read*", "Write*", "Pread*", "Pwrite*", "Sendfile", "Splice",
	"Fsync", "Fdatasync", "Sync*", "Fallocate", "Ftruncate", "Truncate", "Rename*", "Unlink*", "Link*", "Symlink*",
	"Mkdir*", "Rmdir", "Getdents", "ReadDirent", "Stat*", "Fstat*", "Lstat", "Flock", "Fcntl*",
	"Socket*", "Connect", "Accept*", "Recv*", "Send*", "Poll", "Ppoll", "Select", "Pselect", "Epoll*", "Nanosleep", "Wait*",
}

// Bans are the names that may not be used, and where.
var Bans = []Ban{
	{Package: "time", Names: []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
		In: shardCode, Except: append(clockFiles, driverCode...),
		Why: "time comes from the clock of engine/aio, so that the simulator rules it and a message costs no clock call"},
	{Package: "time", Names: []string{"Sleep", "Tick", "After"},
		In: everywhere, Except: []string{"cmd/...", "bench", "test/..."},
		Why: "wait for a condition, a context or a timer that is stopped, not for time to pass"},
	{Package: "os", Names: []string{"*"}, In: shardCode, Except: append([]string{"engine/aio/sim/conn.go"}, driverCode...),
		Why: "files, environment and processes are reached through engine/aio"},
	{Package: "os", Names: []string{"Rename", "WriteFile", "Create*", "Open*", "Remove*", "Mkdir*", "Truncate", "Link", "Symlink"},
		In:  []string{"client", "internal/..."},
		Why: "this package changes no files"},
	{Package: "os", Names: []string{"Exit"}, In: everywhere, Except: []string{"cmd/...", "test/demo", "test/kafkabench"},
		Why: "return an error; main alone ends the process"},
	{Package: "syscall", Names: blockingCalls, In: shardCode, Except: driverCode,
		Why: "no blocking call on a shard: submit it to the port"},
	{Package: "golang.org/x/sys/unix", Names: blockingCalls, In: shardCode, Except: driverCode,
		Why: "no blocking call on a shard: submit it to the port"},
	{Package: layers.Module + "/engine/aio",
		Names: []string{"Do", "DoFile", "ReadAt", "WriteAt", "Fdatasync", "OpenFile", "CloseFile", "MkdirAll", "ReadFile", "WriteFileAtomic"},
		In:    shardCode, Except: append([]string{"engine/aio/..."}, BlockingFiles...),
		Why: "this helper blocks: only start-up and recovery, listed in BlockingFiles, may use it"},
	{Package: "log", Names: []string{"Fatal*", "Panic*"}, In: everywhere, Except: []string{"cmd/..."},
		Why: "return an error; main alone ends the process"},
	{Package: "fmt", Names: []string{"Print*"}, In: everywhere, Except: []string{"cmd/...", "bench", "test/..."},
		Why: "standard output belongs to the verbs"},
	{Package: "sync/atomic", Names: []string{"Add*", "Load*", "Store*", "Swap*", "CompareAndSwap*", "And*", "Or*"},
		In:  everywhere,
		Why: "use the types (atomic.Uint64): they are aligned and cannot be read plainly by mistake"},
	{Package: "context", Names: []string{"TODO"}, In: everywhere,
		Why: "take the caller's context"},
}

// BlockingFiles are the files of shard packages that run before a loop serves
// (start-up, recovery) or on a helper, and so may block.
var BlockingFiles = []string{
	"engine/recovery/*.go", "engine/checkpoint/open*.go",
	"engine/journal/open*.go", "engine/journal/format*.go", "engine/journal/replay*.go", "engine/journal/recover*.go",
	"engine/segment/open*.go", "engine/segment/verify*.go", "engine/segment/rebuild*.go", "engine/segment/recover*.go",
	"broker/open*.go", "broker/catalogfile/topics.go", "broker/groupfile/open*.go",
}

// BannedNames finds uses of banned names, as calls or as values.
func BannedNames(files []*File) []Finding { return bannedNames(files, Bans) }

func bannedNames(files []*File, bans []Ban) []Finding {
	var bad []Finding
	for _, f := range files {
		if f.Test {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			target, name, ok := f.selected(n)
			if !ok {
				return true
			}
			for _, b := range bans {
				if b.bans(f, target, name) {
					bad = append(bad, f.finding(n.Pos(), "%s.%s is banned here: %s", path.Base(target), name, b.Why))
				}
			}
			return true
		})
	}
	return bad
}

func (b Ban) bans(f *File, target, name string) bool {
	return b.Package == target && layers.MatchAny(b.In, f.Dir()) &&
		!placed(b.Except, f) && slices.ContainsFunc(b.Names, func(n string) bool {
		start, open := strings.CutSuffix(n, "*")
		return name == n || open && strings.HasPrefix(name, start)
	})
}

// placed reports whether a list of directories and files names f.
func placed(list []string, f *File) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		if strings.HasSuffix(p, ".go") {
			ok, err := path.Match(p, f.Path)
			return err == nil && ok
		}
		return layers.Match(p, f.Dir())
	})
}
