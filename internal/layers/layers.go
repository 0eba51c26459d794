// Package layers holds the import rules of the repository as data, and the
// checker that an ordinary test runs over every Go file.
//
// Imports point downwards: a package may import only packages of a lower rank
// in [Table], and only the external modules that its row names. [Never] and
// [Only] say what ranks cannot. The files are parsed, not built, so that files
// of every build tag and system are seen. A package that is not in the table
// fails the test: place it first.
//
// When a rule stands in the way of a change, the change is usually what is
// wrong. Change the data only together with docs/ARCHITECTURE.md, for a reason
// that its commit gives.
package layers

import (
	"fmt"
	"strings"
)

// Module is the path of the root module.
const Module = "github.com/mqd-broker/mqd"

// Trait is a property of a package that forbids it some of the standard
// library (see [Forbidden]), or lets it use what others may not.
type Trait uint8

const (
	// NoOS packages reach files, sockets and other processes only through
	// engine/aio.
	NoOS Trait = 1 << iota
	// DataPath packages run on shards: no locks, no randomness of their own,
	// and (see internal/tidy) no channels and no clock.
	DataPath
	// Unsafe packages may import unsafe: they share memory with the kernel or
	// between threads.
	Unsafe
	// TestSupport packages hold test code in files that are not tests.
	TestSupport
)

// Package is one row of [Table].
type Package struct {
	// Path is relative to the module. A path that ends in "/..." places every
	// package below it that has no row of its own.
	Path string
	// Rank orders packages: imports go to strictly lower ranks.
	Rank int
	// Traits restrict or widen what it may import.
	Traits Trait
	// External are the modules beyond the standard library that it may
	// import, tests included.
	External []string
	// TestUp are packages of its own rank or above that its tests may import.
	TestUp []string
}

// Has reports whether p has all traits of t.
func (p Package) Has(t Trait) bool { return p.Traits&t == t }

// Rule is an entry of [Never] or [Only]. Patterns are paths relative to the
// module, or whole import paths of other modules; "/..." at the end matches the
// path and everything below it.
type Rule struct {
	// From are the importers that the rule is about.
	From []string
	// To are the imported packages.
	To []string
	// Tests are importers whose test files are excepted: in [Never] they may
	// after all, in [Only] they may as well.
	Tests []string
	// Why is printed with a violation.
	Why string
}

// Exception lets one file import what [Forbidden] denies its package.
type Exception struct {
	File   string
	Import string
	Why    string
}

// Import is one import declaration.
type Import struct {
	Path string // as written, without quotes
	Line int
}

// File is what the checker needs to know of one Go file.
type File struct {
	Path    string // slash-separated, relative to the root of the module
	Test    bool   // its name ends in _test.go
	Imports []Import
}

// Dir is the file's package path relative to the module; "" is the root.
func (f File) Dir() string {
	if i := strings.LastIndexByte(f.Path, '/'); i >= 0 {
		return f.Path[:i]
	}
	return ""
}

// Violation is one broken rule at one place.
type Violation struct {
	File string
	Line int
	Text string
}

// String puts a violation in the form that editors can follow.
func (v Violation) String() string { return fmt.Sprintf("%s:%d: %s", v.File, v.Line, v.Text) }

// Lookup finds the row that places dir: an exact one, else the longest pattern.
func Lookup(table []Package, dir string) (Package, bool) {
	best, found := Package{}, false
	for _, p := range table {
		if p.Path == dir {
			return p, true
		}
		if Match(p.Path, dir) && (!found || len(p.Path) > len(best.Path)) {
			best, found = p, true
		}
	}
	return best, found
}

// Match reports whether pattern names path: equal, or at or below a pattern
// that ends in "/...". The pattern "..." names everything.
func Match(pattern, path string) bool {
	base, deep := strings.CutSuffix(pattern, "/...")
	return pattern == "..." || path == base || deep && strings.HasPrefix(path, base+"/")
}

// MatchAny reports whether one of patterns names path.
func MatchAny(patterns []string, path string) bool {
	for _, p := range patterns {
		if Match(p, path) {
			return true
		}
	}
	return false
}
