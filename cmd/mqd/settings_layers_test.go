package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files and generated documents")

// golden compares got with a file, or rewrites it with -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (rewrite it with -update and review the change); now:\n%s", path, got)
	}
}

// execute runs a command line without a broker.
func execute(args ...string) (out, errs string, status int) {
	var o, e bytes.Buffer
	status = run(context.Background(), args, strings.NewReader(""), &o, &e)
	return o.String(), e.String(), status
}

// clearEnv leaves no setting in the environment.
func clearEnv(t *testing.T) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, envPrefix) {
			t.Setenv(name, "")
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestFlagsWinOverEnvironmentOverFileOverDefaults(t *testing.T) {
	clearEnv(t)
	t.Setenv("MQD_JOURNAL__SIZE", "32MiB")
	t.Setenv("MQD_CACHE__SIZE", "64MiB")
	t.Setenv("MQD_NET__INSECURE", "true")
	t.Setenv("MQD_PORT_7878_TCP", "what container platforms set")
	out, errs, status := execute("config", "print", "--with-source",
		"--config", "testdata/config/all_layers.yaml", "--cache-size", "16MiB", "--insecure=false")
	if status != 0 {
		t.Fatal(errs)
	}
	golden(t, "testdata/golden/layers.yaml", []byte(out))
}

func TestThePrintedConfigurationIsOneThatReadsBackTheSame(t *testing.T) {
	clearEnv(t)
	args := []string{"config", "print", "--data-dir", "a dir: #1", "--cpus", "0-3,6", "--listen", "[::1]:0", "--insecure", "--spin", "10us", "--shards", "3"}
	first, errs, status := execute(args...)
	if status != 0 {
		t.Fatal(errs)
	}
	path := filepath.Join(t.TempDir(), "mqd.yaml")
	if err := os.WriteFile(path, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	second, errs, status := execute("config", "print", "--config", path)
	if status != 0 || first != second {
		t.Errorf("status %d, %s\nprinted %s\nand then %s", status, errs, first, second)
	}
	t.Setenv(configVar, path)
	if third, _, _ := execute("config", "print"); third != first {
		t.Errorf("with %s: %s", configVar, third)
	}
}

// Each file of testdata/config that begins with bad_ is refused in the words of the
// golden file.
func TestProblemsOfTheFileAreNamedWithTheirLines(t *testing.T) {
	clearEnv(t)
	paths, err := filepath.Glob("testdata/config/bad_*.yaml")
	if err != nil || len(paths) < 5 {
		t.Fatal(paths, err)
	}
	var all bytes.Buffer
	for _, path := range paths {
		_, errs, status := execute("config", "print", "--config", path)
		if status != 1 {
			t.Errorf("%s was accepted", path)
		}
		fmt.Fprintf(&all, "%s", errs)
	}
	golden(t, "testdata/golden/config_errors.txt", all.Bytes())
}

func TestAFileWithoutSettingsIsAllDefaults(t *testing.T) {
	for _, text := range []string{"", "\n\n", "# nothing\n", "---\n", "journal:\n", "journal:\n  # size: 1MiB\nnet:\n"} {
		l, err := parseFile("f", strings.NewReader(text))
		if err != nil || len(l) != 0 {
			t.Errorf("%q: %v, %v", text, l, err)
		}
	}
}

func TestAMissingFileIsAnError(t *testing.T) {
	clearEnv(t)
	_, err := fileLayer(filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

func TestUnknownEnvironmentVariablesOfSettingsAreErrors(t *testing.T) {
	_, err := envLayer([]string{"MQD_JOURNL__SIZE=1MiB", "MQD_SERVER=a:1", "MQD_X__Y=1", "HOME=/"})
	want := "environment variable MQD_JOURNL__SIZE: there is no setting \"journl.size\"; did you mean \"journal.size\"?\n" +
		"environment variable MQD_X__Y: there is no setting \"x.y\"; \"mqd config print\" lists all"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

func TestDistanceCountsSingleChanges(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "", 3}, {"", "ab", 2}, {"abc", "axc", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// FuzzConfigurationFile looks for files that are read to the end of the program.
func FuzzConfigurationFile(f *testing.F) {
	paths, err := filepath.Glob("testdata/config/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("a: &a {b: *a}")
	f.Add("? [x]\n: y\n")
	f.Add("<<: {journal: {size: 1}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseFile("f", strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("%q: %v names no place", text, err)
			}
			return
		}
		if _, err := merge(l); err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%q: %v names no place", text, err)
		}
	})
}
