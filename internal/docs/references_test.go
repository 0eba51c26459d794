package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/mqd-broker/mqd/internal/tidy"
)

// reference matches a backquoted file, with or without a function.
var reference = regexp.MustCompile("`([A-Za-z0-9_./-]+\\.go)(?::([A-Za-z0-9_.]+))?`")

// minSteps is the least number of steps that tell a batch's life whole, from
// the receive to the acknowledgement.
const minSteps = 6

// checkReferences finds references to files and functions that do not exist. A
// bare file name without a function ("format.go") speaks of no certain file.
func checkReferences(repo fs.FS, doc document) []problem {
	var bad []problem
	for i, line := range doc.prose() {
		for _, m := range reference.FindAllStringSubmatch(line, -1) {
			file, fn := m[1], m[2]
			if fn == "" && !strings.Contains(file, "/") {
				continue
			}
			if err := resolve(repo, file, fn); err != nil {
				bad = append(bad, problem{doc.path, i + 1, err.Error()})
			}
		}
	}
	return bad
}

func resolve(repo fs.FS, file, fn string) error {
	src, err := fs.ReadFile(repo, path.Clean(file))
	if err != nil {
		return fmt.Errorf("%s does not exist", file)
	}
	if fn == "" {
		return nil
	}
	tree, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range tree.Decls {
		if d, ok := decl.(*ast.FuncDecl); ok && tidy.FuncName(d) == fn {
			return nil
		}
	}
	return fmt.Errorf("%s has no function %s", file, fn)
}

var (
	heading = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	step    = regexp.MustCompile(`^([0-9]+)\.\s`)
)

// checkLife wants a section "Life of a batch" of numbered steps, each of which
// names a function.
func checkLife(doc document) []problem {
	section, at := life(doc)
	if at == 0 {
		return []problem{{doc.path, 1, `no section "Life of a batch"`}}
	}
	var bad []problem
	steps := 0
	named := true
	stepLine := 0
	closeStep := func() {
		if steps > 0 && !named {
			bad = append(bad, problem{doc.path, stepLine, fmt.Sprintf("step %d names no `dir/file.go:Function`", steps)})
		}
	}
	for i, line := range section {
		if m := step.FindStringSubmatch(line); m != nil {
			closeStep()
			steps++
			named, stepLine = false, at+i
			if m[1] != fmt.Sprint(steps) {
				bad = append(bad, problem{doc.path, stepLine, fmt.Sprintf("step %s should be step %d", m[1], steps)})
			}
		}
		for _, m := range reference.FindAllStringSubmatch(line, -1) {
			named = named || m[2] != ""
		}
	}
	closeStep()
	if steps < minSteps {
		bad = append(bad, problem{doc.path, at, fmt.Sprintf("the life of a batch has %d numbered steps, want at least %d", steps, minSteps)})
	}
	return bad
}

// life returns the lines of the section and the line number of the first; 0
// when there is no such section.
func life(doc document) (section []string, at int) {
	lines := doc.prose()
	for i, line := range lines {
		m := heading.FindStringSubmatch(line)
		switch {
		case m == nil:
		case at > 0:
			return lines[at-1 : i], at
		case strings.Contains(strings.ToLower(m[1]), "life of a batch"):
			at = i + 2
		}
	}
	if at == 0 || at > len(lines) {
		return nil, at
	}
	return lines[at-1:], at
}

// checkFileMap wants every package outside internal and test to be named, in
// backquotes, somewhere in the architecture document.
func checkFileMap(doc document, files []string) []problem {
	var bad []problem
	var seen []string
	for _, f := range files {
		dir := path.Dir(f)
		top, _, _ := strings.Cut(dir, "/")
		if slices.Contains(seen, dir) || top == "internal" || top == "test" {
			continue
		}
		seen = append(seen, dir)
		if !strings.Contains(doc.text, "`"+dir+"`") {
			bad = append(bad, problem{doc.path, 1, fmt.Sprintf("package `%s` is not on the map", dir)})
		}
	}
	return bad
}
