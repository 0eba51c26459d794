package layers

import (
	"fmt"
	"strings"
)

// Rules is one set of rules; [Repo] is the repository's.
type Rules struct {
	Table       []Package
	TestModules []string
	TestDrivers []string
	Never       []Rule
	Only        []Rule
	Exceptions  []Exception
}

// Repo is the set of rules that this repository follows.
func Repo() Rules {
	return Rules{Table: Table, TestModules: TestModules, TestDrivers: TestDrivers, Never: Never, Only: Only, Exceptions: Exceptions}
}

// Check holds files against the rules.
func (r Rules) Check(files []File) []Violation {
	var all []Violation
	missing := map[string]bool{}
	for _, f := range files {
		pkg, ok := Lookup(r.Table, f.Dir())
		if !ok {
			if !missing[f.Dir()] {
				missing[f.Dir()] = true
				all = append(all, Violation{f.Path, 1, fmt.Sprintf(
					"package %q has no row in internal/layers/rules.go: give it a rank", f.Dir())})
			}
			continue
		}
		for _, imp := range f.Imports {
			for _, text := range r.checkImport(pkg, f, imp.Path) {
				all = append(all, Violation{f.Path, imp.Line, text})
			}
		}
	}
	return all
}

// checkImport returns what is wrong with one import of a placed file.
func (r Rules) checkImport(pkg Package, f File, path string) []string {
	var bad []string
	target, inModule := strings.CutPrefix(path, Module+"/")
	switch {
	case inModule:
		bad = r.checkRank(pkg, f, target)
	case strings.Contains(strings.SplitN(path, "/", 2)[0], "."):
		target = path
		bad = r.checkExternal(pkg, f, path)
	default:
		return r.checkStd(pkg, f, path)
	}
	for _, rule := range r.Never {
		if !MatchAny(rule.From, f.Dir()) || !MatchAny(rule.To, target) {
			continue
		}
		// A pattern for a subtree may cover the importer itself.
		if f.Dir() == target || f.Test && MatchAny(rule.Tests, f.Dir()) {
			continue
		}
		bad = append(bad, fmt.Sprintf("%s must never import %s: %s", f.Dir(), target, rule.Why))
	}
	for _, rule := range r.Only {
		if !MatchAny(rule.To, target) || MatchAny(rule.From, f.Dir()) || f.Test && MatchAny(rule.Tests, f.Dir()) {
			continue
		}
		bad = append(bad, fmt.Sprintf("%s may not import %s: %s", f.Dir(), target, rule.Why))
	}
	return bad
}

func (r Rules) checkRank(pkg Package, f File, target string) []string {
	to, ok := Lookup(r.Table, target)
	if !ok {
		return []string{fmt.Sprintf("%s imports %s, which has no row in internal/layers/rules.go", f.Dir(), target)}
	}
	if to.Rank < pkg.Rank {
		return nil
	}
	if f.Test && (f.Dir() == target || MatchAny(r.TestDrivers, target) || MatchAny(pkg.TestUp, target)) {
		return nil
	}
	// Packages under one pattern, as the rigs in test, may help each other.
	if to.Path == pkg.Path && strings.HasSuffix(pkg.Path, "/...") {
		return nil
	}
	return []string{fmt.Sprintf("%s (rank %d) imports %s (rank %d): imports point downwards only", f.Dir(), pkg.Rank, target, to.Rank)}
}

func (r Rules) checkExternal(pkg Package, f File, path string) []string {
	for _, mod := range pkg.External {
		if Match(mod+"/...", path) {
			return nil
		}
	}
	for _, mod := range r.TestModules {
		if f.Test && Match(mod+"/...", path) {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s may not import %s: its row in internal/layers/rules.go names no such module", f.Dir(), path)}
}

func (r Rules) checkStd(pkg Package, f File, path string) []string {
	if path == "C" {
		return []string{"cgo is not used: the binary is static"}
	}
	if f.Test {
		return nil
	}
	var bad []string
	if path == "unsafe" && !pkg.Has(Unsafe) {
		bad = append(bad, f.Dir()+" may not import unsafe: its row in internal/layers/rules.go does not allow it")
	}
	if Match("testing/...", path) && !pkg.Has(TestSupport) {
		bad = append(bad, f.Dir()+" imports "+path+" outside a test")
	}
	for _, rule := range Forbidden {
		if pkg.Has(rule.Trait) && MatchAny(rule.Std, path) && !MatchAny(rule.Except, path) && !r.excepted(f, path) {
			bad = append(bad, fmt.Sprintf("%s may not import %s: %s", f.Dir(), path, rule.Why))
		}
	}
	return bad
}

func (r Rules) excepted(f File, path string) bool {
	for _, e := range r.Exceptions {
		if e.File == f.Path && e.Import == path {
			return true
		}
	}
	return false
}

// Unused returns the exceptions that no file makes use of. A package may have
// them before it exists, as it has its row in the table.
func (r Rules) Unused(files []File) []Exception {
	used, dirs := map[Exception]bool{}, map[string]bool{}
	for _, f := range files {
		dirs[f.Dir()] = true
		for _, imp := range f.Imports {
			for _, e := range r.Exceptions {
				if e.File == f.Path && e.Import == imp.Path {
					used[e] = true
				}
			}
		}
	}
	var unused []Exception
	for _, e := range r.Exceptions {
		if !used[e] && dirs[File{Path: e.File}.Dir()] {
			unused = append(unused, e)
		}
	}
	return unused
}

// CheckModules returns the directly required modules that no row of the rules
// names, so that a dependency cannot stay or come without a place.
func (r Rules) CheckModules(required []string) []string {
	var unknown []string
	for _, req := range required {
		if !r.namesModule(req) {
			unknown = append(unknown, req)
		}
	}
	return unknown
}

func (r Rules) namesModule(req string) bool {
	for _, p := range r.Table {
		for _, mod := range p.External {
			if Match(mod+"/...", req) {
				return true
			}
		}
	}
	return MatchAny(r.TestModules, req)
}
