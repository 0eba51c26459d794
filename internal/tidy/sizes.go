package tidy

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The limits, in lines unless named otherwise.
const (
	warnFileLines     = 500
	maxFileLines      = 600
	maxTestFileLines  = 1500
	maxFuncLines      = 70
	maxTableTestLines = 150
	maxPackageLines   = 4000
	maxPackageFiles   = 25
	maxNesting        = 5
	// A composite literal of this many lines makes a test table-driven.
	tableLines = 10
)

// LongFunctions are the functions that were longer than the limit when they
// came, as "dir/file.go:Func" or "dir/file.go:Type.Method", with their length.
var LongFunctions = map[string]int{}

// numbered matches files of one protocol operation each, "07_describe.go". A
// package may have any number of them.
var numbered = regexp.MustCompile(`^[0-9]+_`)

// FileSizes holds files to their limits.
func FileSizes(files []*File) []Finding {
	var bad []Finding
	for _, f := range files {
		n := f.Lines()
		switch {
		case f.Test && n > maxTestFileLines:
			bad = append(bad, Finding{f.Path, n, fmt.Sprintf("test file of %d lines, the limit is %d", n, maxTestFileLines), Fail})
		case f.Test:
		case n > maxFileLines:
			bad = append(bad, Finding{f.Path, n, fmt.Sprintf("file of %d lines, the limit is %d", n, maxFileLines), Fail})
		case n > warnFileLines:
			bad = append(bad, Finding{f.Path, n, fmt.Sprintf("file of %d lines, aim at less than %d", n, warnFileLines), Warn})
		}
	}
	return bad
}

// PackageSizes holds packages to their limits of lines and files, tests apart.
func PackageSizes(files []*File) []Finding {
	lines, count := map[string]int{}, map[string]int{}
	for _, f := range files {
		if f.Test {
			continue
		}
		lines[f.Dir()] += f.Lines()
		if !numbered.MatchString(path.Base(f.Path)) {
			count[f.Dir()]++
		}
	}
	var bad []Finding
	for dir, n := range lines {
		if n > maxPackageLines {
			bad = append(bad, Finding{dir, 1, fmt.Sprintf("package of %d lines, the limit is %d", n, maxPackageLines), Fail})
		}
		if count[dir] > maxPackageFiles {
			bad = append(bad, Finding{dir, 1, fmt.Sprintf("package of %d files, the limit is %d", count[dir], maxPackageFiles), Fail})
		}
	}
	slices.SortFunc(bad, func(a, b Finding) int { return strings.Compare(a.String(), b.String()) })
	return bad
}

// FunctionSizes holds functions, methods and function literals outside them to
// the limit; see [LongFunctions].
func FunctionSizes(files []*File) []Finding { return functionSizes(files, LongFunctions) }

func functionSizes(files []*File, known map[string]int) []Finding {
	var bad []Finding
	for _, f := range files {
		for _, decl := range f.AST.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				bad = append(bad, literalSizes(f, decl)...)
				continue
			}
			limit := maxFuncLines
			if f.Test && tableDriven(f, fn) {
				limit = maxTableTestLines
			}
			key := f.Path + ":" + FuncName(fn)
			limit = max(limit, known[key])
			if n := f.span(fn); n > limit {
				bad = append(bad, f.finding(fn.Pos(), "%s has %d lines, the limit is %d", FuncName(fn), n, limit))
			}
		}
	}
	return bad
}

func literalSizes(f *File, decl ast.Decl) []Finding {
	var bad []Finding
	ast.Inspect(decl, func(n ast.Node) bool {
		lit, ok := n.(*ast.FuncLit)
		if !ok {
			return true
		}
		if lines := f.span(lit); lines > maxFuncLines {
			bad = append(bad, f.finding(lit.Pos(), "function literal of %d lines, the limit is %d", lines, maxFuncLines))
		}
		return false
	})
	return bad
}

// tableDriven reports whether fn holds a table of cases.
func tableDriven(f *File, fn *ast.FuncDecl) bool {
	found := false
	ast.Inspect(fn, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		switch lit.Type.(type) {
		case *ast.ArrayType, *ast.MapType:
			found = found || f.span(lit) >= tableLines
		}
		return true
	})
	return found
}

// Nesting holds the depth of control statements in a function to the limit. An
// "else if" is as deep as its "if"; a function literal goes on counting.
func Nesting(files []*File) []Finding {
	var bad []Finding
	for _, f := range files {
		for _, decl := range f.AST.Decls {
			v := &nestVisitor{file: f}
			ast.Walk(nestAt{v, 0}, decl)
			bad = append(bad, v.bad...)
		}
	}
	return bad
}

type nestVisitor struct {
	file *File
	bad  []Finding
}

// nestAt visits at one depth.
type nestAt struct {
	v     *nestVisitor
	depth int
}

// Visit implements ast.Visitor.
func (a nestAt) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.IfStmt:
		a.visitIf(n)
		return nil
	case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
		return a.deeper(n)
	}
	return a
}

func (a nestAt) deeper(n ast.Node) nestAt {
	a.depth++
	if a.depth == maxNesting+1 {
		a.v.bad = append(a.v.bad, a.v.file.finding(n.Pos(), "nested %d deep, the limit is %d", a.depth, maxNesting))
	}
	return a
}

func (a nestAt) visitIf(n *ast.IfStmt) {
	in := a.deeper(n)
	for {
		for _, part := range []ast.Node{n.Init, n.Cond, n.Body} {
			if part != nil {
				ast.Walk(in, part)
			}
		}
		next, ok := n.Else.(*ast.IfStmt)
		if !ok {
			break
		}
		n = next
	}
	if n.Else != nil {
		ast.Walk(in, n.Else)
	}
}
