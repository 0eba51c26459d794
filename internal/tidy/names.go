package tidy

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// BadPackageNames say nothing about what is inside, or clash with the standard
// library where both are imported.
var BadPackageNames = []string{
	"util", "utils", "common", "misc", "base", "types", "models", "shared", "core", "manager", "helpers",
	"http", "errors", "log", "sync", "time", "context", "metrics", "version", "debug", "hash", "plugin", "testing",
}

// undocumented are exported methods whose meaning an interface of the standard
// library fixes.
var undocumented = []string{"Error", "String", "Unwrap", "Is", "Len", "Less", "Swap"}

// PackageNames finds names from [BadPackageNames].
func PackageNames(files []*File) []Finding {
	var bad []Finding
	seen := map[string]bool{}
	for _, f := range files {
		name := strings.TrimSuffix(f.AST.Name.Name, "_test")
		if seen[f.Dir()] || !slices.Contains(BadPackageNames, name) {
			continue
		}
		seen[f.Dir()] = true
		bad = append(bad, f.finding(f.AST.Name.Pos(), "package name %q: name it after what it holds", name))
	}
	return bad
}

var (
	// leftover matches names of files that were to replace others.
	leftover = regexp.MustCompile(`_(legacy|old|new|bak)(_test)?\.go$`)
	// serial matches test files that are numbered instead of named.
	serial = regexp.MustCompile(`_[0-9]+_test\.go$`)
	// constrained matches names that announce a build constraint.
	constrained = regexp.MustCompile(`_(linux|darwin|other|on|off|amd64|arm64|race|norace)(_test)?\.go$`)
)

// FileNames finds file names that tell of history instead of content, and build
// constraints in files whose names do not announce them.
func FileNames(files []*File) []Finding {
	var bad []Finding
	for _, f := range files {
		base := path.Base(f.Path)
		if leftover.MatchString(base) {
			bad = append(bad, Finding{f.Path, 1, "file name tells of history: remove what was replaced", Fail})
		}
		if serial.MatchString(base) {
			bad = append(bad, Finding{f.Path, 1, "numbered test file: name it by behaviour", Fail})
		}
		if c := constraint(f); c != nil && !constrained.MatchString(base) {
			bad = append(bad, f.finding(c.Pos(), "build constraint in a logic file: move what differs to _linux.go and _other.go"))
		}
	}
	return bad
}

// constraint returns the file's go:build line.
func constraint(f *File) *ast.Comment {
	for _, group := range f.AST.Comments {
		for _, c := range group.List {
			if c.Pos() < f.AST.Package && strings.HasPrefix(c.Text, "//go:build ") {
				return c
			}
		}
	}
	return nil
}

// PackageComments finds packages without a package comment.
func PackageComments(files []*File) []Finding {
	first := map[string]*File{}
	commented := map[string]bool{}
	var order []string
	for _, f := range files {
		dir := f.Dir()
		if first[dir] == nil {
			order = append(order, dir)
		}
		if first[dir] == nil || first[dir].Test && !f.Test {
			first[dir] = f
		}
		if f.AST.Doc != nil && strings.TrimSpace(f.AST.Doc.Text()) != "" {
			commented[dir] = true
		}
	}
	var bad []Finding
	for _, dir := range order {
		if !commented[dir] {
			f := first[dir]
			bad = append(bad, f.finding(f.AST.Package, "package %s has no package comment", f.AST.Name.Name))
		}
	}
	return bad
}

// ExportedComments finds exported names without a comment. In a group, a comment
// on the group is enough.
func ExportedComments(files []*File) []Finding {
	var bad []Finding
	for _, f := range files {
		if f.Test || f.AST.Name.Name == "main" {
			continue
		}
		for _, decl := range f.AST.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Doc == nil && exportedFunc(d) {
					bad = append(bad, f.finding(d.Pos(), "exported %s has no comment", FuncName(d)))
				}
			case *ast.GenDecl:
				bad = append(bad, undocumentedSpecs(f, d)...)
			}
		}
	}
	return bad
}

// exportedFunc reports whether d is part of the package's interface.
func exportedFunc(d *ast.FuncDecl) bool {
	if !d.Name.IsExported() {
		return false
	}
	if d.Recv == nil {
		return true
	}
	return ast.IsExported(receiver(d.Recv.List[0].Type)) && !slices.Contains(undocumented, d.Name.Name)
}

func undocumentedSpecs(f *File, d *ast.GenDecl) []Finding {
	if d.Tok == token.IMPORT || d.Doc != nil {
		return nil
	}
	var bad []Finding
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && s.Comment == nil {
				bad = append(bad, f.finding(s.Pos(), "exported %s has no comment", s.Name.Name))
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() && s.Doc == nil && s.Comment == nil {
					bad = append(bad, f.finding(name.Pos(), "exported %s has no comment", name.Name))
				}
			}
		}
	}
	return bad
}
