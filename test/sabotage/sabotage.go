// Package sabotage breaks the broker on purpose, to show that the rigs notice: a rig
// that has never objected to anything proves nothing. The changes are made while
// something is built; the files themselves stay as they are.
package sabotage

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Change is a change of a source file.
type Change struct {
	// File is its path in the module.
	File string
	// Old is there once and becomes New.
	Old, New string
}

// Overlay writes the changed files into a directory of the test and returns what the
// flag -overlay of go build and go test takes. A change that does not fit any more
// fails the test: it has to follow the code.
func Overlay(t testing.TB, changes ...Change) string {
	t.Helper()
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	texts, replace := map[string]string{}, map[string]string{}
	for _, c := range changes {
		path := filepath.Join(strings.TrimSpace(string(root)), c.File)
		text, ok := texts[path]
		if !ok {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if n := strings.Count(text, c.Old); n != 1 {
			t.Fatalf("%s has %d times what is to be changed, expected once: the sabotage has to follow the code:\n%s", c.File, n, c.Old)
		}
		texts[path] = strings.Replace(text, c.Old, c.New, 1)
	}
	for path, text := range texts {
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay := filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(overlay, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return overlay
}
