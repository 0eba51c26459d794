package tidy

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"

	"github.com/mqd-broker/mqd/internal/layers"
)

// Repanics are the functions that may call panic to pass on a value that they
// recovered, as "dir/file.go:Func".
var Repanics = []string{}

// MayGo are the directories whose code may start goroutines. Nowhere is it one
// per connection or request.
var MayGo = []string{
	"admin/...", "bench/...", "client/...", "cmd/...", "node", "tuning", "test/...",
	"engine/shard",                                                                   // the loops
	"uring", "engine/aio/portable", "engine/aio/aiotest", "engine/aio/sim/helper.go", // helpers
}

// ChannelFiles are the files of data-path packages that may use channels.
var ChannelFiles = []string{}

// BannedForms finds dot imports, the print builtins and linkname directives.
func BannedForms(files []*File) []Finding {
	var bad []Finding
	for _, f := range files {
		for _, spec := range f.AST.Imports {
			if spec.Name != nil && spec.Name.Name == "." {
				bad = append(bad, f.finding(spec.Pos(), "dot import: names must say where they come from"))
			}
		}
		for _, group := range f.AST.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//go:linkname") {
					bad = append(bad, f.finding(c.Pos(), "linkname is not used here"))
				}
			}
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if name, call := builtin(n); call != nil && (name == "print" || name == "println") {
				bad = append(bad, f.finding(n.Pos(), "%s is left over from debugging", name))
			}
			return true
		})
	}
	return bad
}

// builtin returns the name and the call when n calls a plain name.
func builtin(n ast.Node) (string, *ast.CallExpr) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", nil
	}
	id, ok := call.Fun.(*ast.Ident)
	if !ok {
		return "", nil
	}
	return id.Name, call
}

// Panics finds calls of panic outside internal/invariant and [Repanics].
func Panics(files []*File) []Finding { return panics(files, Repanics) }

func panics(files []*File, allowed []string) []Finding {
	ok := map[string]bool{}
	for _, a := range allowed {
		ok[a] = true
	}
	var bad []Finding
	for _, f := range files {
		if f.Test || f.Dir() == "internal/invariant" || layers.Match("test/...", f.Dir()) {
			continue
		}
		for _, decl := range f.AST.Decls {
			if fn, is := decl.(*ast.FuncDecl); is && ok[f.Path+":"+FuncName(fn)] {
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if name, call := builtin(n); call != nil && name == "panic" {
					bad = append(bad, f.finding(n.Pos(), "panic: a bug is invariant.Violated, anything else is an error"))
				}
				return true
			})
		}
	}
	return bad
}

// Goroutines finds go statements outside [MayGo].
func Goroutines(files []*File) []Finding {
	var bad []Finding
	for _, f := range files {
		if f.Test || placed(MayGo, f) {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				bad = append(bad, f.finding(g.Pos(), "go statement: package %s starts no goroutines", f.Dir()))
			}
			return true
		})
	}
	return bad
}

// Channels finds channels in data-path packages outside [ChannelFiles]; locks
// there are a matter of internal/layers.
func Channels(files []*File) []Finding {
	var bad []Finding
	for _, f := range files {
		pkg, ok := layers.Lookup(layers.Table, f.Dir())
		if f.Test || !ok || !pkg.Has(layers.DataPath) || placed(ChannelFiles, f) {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if channelNode(n) {
				bad = append(bad, f.finding(n.Pos(), "channel in a data-path package: threads meet in ringbuf"))
			}
			return true
		})
	}
	return bad
}

func channelNode(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
		return true
	case *ast.UnaryExpr:
		return n.Op == token.ARROW
	}
	return false
}

// Skips finds tests that skip themselves without saying why.
func Skips(files []*File) []Finding {
	var bad []Finding
	for _, f := range files {
		if !f.Test {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if ok && (sel.Sel.Name == "SkipNow" || sel.Sel.Name == "Skip") && len(call.Args) == 0 {
				bad = append(bad, f.finding(n.Pos(), "a test that skips must say why"))
			}
			return true
		})
	}
	return bad
}

// SleepingTests warns of tests that wait for time to pass.
func SleepingTests(files []*File) []Finding {
	var bad []Finding
	for _, f := range files {
		if !f.Test {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if target, name, ok := f.selected(n); ok && target == "time" && name == "Sleep" {
				w := f.finding(n.Pos(), "a test sleeps: wait for the condition instead")
				w.Severity = Warn
				bad = append(bad, w)
			}
			return true
		})
	}
	return bad
}

// TestPrograms finds tests that write programs by themselves. Whoever starts one may be
// told that it is busy, because a child of the same process has it open for writing.
func TestPrograms(files []*File) []Finding {
	var bad []Finding
	for _, f := range files {
		if !f.Test {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if target, name, ok := f.selected(call.Fun); ok && target == "os" && name == "WriteFile" && len(call.Args) == 3 && runs(call.Args[2]) {
				bad = append(bad, f.finding(n.Pos(), "a test writes a program: let process.Script do that"))
			}
			return true
		})
	}
	return bad
}

// runs reports whether a file with these permissions can be started.
func runs(permissions ast.Expr) bool {
	lit, ok := permissions.(*ast.BasicLit)
	if !ok {
		return false
	}
	n, err := strconv.ParseUint(lit.Value, 0, 32)
	return err == nil && n&0o111 != 0
}
