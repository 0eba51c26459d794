package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/cmd/mqd/settings"
)

var update = flag.Bool("update", false, "rewrite generated documents")

// golden compares got with a file, or rewrites it with -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
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
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, settings.EnvPrefix) {
			t.Setenv(name, "")
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// configure is a configuration of names and texts in turn.
func configure(t *testing.T, pairs ...string) *settings.Config {
	t.Helper()
	l := settings.Layer{}
	for i := 0; i < len(pairs); i += 2 {
		l[pairs[i]] = settings.Entry{Text: pairs[i+1], Where: "flag"}
	}
	c, err := settings.Merge(l)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	clearEnv(t)
	file := filepath.Join(t.TempDir(), "mqd.yaml")
	if err := os.WriteFile(file, []byte("journal: {size: 16MiB}\ncache: {size: 8MiB}\ndata: {dir: /d}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MQD_JOURNAL__SIZE", "32MiB")
	t.Setenv("MQD_CACHE__SIZE", "64MiB")
	args := []string{"config", "print", "--with-source", "--cache-size", "16MiB", "--insecure"}
	lines := []string{
		"  # from: " + file + ":3:13\n  dir: /d\n",
		"  # from: environment variable MQD_JOURNAL__SIZE\n  size: 32MiB\n",
		"  # from: flag --cache-size\n  size: 16MiB\n",
		"  # from: flag --insecure\n  insecure: true\n",
		"  # from: default\n  # spin: 75us\n",
	}
	first, errs, status := execute(append(args, "--config", file)...)
	for _, want := range lines {
		if status != 0 || !strings.Contains(first, want) {
			t.Errorf("status %d, %s\n%s\nlacks %s", status, errs, first, want)
		}
	}
	t.Setenv(configVar, file)
	if second, _, _ := execute(args...); second != first {
		t.Errorf("with %s: %s", configVar, second)
	}
}

// What mqd serve refuses for its settings alone, the verb that prints them refuses in the
// same words.
func TestPrintRefusesWhatServeRefuses(t *testing.T) {
	clearEnv(t)
	file := filepath.Join(t.TempDir(), "mqd.yaml")
	if err := os.WriteFile(file, []byte("kafka: {listen: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"--listen foo", "flag --listen: net.listen is \"foo\", expected host:port, with a port of 0 to 65535"},
		{"--listen 0.0.0.0:1", "not listening on 0.0.0.0:1: other machines could reach it"},
		{"--config " + file, ":1:17: kafka.listen is \"true\", expected host:port"},
		{"--cpus 1023", "shard.cpus: CPU 1023 is not among those that this process may run on"},
		{"--journal-size 256KiB", "expected at most an eighth of the journal, 32768; raise journal.size or lower topic.max_message_bytes"},
		{"--max-message-bytes 16MiB", "flag --max-message-bytes: topic.max_message_bytes is 16MiB, expected 4KiB to 8MiB"},
		{"--max-message-bytes 8MiB --cache-size 4MiB", "expected at least 17825792; raise cache.size or lower topic.max_message_bytes"},
	} {
		args := append(strings.Fields("--data-dir "+filepath.Join(t.TempDir(), "d")), strings.Fields(c.args)...)
		for _, verb := range []string{"config print", "serve"} {
			out, errs, status := execute(append(strings.Fields(verb), args...)...)
			if status != 1 || out != "" || !strings.Contains(errs, c.want) {
				t.Errorf("%s %s: status %d, %q, %s", verb, c.args, status, out, errs)
			}
		}
	}
	if _, errs, status := execute("config", "print", "--journal-size", "256KiB", "--max-message-bytes", "32KiB"); status != 0 {
		t.Errorf("the smallest journal: status %d, %s", status, errs)
	}
}

func TestProblemsOfEveryLayerAreErrorsOfTheVerb(t *testing.T) {
	clearEnv(t)
	file := filepath.Join(t.TempDir(), "mqd.yaml")
	if err := os.WriteFile(file, []byte("net:\n  lisen: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MQD_JOURNAL__SISE", "1MiB")
	for _, verb := range []string{"serve", "config print"} {
		_, errs, status := execute(append(strings.Fields(verb), "--config", file)...)
		want := "mqd: " + file + ":2:3: there is no setting \"net.lisen\"; did you mean \"net.listen\"?\n" +
			"mqd: environment variable MQD_JOURNAL__SISE: there is no setting \"journal.sise\"; did you mean \"journal.size\"?\n"
		if status != 1 || errs != want {
			t.Errorf("%s: status %d\n%s\nwant %s", verb, status, errs, want)
		}
	}
	clearEnv(t)
	_, errs, status := execute("serve", "--shards", "0")
	if status != 1 || errs != "mqd: flag --shards: shard.count is 0, expected auto, or 1 to 64\n" {
		t.Errorf("status %d, %s", status, errs)
	}
}
