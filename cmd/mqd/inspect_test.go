package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestALinkThatLeadsNowhereDoesNotEndADirectory(t *testing.T) {
	dir := t.TempDir()
	node, err := os.ReadFile("../../engine/checkpoint/testdata/golden/node-1.bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/node", "c/node"} {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, node, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"b", "a/gone"} {
		if err := os.Symlink("nowhere", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	strange := t.TempDir()
	if err := os.WriteFile(filepath.Join(strange, "README.md"), []byte("# text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, status := execute("inspect", strange); status != 1 || errs != "mqd: no file of a data directory in "+strange+"\n" {
		t.Errorf("a directory of strangers: status %d, %s", status, errs)
	}
	var out bytes.Buffer
	err = inspectPath(&out, dir, false)
	if text := out.String(); strings.Count(text, "form node file") != 2 || !strings.Contains(text, filepath.Join(dir, "c/node")) {
		t.Errorf("shown:\n%s", text)
	}
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), filepath.Join(dir, "a/gone")) || !strings.Contains(err.Error(), filepath.Join(dir, "b")) {
		t.Errorf("error %v", err)
	}
}
