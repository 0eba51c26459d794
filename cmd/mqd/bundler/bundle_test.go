package bundler

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mqd-broker/mqd/admin"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/cmd/mqd/tuner"
	"github.com/spf13/cobra"
)

// nowhere is an address that nobody listens on: a connection to port 1 is refused.
const nowhere = "127.0.0.1:1"

// make1 runs the verb and returns what it prints.
func make1(ctx context.Context, in string, args ...string) (string, error) {
	return make1From(ctx, strings.NewReader(in), args...)
}

// make1From is make1 with a standard input that need not end.
func make1From(ctx context.Context, in io.Reader, args ...string) (string, error) {
	cmd := New(Needs{
		Resolve: func(*cobra.Command) (*settings.Config, error) { return settings.Merge() },
		Build:   func() ([]byte, error) { return []byte(`{"version":"v1"}`), nil },
		Host:    tuner.Needs{DataDir: func(flag string) string { return flag }, Version: "v1"},
	})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetIn(in)
	cmd.SetArgs(append([]string{"bundle", "--between", "0s"}, args...))
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

// open reads a bundle: its files by their names, without the directory that they are in.
func open(t *testing.T, name string) (map[string]string, *manifest) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files, in := map[string]string{}, tar.NewReader(zip)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		content, rerr := io.ReadAll(in)
		if err != nil || rerr != nil {
			t.Fatal(err, rerr)
		}
		dir, rest, _ := strings.Cut(h.Name, "/")
		if dir != strings.TrimSuffix(filepath.Base(name), suffix) {
			t.Errorf("%s is not in the bundle's directory", h.Name)
		}
		files[rest] = string(content)
	}
	m := &manifest{}
	if err := json.Unmarshal([]byte(files[manifestName]), m); err != nil {
		t.Fatal(err)
	}
	return files, m
}

// reasons are why files are missing, and what was cut.
func (m *manifest) reasons() map[string]string {
	all := map[string]string{}
	for _, e := range m.Entries {
		if e.Missing != "" {
			all[e.Name] = e.Missing
		}
	}
	return all
}

