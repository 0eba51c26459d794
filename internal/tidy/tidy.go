// Package tidy holds the rules of style that a machine can check: sizes,
// banned calls, names, comments. An ordinary test runs them over the whole
// repository; docs/STYLE.md explains them.
//
// The limits are ratchets. What exceeded one when it came is listed as data
// with its size, may shrink, and may not grow; nothing new joins the list
// without a reason in its commit.
package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/mqd-broker/mqd/internal/layers"
)

// File is one parsed Go file.
type File struct {
	Path string // slash-separated, relative to the root of the repository
	Test bool   // its name ends in _test.go
	Src  []byte
	AST  *ast.File

	fset    *token.FileSet
	imports map[string]string // name in the file -> import path
}

// Severity says what the test does with a finding.
type Severity uint8

const (
	// Fail makes the test fail.
	Fail Severity = iota
	// Warn is logged only.
	Warn
)

// Finding is one broken rule at one place.
type Finding struct {
	File     string
	Line     int
	Text     string
	Severity Severity
}

// String puts a finding in the form that editors can follow.
func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text) }

// Check is one rule, run over all files at once.
type Check func(files []*File) []Finding

// Checks are the rules for Go files, by name.
var Checks = map[string]Check{
	"file sizes":        FileSizes,
	"function sizes":    FunctionSizes,
	"package sizes":     PackageSizes,
	"nesting":           Nesting,
	"banned names":      BannedNames,
	"banned forms":      BannedForms,
	"panics":            Panics,
	"goroutines":        Goroutines,
	"channels":          Channels,
	"skips":             Skips,
	"sleeping tests":    SleepingTests,
	"tests' programs":   TestPrograms,
	"package names":     PackageNames,
	"file names":        FileNames,
	"package comments":  PackageComments,
	"exported comments": ExportedComments,
	"open ends":         OpenEnds,
}

// Load parses every Go file below root, nested modules included.
func Load(root string) ([]*File, error) {
	names, err := layers.GoFiles(root, layers.WithNested)
	if err != nil {
		return nil, err
	}
	files := make([]*File, 0, len(names))
	for _, name := range names {
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		f, err := Parse(name, src)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// Parse reads one Go file with its comments.
func Parse(name string, src []byte) (*File, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	f := &File{
		Path: name, Test: strings.HasSuffix(name, "_test.go"),
		Src: src, AST: tree, fset: fset, imports: map[string]string{},
	}
	for _, spec := range tree.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("imports of %s: %s: %w", name, spec.Path.Value, err)
		}
		f.imports[localName(spec, target)] = target
	}
	return f, nil
}

// majorVersion matches the last element of an import path that is no name.
var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// localName is the name by which a file speaks of an imported package: the
// declared one, else the last element of the path that is not a version.
func localName(spec *ast.ImportSpec, target string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	if base := path.Base(target); !majorVersion.MatchString(base) {
		return base
	}
	return path.Base(path.Dir(target))
}

// Dir is the file's directory relative to the root; "." is the root.
func (f *File) Dir() string { return path.Dir(f.Path) }

// Lines is the number of lines.
func (f *File) Lines() int { return strings.Count(string(f.Src), "\n") }

// finding makes a failing Finding at a position of f.
func (f *File) finding(pos token.Pos, format string, args ...any) Finding {
	return Finding{File: f.Path, Line: f.line(pos), Text: fmt.Sprintf(format, args...)}
}

func (f *File) line(pos token.Pos) int { return f.fset.Position(pos).Line }

// span is the number of lines that n covers.
func (f *File) span(n ast.Node) int { return f.line(n.End()) - f.line(n.Pos()) + 1 }

// selected resolves pkg.Name to the import path and the name; ok is false for
// selections of anything but a package.
func (f *File) selected(n ast.Node) (target, name string, ok bool) {
	sel, isSel := n.(*ast.SelectorExpr)
	if !isSel {
		return "", "", false
	}
	id, isID := sel.X.(*ast.Ident)
	if !isID {
		return "", "", false
	}
	target, ok = f.imports[id.Name]
	return target, sel.Sel.Name, ok
}

// FuncName names a function or method as "Func" or "Type.Method".
func FuncName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	return receiver(d.Recv.List[0].Type) + "." + d.Name.Name
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.ParenExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}
