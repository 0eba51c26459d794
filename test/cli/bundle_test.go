package cli

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unbundle unpacks a bundle below a new directory, and returns where its files are.
func unbundle(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir, in := t.TempDir(), tar.NewReader(zip)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, strings.TrimSuffix(filepath.Base(file), ".tar.gz"))
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, filepath.FromSlash(h.Name))
		err = os.MkdirAll(filepath.Dir(at), 0o755)
		switch {
		case err != nil:
		case h.Typeflag == tar.TypeDir:
			err = os.MkdirAll(at, 0o755)
		case h.Typeflag == tar.TypeSymlink:
			err = os.Symlink(h.Linkname, at)
		default:
			content, rerr := io.ReadAll(in)
			err = errors.Join(rerr, os.WriteFile(at, content, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestABundleHasWhatAReportNeeds(t *testing.T) {
	admin, dir := withoutPort(t), t.TempDir()
	out := filepath.Join(t.TempDir(), "b.tar.gz")
	b := serve(t, dir, "--admin-listen", admin, "--admin-pprof", "--trace-record")
	b.must("", "topic", "create", "orders")
	b.must("nobody else shall read this\n", "produce", "orders")
	b.serving() // its line is in the log from here on
	args := []string{"debug", "bundle", "--admin", admin, "--between", "0s", "--log", "-", "--out"}
	if r := run(t, b.log.String(), append(args, out)...); r.status != 0 || r.errs != "" || strings.Contains(r.out, "not in it") {
		t.Fatalf("status %d: %s%s", r.status, r.out, r.errs)
	}
	at := unbundle(t, out)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(at, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	wants(t, read("broker/1/status.json"), dir, `"serving"`)
	wants(t, read("broker/2/metrics.txt"), "mqd_shard_turns_total", `topic="orders"`)
	wants(t, read("broker/settings.yaml"), "flag --admin-pprof", dir)
	wants(t, read("broker/goroutines.txt"), "goroutine 1 ")
	wants(t, read("data.txt"), "journals/journal-0", "checkpoints/")
	wants(t, read("broker/go.trace"), "go 1.", " trace")
	wants(t, read("log-1.txt"), `"msg":"serving"`)
	wants(t, read("version.json"), "v0.0.0-test")
	var m struct {
		Entries []struct{ Name, What string }
	}
	if err := json.Unmarshal([]byte(read("manifest.json")), &m); err != nil || len(m.Entries) < 50 {
		t.Errorf("%d entries, %v", len(m.Entries), err)
	}
	// A check of what the bundle has says what the check on the machine has said, but for
	// what is measured, and what only the running kernel tells.
	for _, e := range m.Entries {
		look, ok := strings.CutPrefix(e.What, "for mqd ")
		if !ok {
			continue
		}
		words := strings.Fields(look)
		words[2] = filepath.Join(at, "host") // --root
		again := run(t, "", append(words, "--all")...)
		if missing := difference(read("check.txt"), again.out); len(missing) > 0 {
			t.Errorf("%s: not said again: %q", look, missing)
		}
		break
	}
	err := filepath.WalkDir(at, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, rerr := os.ReadFile(path)
			if err = rerr; strings.Contains(string(text), "nobody else shall read this") {
				t.Errorf("a message is in %s", path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}

	b.kill()
	if r := run(t, "", append(args, filepath.Join(t.TempDir(), "c.tar.gz"), "--data-dir", dir)...); r.status != 2 {
		t.Errorf("of a broker that is down, which --admin names: status %d: %s", r.status, r.errs)
	} else {
		wants(t, r.out, "not in it: broker/1/live.txt", "no broker has its admin HTTP at "+admin)
	}
}

// difference are the settings of a table of mqd check that are not in another one as
// they are in it. What is measured, or grows with time, is left out.
func difference(table, other string) (missing []string) {
	said := map[string]bool{}
	for line := range strings.Lines(other) {
		said[strings.Join(strings.Fields(line), " ")] = true
	}
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		if len(words) < 5 || words[0] != "ok" && words[0] != "note" && words[0] != "warning" && words[0] != "critical" {
			continue
		}
		if line := strings.Join(words, " "); !said[line] && !slices.Contains([]string{"uring.works", "clock.cost", "time.sync", "cpu.steal", "net.coalesce"}, words[1]) {
			missing = append(missing, line)
		}
	}
	return missing
}
