package capture

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/fixture"
	"github.com/mqd-broker/mqd/tuning/topology"
	"github.com/mqd-broker/mqd/tuning/tree"
)

// report is what a check says of some files.
func report(t *testing.T, f tuning.Files) string {
	t.Helper()
	m := topology.Read(f, fixture.DataDir)
	r := tuning.Check(&tuning.Host{Files: f, Machine: m, Profile: tuning.Detect(m)})
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unpack writes entries below a new directory.
func unpack(t *testing.T, entries []Entry) string {
	t.Helper()
	root := t.TempDir()
	for _, e := range entries {
		at := filepath.Join(root, e.Name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		switch {
		case err != nil:
		case e.Dir:
			err = os.MkdirAll(at, 0o755)
		case e.Link != "":
			err = os.Symlink(e.Link, at)
		default:
			err = os.WriteFile(at, e.Text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestACheckOfWhatWasKeptSaysTheSame(t *testing.T) {
	for name, files := range map[string]fixture.Files{"metal": fixture.Metal(), "vm": fixture.VM(), "laptop": fixture.Laptop()} {
		m := fixture.Build(t, files)
		watched := New(m)
		want := report(t, watched)
		if direct := report(t, m); direct != want {
			t.Errorf("%s: the check of files that remember differs:\n%s\n%s", name, want, direct)
		}
		entries := watched.Entries()
		if got := report(t, tree.New(unpack(t, entries))); got != want {
			t.Errorf("%s: a check of %d entries says\n%s\nexpected\n%s", name, len(entries), got, want)
		}
		if len(entries) < 20 {
			t.Errorf("%s: only %d entries", name, len(entries))
		}
	}
}

func TestALongFileIsCut(t *testing.T) {
	m := fixture.Build(t, fixture.Files{"proc/long": string(make([]byte, mostFile+1))})
	f := New(m)
	if b, err := f.Read("proc/long"); err != nil || len(b) != mostFile+1 {
		t.Errorf("read %d bytes, %v", len(b), err)
	}
	if e := f.Entries(); len(e) != 1 || len(e[0].Text) != mostFile {
		t.Errorf("%d entries", len(e))
	}
}