// directory is a data directory with a message in it.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"lock": "", "topics/orders.1/0/0.log": "a message that nobody else shall read"} {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// fake answers like a broker.
func fake(t *testing.T, answer func(path string, n int64) (int, string)) string {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, body := answer(r.URL.Path, n.Add(1))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // who has gone reads nothing
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestABrokerThatIsDownIsNoReasonForNoBundle(t *testing.T) {
	dir, out := directory(t), filepath.Join(t.TempDir(), "b.tar.gz")
	log := filepath.Join(dir, "..", "log")
	if err := os.WriteFile(log, []byte("it was like this\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := make1(t.Context(), "and this too\n", "--admin", nowhere, "--data-dir", dir, "--out", out, "--log", log, "--log", "-", "--log", "/no/such")
	if lack := (*lackError)(nil); !errors.As(err, &lack) || !strings.Contains(err.Error(), "--admin (broker/1/live.txt: no broker has its") || !strings.Contains(err.Error(), "--log (log-3.txt: open /no/such: no such") {
		t.Fatal(err)
	}
	files, m := open(t, out)
	for name, want := range map[string]string{
		"version.json": "v1", "settings.yaml": "data:", "data.txt": "topics/orders.1/0/0.log", "log-1.txt": "it was like this", "log-2.txt": "and this too",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q:\n%s", name, want, files[name])
		}
	}
	why := m.reasons()
	for _, q := range append(figures, question{name: "../topics.json"}, question{name: "../goroutines.txt"}) {
		name := filepath.Clean("broker/1/" + q.name)
		if !strings.Contains(why[name], "no broker has its admin HTTP at "+nowhere) || files[name] != "" {
			t.Errorf("%s: %q, %q", name, why[name], files[name])
		}
	}
	if !strings.Contains(why["log-3.txt"], "no such file") || m.Form != form || m.Directory != dir || m.Admin != nowhere {
		t.Errorf("manifest: %+v", m)
	}
	more := -2 // those with a name in the text
	for _, reason := range why {
		if strings.Contains(reason, "no broker has its admin HTTP") {
			more++
		}
	}
	if !strings.Contains(text, fmt.Sprintf("not in it: broker/1/live.txt, broker/1/ready.txt, %d more: no broker", more)) || !strings.Contains(text, "log-3.txt: open /no/such") {
		t.Errorf("it says %s", text)
	}
	for name, content := range files {
		if strings.Contains(content, "nobody else shall read") {
			t.Errorf("a message is in %s", name)
		}
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others may read it", info.Mode(), err)
	}
}

func TestARunningBrokerIsAskedTwice(t *testing.T) {
	dir, out := directory(t), filepath.Join(t.TempDir(), "b.tar.gz")
	addr := fake(t, func(path string, n int64) (int, string) {
		switch {
		case path == admin.PathReady:
			return 503, "not ready\nthe log of shard 1 has failed\n"
		case path == admin.PathStatus:
			return 200, fmt.Sprintf(`{"pid":0,"serving":{"directory":%q}}`, dir)
		case path == admin.PathGroups:
			return 503, "4 requests are being answered; try again\nx"
		case strings.HasPrefix(path, admin.PathProfiles):
			return 404, "404 page not found"
		}
		return 200, fmt.Sprintf("%s, answer %d", path, n)
	})
	if _, err := make1(t.Context(), "", "--admin", addr, "--out", out, "--cpu", "1s"); err == nil || !strings.HasSuffix(err.Error(), "asked for: --cpu (broker/cpu.pb.gz: the broker serves no profiles: its setting admin.pprof (--admin-pprof) is false)") {
		t.Fatal(err)
	}
	files, m := open(t, out)
	for _, q := range figures {
		if files["broker/1/"+q.name] == "" || files["broker/2/"+q.name] == "" {
			t.Errorf("%s is missing", q.name)
		}
	}
	if a, b := files["broker/1/metrics.txt"], files["broker/2/metrics.txt"]; a == b || !strings.HasPrefix(b, admin.PathMetrics) {
		t.Errorf("metrics %q and %q", a, b)
	}
	if !strings.Contains(files["broker/1/ready.txt"], "the log of shard 1 has failed") {
		t.Errorf("why it is not ready is missing: %q", files["broker/1/ready.txt"])
	}
	if m.Directory != dir || !strings.Contains(files["data.txt"], "orders.1") {
		t.Errorf("the broker's directory is %s, listed was %s", dir, m.Directory)
	}
	why := m.reasons()
	for name, want := range map[string]string{
		"broker/groups.json": "the broker answers 503 Service Unavailable: 4 requests are being answered; try again",
		"broker/heap.pb.gz":  "admin.pprof", "broker/cpu.pb.gz": "admin.pprof", "broker/goroutines.txt": "admin.pprof",
	} {
		if !strings.Contains(why[name], want) {
			t.Errorf("%s is missing because %q, expected %q", name, why[name], want)
		}
	}
}

func TestABundleIsBounded(t *testing.T) {
	dir, out := directory(t), filepath.Join(t.TempDir(), "b.tar.gz")
	long := strings.Repeat("all work and no play\n", mostFile/20)
	addr := fake(t, func(path string, _ int64) (int, string) { return 200, long })
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte(long+"the end\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := make1(t.Context(), long+"the other end\n", "--admin", addr, "--data-dir", dir, "--out", out, "--log", log, "--log", "-"); status(err) != statusLacks { // there was no room for all
		t.Fatal(err)
	}
	files, m := open(t, out)
	sum, cut, full := 0, 0, 0
	for _, e := range m.Entries {
		sum += e.Bytes
		if e.Cut {
			cut++
		}
		if strings.Contains(e.Missing, errTooLong.Error()) {
			full++
		}
		if e.Bytes > mostFile || len(files[e.Name]) != e.Bytes && !strings.HasPrefix(e.Name, "host/") {
			t.Errorf("%s has %d bytes, the manifest says %d", e.Name, len(files[e.Name]), e.Bytes)
		}
	}
	if sum > mostAll || cut < 10 || cut+full < 15 {
		t.Errorf("%d bytes, %d files cut, %d left out", sum, cut, full)
	}
	if a, b := files["log-1.txt"], files["log-2.txt"]; len(a) > mostLog || len(b) > mostLog || !strings.HasSuffix(a, "the end\n") && m.reasons()["log-1.txt"] == "" ||
		!strings.HasSuffix(b, "the other end\n") && m.reasons()["log-2.txt"] == "" {
		t.Errorf("logs of %d and %d bytes", len(a), len(b))
	}
}

func TestAProfileIsWholeAndTextIsCut(t *testing.T) {
	b := &bundle{}
	if e := b.add("p", "", binary, make([]byte, mostFile+1), nil); e.Missing == "" || e.Bytes != 0 {
		t.Errorf("%+v", e)
	}
	for range mostAll / mostFile {
		if e := b.add("t", "", source, make([]byte, mostFile+1), nil); e.Missing != "" || !e.Cut || e.Bytes != mostFile {
			t.Errorf("%+v", e)
		}
	}
	if e := b.add("t", "", source, make([]byte, 1), nil); !strings.Contains(e.Missing, "room for 0 bytes") {
		t.Errorf("%+v", e)
	}
}

func TestTheEndOfALogIsTaken(t *testing.T) {
	for _, size := range []int{0, 1, mostLog, mostLog + 1, 5*mostLog + 7} {
		all := strings.Repeat("x", size) + "end"
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(all), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{file, "-"} {
			end, err := endOf(t.Context(), name, strings.NewReader(all))
			if want := all[max(0, len(all)-mostLog):]; err != nil || string(end) != want {
				t.Errorf("%s of %d bytes: %d bytes, %v", name, len(all), len(end), err)
			}
		}
	}
}

// stopping is a log that never ends. Whoever reads it is told to stop meanwhile.
type stopping struct {
	stop  context.CancelFunc
	stuck <-chan struct{} // nothing comes before it is closed; nil: there is always more
}

func (r stopping) Read(p []byte) (int, error) {
	r.stop()
	if r.stuck != nil {
		<-r.stuck
	}
	return len(p), nil
}

func TestALogThatNeverEndsDoesNotOutliveTheSignal(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	for name, until := range map[string]<-chan struct{}{"endless": nil, "silent": stuck} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := filepath.Join(t.TempDir(), "b.tar.gz")
		_, err := make1From(ctx, stopping{cancel, until}, "--admin", nowhere, "--data-dir", directory(t), "--log", "-", "--out", out)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", name, err)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: half a bundle was left: %v", name, err)
		}
	}
	// The reading itself ends too, and not only the wait for it.
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := tail(ctx, "-", stopping{stop: cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestNoFileIsLeftOrOverwritten(t *testing.T) {
	out := filepath.Join(t.TempDir(), "b.tar.gz")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := make1(ctx, "", "--admin", nowhere, "--data-dir", directory(t), "--out", out); err == nil {
		t.Error("it ended as if nobody had stopped it")
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a bundle was left: %v", err)
	}
	if err := os.WriteFile(out, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := make1(t.Context(), "", "--admin", nowhere, "--data-dir", directory(t), "--out", out); err == nil || !strings.Contains(err.Error(), "exists; name another file with --out") {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile(out); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
	for _, bad := range []string{"--cpu=-1s", "--cpu=2m", "--cpu=1500ms", "--between=-1s", "--between=1h"} {
		if _, err := make1(t.Context(), "", bad); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestSecretsAreHidden(t *testing.T) {
	const secret = "hunter2hunter2"
	for _, line := range []string{
		"password: " + secret, `password: "` + secret + ` and more"`, "tls.key_password=" + secret, "MQD_ADMIN__TOKEN=" + secret, "--admin-token=" + secret + " --x",
		`{"api_key": "` + secret + `", "x": 1}`, `{"clientSecret":'` + secret + `'}`, "https://user:" + secret + "@host/x", "Authorization: Bearer " + secret,
		"iscsi.password_in=" + secret + ",ro", "sasl.passwd = " + secret, "credentials: " + secret,
		"mqd serve --admin-password " + secret + " --x", `msg="{\"secret\":\"` + secret + `\"}"`, "pwd=" + secret, "Set-Cookie: sid=" + secret + "; Secure",
		"-----BEGIN RSA PRIVATE KEY-----\n" + secret + "\n-----END RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n" + secret + "\n",
		"there is no section \"root:$6$salt$" + secret + ":1\"", "$y$j9T$" + secret,
	} {
		if got := string(Hide([]byte(line))); strings.Contains(got, "hunter2") || !strings.Contains(got, hidden) {
			t.Errorf("%q became %q", line, got)
		}
	}
	for _, line := range []string{"compaction.keys: 32MiB", "mqd_shard_turns_total 5", "level=INFO msg=serving address=127.0.0.1:1", "http://127.0.0.1:9644/metrics", "secret\nnext: line", "--token-file\n--x", "cost $5 and $7"} {
		if got := string(Hide([]byte(line))); got != line {
			t.Errorf("%q became %q", line, got)
		}
	}
	dir, out := directory(t), filepath.Join(t.TempDir(), "b.tar.gz")
	if _, err := make1(t.Context(), "token="+secret+"\n", "--admin", nowhere, "--data-dir", dir, "--out", out, "--log", "-"); status(err) != statusLacks {
		t.Fatal(err)
	}
	files, _ := open(t, out)
	if got := files["log-1.txt"]; got != "token="+hidden+"\n" {
		t.Errorf("the log is %q", got)
	}
}

// TestReasonsHideSecrets takes a file for settings that is none: what is wrong quotes it.
func TestReasonsHideSecrets(t *testing.T) {
	b := &bundle{}
	e := b.add("settings.yaml", "settings", text, nil, errors.New(`f:1: there is no section "password=hunter2hunter2"`))
	if strings.Contains(e.Missing, "hunter2") || !strings.Contains(e.Missing, "no section") {
		t.Errorf("%q", e.Missing)
	}
}

// status is what the program would end with.
func status(err error) int {
	if lack := (*lackError)(nil); errors.As(err, &lack) {
		return lack.ExitStatus()
	}
	if err != nil {
		return 1
	}
	return 0
}

// What nobody has asked for may be missing; what a flag names may not. There is a bundle in
// either case.
func TestWhatAFlagHasAskedForMustBeThere(t *testing.T) {
	t.Setenv(settings.AdminVar, nowhere)
	dir, none := directory(t), filepath.Join(t.TempDir(), "none")
	up := fake(t, func(string, int64) (int, string) { return 200, "{}" })
	for _, c := range []struct {
		args string
		want int
	}{
		{"", 0}, {"--data-dir " + dir, 0}, {"--admin " + up, 0},
		{"--admin junk", 2}, {"--admin " + nowhere, 2}, {"--data-dir " + none, 2}, {"--log " + none, 2}, {"--cpu 1s", 2},
	} {
		out := filepath.Join(t.TempDir(), "b.tar.gz")
		text, err := make1(t.Context(), "", append(strings.Fields(c.args), "--out", out)...)
		if status(err) != c.want || !strings.HasPrefix(text, out) {
			t.Errorf("%s: status %d, want %d: %v\n%s", c.args, status(err), c.want, err, text)
		}
		if _, m := open(t, out); m.Form != form {
			t.Errorf("%s: no bundle", c.args)
		}
	}
}
