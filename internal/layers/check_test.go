package layers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// source makes a Go file of the given name that imports the given paths.
// Paths that start with "./" are of this module.
func source(t *testing.T, name string, imports ...string) File {
	t.Helper()
	var b strings.Builder
	b.WriteString("package p\n")
	for _, imp := range imports {
		if rest, ok := strings.CutPrefix(imp, "./"); ok {
			imp = Module + "/" + rest
		}
		fmt.Fprintf(&b, "import _ %q\n", imp)
	}
	f, err := Parse(name, []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCheckFindsViolations(t *testing.T) {
	cases := []struct {
		name, file string
		imports    []string
		want       string // part of the violation
	}{
		{"upwards", "engine/journal/a.go", []string{"./engine"}, "downwards only"},
		{"same rank", "engine/journal/a.go", []string{"./engine/segment"}, "downwards only"},
		{"upwards in a test", "batch/a_test.go", []string{"./engine"}, "downwards only"},
		{"unplaced importer", "engine/cache/a.go", nil, "no row"},
		{"unplaced import", "engine/a.go", []string{"./engine/cache"}, "no row"},
		{"root package", "a.go", nil, "no row"},
		{"front door to the engine", "net/native/a.go", []string{"./engine"}, "never import"},
		{"front door below the engine", "net/native/a.go", []string{"./engine/shard"}, "never import"},
		{"front doors and each other", "net/kafka/a.go", []string{"./net/native"}, "downwards only"},
		{"broker to a protocol", "broker/a.go", []string{"./net/wire"}, "never import"},
		{"broker to a protocol in a test", "broker/group/a_test.go", []string{"./net/wire"}, "never import"},
		{"state machine with I/O", "broker/group/a.go", []string{"./engine/aio"}, "never import"},
		{"state machine with a file", "broker/catalog/a.go", []string{"os"}, "engine/aio"},
		{"engine to a protocol", "engine/a.go", []string{"./net/wire"}, "never import"},
		{"engine with a socket", "engine/a.go", []string{"net/http"}, "engine/aio"},
		{"engine with a process", "engine/shard/a.go", []string{"os/exec"}, "engine/aio"},
		{"engine with a lock", "engine/segment/a.go", []string{"sync"}, "owns"},
		{"engine with randomness", "engine/a.go", []string{"math/rand/v2"}, "randomness"},
		{"engine that logs", "engine/a.go", []string{"log/slog"}, "logs"},
		{"codec with a file", "batch/a.go", []string{"os"}, "engine/aio"},
		{"client to the broker", "client/a.go", []string{"./broker"}, "never import"},
		{"client to an internal package", "client/a.go", []string{"./internal/invariant"}, "never import"},
		{"client to a module", "client/a.go", []string{modHDR}, "no such module"},
		{"broker to the client", "broker/a.go", []string{"./client"}, "may not import client"},
		{"giouring elsewhere", "engine/aio/a.go", []string{modGiouring}, "one place"},
		{"giouring in a rig", "test/crash/a_test.go", []string{modGiouring}, "one place"},
		{"uring in the engine", "engine/a_test.go", []string{"./uring"}, "picks a driver"},
		{"uring in bench", "bench/a.go", []string{"./uring"}, "picks a driver"},
		{"simulator in the engine", "engine/a.go", []string{"./engine/aio/sim"}, "simulator"},
		{"blocking files in the engine", "engine/a.go", []string{"./engine/aio/hostfs"}, "it blocks"},
		{"rig in production code", "engine/aio/sim/a.go", []string{"./engine/aio/aiotest"}, "conformance"},
		{"rules in production code", "cmd/mqd/a.go", []string{"./internal/layers"}, "for tests"},
		{"unsafe", "engine/journal/a.go", []string{"unsafe"}, "unsafe"},
		{"testing in production code", "engine/a.go", []string{"testing/iotest"}, "outside a test"},
		{"module without a place", "engine/a.go", []string{"github.com/pkg/errors"}, "no such module"},
		{"module of a sibling", "engine/journal/a.go", []string{modSys + "/unix"}, "no such module"},
		{"test module in production code", "batch/a.go", []string{modRapid}, "no such module"},
		{"cgo", "uring/a.go", []string{"C"}, "cgo"},
		{"cgo in a test", "uring/a_test.go", []string{"C"}, "cgo"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := Repo().Check([]File{source(t, c.file, c.imports...)})
			if len(got) == 0 {
				t.Fatalf("%s importing %v passed", c.file, c.imports)
			}
			if !slices.ContainsFunc(got, func(v Violation) bool { return strings.Contains(v.String(), c.want) }) {
				t.Fatalf("no violation says %q: %v", c.want, got)
			}
			if !strings.HasPrefix(got[0].String(), c.file+":") {
				t.Fatalf("the violation does not name its file: %v", got[0])
			}
		})
	}
}

func TestCheckPassesWhatTheDesignAllows(t *testing.T) {
	cases := []struct {
		file    string
		imports []string
	}{
		{"cmd/mqd/serve.go", []string{"./uring", "./engine/aio/portable", "./net/native", "./client", "os", modCobra, modKoanf + "/v2", modKoanf + "/parsers/yaml"}},
		{"bench/run.go", []string{"./client", "./engine/aio", modHDR}},
		{"client/client.go", []string{"./batch", "./net/wire", "net", "sync", "time"}},
		{"client/client_test.go", []string{"./client", "./broker", "./engine/aio/sim", "./net/native"}},
		{"net/native/native.go", []string{"./broker", "./net/conn", "./net/wire", "./batch"}},
		{"net/native/native_test.go", []string{"./engine", "./client", "net", "os"}},
		{"net/conn/conn.go", []string{"./engine/shard", "./engine/aio", "./ringbuf", "net/netip"}},
		{"broker/broker.go", []string{"./broker/catalog", "./engine", "./engine/shard", "./ringbuf"}},
		{"engine/engine.go", []string{"./engine/journal", "./engine/segment", "./engine/shard", "./batch", "sync/atomic"}},
		{"engine/engine_test.go", []string{"./engine", "./engine/aio/sim", "os", "sync", "unsafe", modRapid}},
		{"engine/aio/op_test.go", []string{"./engine/aio/sim"}},
		{"uring/uring.go", []string{"./engine/aio", "unsafe", "sync", "os", modGiouring, modSys + "/unix"}},
		{"uring/uring_test.go", []string{"./uring", "./engine/aio/aiotest", modGiouring}},
		{"batch/lz4.go", []string{"./internal/invariant", modLZ4, modCompress + "/zstd"}},
		{"test/crash/crash_test.go", []string{"./uring", "./client", "./test/rig", "os/exec"}},
	}
	for _, c := range cases {
		for _, v := range Repo().Check([]File{source(t, c.file, c.imports...)}) {
			t.Error(v)
		}
	}
}

func TestAnExceptionHoldsForItsFileAndImportOnly(t *testing.T) {
	rules := Repo()
	rules.Exceptions = []Exception{{"engine/a.go", "sync", "test"}}
	used := []File{source(t, "engine/a.go", "sync")}
	if got := rules.Check(used); len(got) != 0 {
		t.Fatalf("the exception does not hold: %v", got)
	}
	if got := rules.Unused(used); len(got) != 0 {
		t.Fatalf("the exception counts as unused: %v", got)
	}
	for _, f := range []File{source(t, "engine/b.go", "sync"), source(t, "engine/a.go", "os")} {
		if got := rules.Check([]File{f}); len(got) != 1 {
			t.Errorf("%s importing %v: %v", f.Path, f.Imports, got)
		}
		if got := rules.Unused([]File{f}); len(got) != 1 {
			t.Errorf("the exception counts as used by %s", f.Path)
		}
	}
}

func TestAnExceptionMayComeBeforeItsPackage(t *testing.T) {
	rules := Repo()
	rules.Exceptions = []Exception{{"engine/a.go", "sync", "test"}}
	if got := rules.Unused([]File{source(t, "batch/a.go")}); len(got) != 0 {
		t.Errorf("package engine has no files, but: %v", got)
	}
}

func TestAViolationCarriesItsLine(t *testing.T) {
	got := Repo().Check([]File{source(t, "engine/a.go", "fmt", "os")})
	if len(got) != 1 || got[0].Line != 3 {
		t.Fatalf("want one violation in line 3, got %v", got)
	}
}

func TestAnUnplacedPackageIsNamedOnce(t *testing.T) {
	got := Repo().Check([]File{source(t, "extra/a.go"), source(t, "extra/b.go")})
	if len(got) != 1 || !strings.Contains(got[0].Text, `"extra"`) {
		t.Fatalf("want one violation that names extra, got %v", got)
	}
}

func TestParseRefusesWhatIsNotGo(t *testing.T) {
	if _, err := Parse("a.go", []byte("package p\nimport 7\n")); err == nil {
		t.Fatal("a broken file was accepted: its imports would go unchecked")
	}
}

func TestRequiresReadsDirectRequirementsOnly(t *testing.T) {
	got := Requires([]byte("module m\n\ngo 1.26\n\nrequire a.org/x v1.0.0\n\nrequire (\n\tb.org/y v1.2.3\n\tc.org/z v0.1.0 // indirect\n)\n"))
	if !slices.Equal(got, []string{"a.org/x", "b.org/y"}) {
		t.Fatalf("got %v", got)
	}
	unknown := Repo().CheckModules(append(got, modCobra, modKoanf+"/v2", modRapid))
	if !slices.Equal(unknown, got) {
		t.Fatalf("modules without a place: %v, want %v", unknown, got)
	}
}

func TestLookupPrefersTheExactRowThenTheLongestPattern(t *testing.T) {
	table := []Package{{Path: "a/...", Rank: 1}, {Path: "a/b/...", Rank: 2}, {Path: "a/b/c", Rank: 3}}
	for dir, rank := range map[string]int{"a": 1, "a/x": 1, "a/b/x": 2, "a/b/c": 3} {
		if p, ok := Lookup(table, dir); !ok || p.Rank != rank {
			t.Errorf("%s: rank %d, want %d", dir, p.Rank, rank)
		}
	}
	if _, ok := Lookup(table, "ab"); ok {
		t.Error("a pattern matched a name that only starts like it")
	}
}
