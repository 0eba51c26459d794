package adminclient

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/admin"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/spf13/cobra"
)

// run runs a verb and returns what it prints.
func run(t *testing.T, form string, args ...string) (string, error) {
	t.Helper()
	cmd := New(func(*cobra.Command, ...string) func() string { return func() string { return form } })
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// serve is a broker that gives one answer to everything.
func serve(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// mustSay expects an error of one line with some words in it.
func mustSay(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Fatalf("error %v, expected one line", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in %q", w, err)
		}
	}
}

func TestStatusIsShownInWords(t *testing.T) {
	st := admin.Status{
		Version: "v1", State: "serving", UptimeSeconds: 90, PID: 4711, WakeLimitMicros: new(int64(10)), Reasons: []string{"the log of shard 1 has failed"}, Warnings: []string{"the disk is full"},
		Serving: &admin.Serving{Address: "127.0.0.1:7878", Driver: "sim", Topics: 3, Partitions: 12, Shards: []admin.LogState{
			{Shard: 0, Answered: true, JournalUsed: 1 << 20, JournalBytes: 4 << 20, CacheBytes: 8 << 20},
			{Shard: 1, Answered: true, LogFailed: true}, {Shard: 2}, {Shard: 3, Answered: true, DiskFull: true},
		}},
	}
	var out bytes.Buffer
	if err := write(&out, &st); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"mqd v1: serving, NOT READY\n", "not ready: the log of shard 1 has failed\n", "warning: the disk is full\n", "up           1m30s", "process      4711\n",
		"3 with 12 partitions, the broker's own among them\n", "0      works      25% of 4.00 MiB  0% of 8.00 MiB\n", "1      FAILED     -                -\n",
		"2      no answer ", "3      disk full ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	out.Reset()
	if err := write(&out, &admin.Status{Version: "v1", State: "down", Reasons: []string{"down: x"}}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "mqd v1: down, NOT READY\n  not ready: down: x\n" {
		t.Errorf("without a node:\n%s", &out)
	}
}

func TestTheExitStatusSaysWhetherABrokerIsReady(t *testing.T) {
	ready := serve(t, 200, `{"state":"serving","ready":true}`)
	if out, err := run(t, formatText, "status", "--admin", ready); err != nil || out != "mqd : serving, ready\n" {
		t.Errorf("%q, %v", out, err)
	}
	not := serve(t, 200, `{"state":"down","reasons":["x"]}`)
	out, err := run(t, formatJSON, "status", "--admin", not)
	mustSay(t, err, "not ready")
	if e, ok := err.(interface{ ExitStatus() int }); !ok || e.ExitStatus() != NotReady {
		t.Errorf("the exit status of %v is not %d", err, NotReady)
	}
	if !strings.Contains(out, `"state": "down"`) {
		t.Errorf("JSON: %s", out)
	}
}

func TestAnOrderIsAnsweredInWords(t *testing.T) {
	out, err := run(t, formatText, "reopen", "--admin", serve(t, 200, "reopened\n"))
	if err != nil || !strings.HasPrefix(out, "reopened") {
		t.Errorf("%q, %v", out, err)
	}
	for _, status := range []int{403, 409, 500} {
		out, err = run(t, formatText, "reopen", "--admin", serve(t, status, "because\n"))
		if err == nil || err.Error() != "because" || out != "" {
			t.Errorf("%d: %q, %v", status, out, err)
		}
	}
}

func TestMistakesAreOneLineWithAWayOut(t *testing.T) {
	const gone = "127.0.0.1:1" // no port that somebody is given
	_, err := run(t, formatText, "status", "--admin", gone)
	mustSay(t, err, "no broker has its admin HTTP at "+gone, "mqd serve", "--admin-listen")
	_, err = run(t, formatText, "status", "--admin", "nosuch.onion:1")
	mustSay(t, err, "the host of nosuch.onion:1 is not known")
	for _, bad := range []string{"localhost", "localhost:0", "localhost:x", ""} {
		_, err = run(t, formatText, "status", "--admin="+bad)
		mustSay(t, err, "--admin is", "a port of 1 to 65535")
	}
	_, err = run(t, formatText, "status", "--admin", serve(t, 404, "nothing"))
	mustSay(t, err, "no admin HTTP of mqd", "404")
	_, err = run(t, formatText, "status", "--admin", serve(t, 200, "{}"))
	mustSay(t, err, "no admin HTTP of mqd")
	_, err = run(t, formatText, "status", "--timeout", "0s")
	mustSay(t, err, "--timeout is 0s")
	t.Setenv(settings.AdminVar, gone)
	_, err = run(t, formatText, "status")
	mustSay(t, err, gone)
	t.Setenv("MQD_ADMNI", gone)
	_, err = run(t, formatText, "status")
	mustSay(t, err, "MQD_ADMNI means nothing", settings.AdminVar)
}

func TestWhatIsNoBrokerIsSaid(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	silent := make(chan struct{})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case <-silent:
				// What is closed with a request unread is reset.
				_, _ = c.Read(make([]byte, 4096))
				_ = c.Close()
			default:
				defer c.Close()
			}
		}
	}()
	_, err = run(t, formatText, "status", "--admin", l.Addr().String(), "--timeout", (10 * time.Millisecond).String())
	mustSay(t, err, "did not answer within 10ms")
	close(silent)
	_, err = run(t, formatText, "status", "--admin", l.Addr().String())
	mustSay(t, err, "does not speak HTTP", "--admin-listen")
	if strings.Contains(err.Error(), "EOF") {
		t.Errorf("a person reads %v", err)
	}
}
