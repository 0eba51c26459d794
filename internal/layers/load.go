package layers

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrNoRoot is the answer of [Root] outside the repository.
var ErrNoRoot = errors.New("no go.mod of module " + Module + " in this directory or above")

// Root is the directory of the root module: the nearest one at or above the
// working directory whose go.mod names it.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module "+Module+"\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", ErrNoRoot
		}
		dir = parent
	}
}

// Nested says what [GoFiles] does with modules inside the module.
type Nested bool

const (
	// SkipNested leaves nested modules out: they have rules of their own.
	SkipNested Nested = false
	// WithNested walks into nested modules.
	WithNested Nested = true
)

// GoFiles lists the Go files below root, slash-separated and relative to it.
// Like the go command it passes over testdata, vendor and directories whose
// name starts with a dot or an underscore.
func GoFiles(root string, nested Nested) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(path, rel, nested)
		}
		if strings.HasSuffix(rel, ".go") {
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	return files, err
}

func enter(path, rel string, nested Nested) error {
	if rel == "." {
		return nil
	}
	name := filepath.Base(path)
	if name == "testdata" || name == "vendor" || name[0] == '.' || name[0] == '_' {
		return filepath.SkipDir
	}
	if nested == SkipNested {
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
			return filepath.SkipDir
		}
	}
	return nil
}

// Load parses the import declarations of every Go file of the module at root.
func Load(root string) ([]File, error) {
	names, err := GoFiles(root, SkipNested)
	if err != nil {
		return nil, err
	}
	files := make([]File, 0, len(names))
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

// Parse reads the import declarations of one Go file.
func Parse(name string, src []byte) (File, error) {
	fset := token.NewFileSet()
	ast, err := parser.ParseFile(fset, name, src, parser.ImportsOnly)
	if err != nil {
		return File{}, fmt.Errorf("imports of %s: %w", name, err)
	}
	f := File{Path: name, Test: strings.HasSuffix(name, "_test.go")}
	for _, spec := range ast.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return File{}, fmt.Errorf("imports of %s: %s: %w", name, spec.Path.Value, err)
		}
		f.Imports = append(f.Imports, Import{Path: path, Line: fset.Position(spec.Pos()).Line})
	}
	return f, nil
}

// Requires lists the modules that the text of a go.mod requires directly.
func Requires(gomod []byte) []string {
	var direct []string
	block := false
	for line := range strings.Lines(string(gomod)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "require (":
			block = true
			continue
		case line == ")":
			block = false
		}
		rest, single := strings.CutPrefix(line, "require ")
		if !block && !single || strings.Contains(line, "// indirect") {
			continue
		}
		if fields := strings.Fields(rest); len(fields) >= 2 {
			direct = append(direct, fields[0])
		}
	}
	return direct
}
