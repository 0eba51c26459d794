// Package docs_test holds the documents to the code: references name files and
// functions that exist, links lead somewhere, the example in the README is one
// that compiles.
//
// Syntax of a reference, anywhere in README.md and docs: in backquotes,
// `dir/file.go`, `dir/file.go:Func` or `dir/file.go:Type.Method`, with the path
// from the root of the repository.
package docs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/internal/layers"
)

// document is a Markdown file.
type document struct {
	path string // slash-separated, relative to the root
	text string
}

// problem is something wrong in a document.
type problem struct {
	path string
	line int
	text string
}

func (p problem) String() string { return fmt.Sprintf("%s:%d: %s", p.path, p.line, p.text) }

func TestReferencesNameCodeThatExists(t *testing.T) {
	root := repository(t)
	for _, doc := range documents(t, root) {
		for _, p := range checkReferences(os.DirFS(root), doc) {
			t.Error(p)
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	root := repository(t)
	for _, doc := range documents(t, root) {
		for _, p := range checkLinks(os.DirFS(root), doc) {
			t.Error(p)
		}
	}
}

func TestArchitectureWalksThePathOfABatch(t *testing.T) {
	root := repository(t)
	doc := mustExist(t, root, "docs/ARCHITECTURE.md")
	for _, p := range checkLife(doc) {
		t.Error(p)
	}
	files, err := layers.GoFiles(root, layers.SkipNested)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range checkFileMap(doc, files) {
		t.Error(p)
	}
}

func TestTheReadmesExampleIsTheOneThatCompiles(t *testing.T) {
	root := repository(t)
	readme := mustExist(t, root, "README.md")
	example, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(exampleFile)))
	if err != nil {
		t.Fatalf("README.md has no example that compiles: %v", err)
	}
	for _, p := range checkExample(readme, string(example)) {
		t.Error(p)
	}
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := layers.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// mustExist reads a document that the repository is to have. Until it is written
// the test has nothing to hold to the code.
func mustExist(t *testing.T, root, path string) document {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not written yet", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return document{path, string(data)}
}

// documents are all Markdown files of the repository outside test data.
func documents(t *testing.T, root string) []document {
	t.Helper()
	var docs []document
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() {
			if path != root && (name == "testdata" || name == "bin" || name == "demo-data" || name[0] == '.') {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		docs = append(docs, document{filepath.ToSlash(rel), string(data)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) == 0 {
		t.Fatalf("no document found below %s", root)
	}
	return docs
}

// prose returns the document's lines with fenced code blanked out.
func (d document) prose() []string {
	lines := strings.Split(d.text, "\n")
	fenced := false
	for i, l := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(l), "```")
		if fence || fenced {
			lines[i] = ""
		}
		if fence {
			fenced = !fenced
		}
	}
	return lines
}
