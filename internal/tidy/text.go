package tidy

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The words are put together here so that this file does not contain them.
var (
	openEnd   = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b(\(#[0-9]+\))?`)
	goodOpen  = regexp.MustCompile(`^TO` + `DO\(#[0-9]+\)$`)
	ownPath   = regexp.MustCompile(`(^|[^A-Za-z0-9_.~)-])/(wo` + `rk|ro` + `ot)/`)
	skipDirs  = []string{".git", "bin", "demo-data"}
	skipFiles = []string{".prof", ".test", ".out"}
)

// maxText is the size, in bytes, up to which files are searched.
const maxText = 4 << 20

// Text is a file of any kind.
type Text struct {
	Path string
	Data []byte
}

// OpenEnds finds notes of unfinished work in comments of Go files. One that
// names its issue, as in "(#12)", is allowed.
func OpenEnds(files []*File) []Finding {
	var bad []Finding
	for _, f := range files {
		for _, group := range f.AST.Comments {
			for _, c := range group.List {
				bad = append(bad, openEnds(f.Path, f.line(c.Pos()), c.Text)...)
			}
		}
	}
	return bad
}

// OpenEndsInText is [OpenEnds] for everything that is not Go: documents,
// scripts, configuration. Test data is left alone.
func OpenEndsInText(texts []Text) []Finding {
	var bad []Finding
	for _, t := range texts {
		if strings.HasSuffix(t.Path, ".go") || slices.Contains(strings.Split(t.Path, "/"), "testdata") {
			continue
		}
		bad = append(bad, openEnds(t.Path, 1, string(t.Data))...)
	}
	return bad
}

func openEnds(path string, line int, text string) []Finding {
	var bad []Finding
	for l := range strings.Lines(text) {
		for _, word := range openEnd.FindAllString(l, -1) {
			if !goodOpen.MatchString(word) {
				bad = append(bad, Finding{path, line, "unfinished work must name its issue: " + strings.TrimSpace(l), Fail})
			}
		}
		line++
	}
	return bad
}

// OwnPaths finds paths of somebody's own machine.
func OwnPaths(texts []Text) []Finding {
	var bad []Finding
	for _, t := range texts {
		line := 1
		for l := range bytes.Lines(t.Data) {
			if ownPath.Match(bytes.TrimRight(l, "\r\n")) {
				bad = append(bad, Finding{t.Path, line, "path of one machine: " + strings.TrimSpace(string(l)), Fail})
			}
			line++
		}
	}
	return bad
}

// Texts reads the text files below root: those without a zero byte at their
// start, without what builds and tools leave behind.
func Texts(root string) ([]Text, error) {
	var texts []Text
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(skipDirs, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || slices.Contains(skipFiles, filepath.Ext(path)) {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		data, err := readText(path)
		if err != nil || data == nil {
			return err
		}
		texts = append(texts, Text{filepath.ToSlash(rel), data})
		return nil
	})
	return texts, err
}

// readText returns nil for what is too large or not text.
func readText(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxText {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil || bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
		return nil, err
	}
	return data, nil
}
