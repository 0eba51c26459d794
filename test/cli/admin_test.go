package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// withoutPort is an address that nobody listens on, and that nobody who only connects is
// given.
func withoutPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(250), rand.N(250), 1+rand.N(250)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestABrokerIsAskedHowItIs(t *testing.T) {
	addr := withoutPort(t)
	r := run(t, "", "admin", "status", "--admin", addr)
	wants(t, oneLine(t, r), "no broker has its admin HTTP at "+addr, "mqd serve")
	b := serve(t, t.TempDir(), "--admin-listen", addr)
	if r := run(t, "", "admin", "status", "--admin", addr); r.status != 0 || r.errs != "" {
		t.Errorf("status %d: %s%s", r.status, r.out, r.errs)
	} else {
		wants(t, r.out, "serving, ready", b.addr, "works")
	}
	r = run(t, "", "admin", "reopen", "--admin", addr)
	wants(t, oneLine(t, r), "nothing to reopen: every log works")
	b.stop()
	r = run(t, "", "admin", "reopen", "--admin", addr)
	wants(t, oneLine(t, r), "no broker has its admin HTTP at "+addr)
}

func TestATakenAdminPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := filepath.Join(t.TempDir(), "data")
	addr := l.Addr().String()
	wants(t, refused(t, "--data-dir", dir, "--admin-listen", addr), "port in use", addr, "--admin-listen")
	wants(t, refused(t, "--data-dir", dir, "--listen", addr, "--admin-listen", addr), "net.listen and admin.listen are both "+addr)
	wants(t, refused(t, "--data-dir", dir, "--admin-listen", "0.0.0.0:0"), "not listening on 0.0.0.0:0", "--insecure")
	wants(t, refused(t, "--data-dir", dir, "--admin-listen", "nosuch.onion:1"), "the host of nosuch.onion:1 is not known", "--admin-listen")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a broker that has not started has made its directory (%v)", err)
	}
}
