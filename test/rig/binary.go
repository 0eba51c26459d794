package rig

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// module is the one that has the binary.
const module = "github.com/mqd-broker/mqd"

// BinaryVar names a binary of mqd to test instead of one that is built.
const BinaryVar = "MQD_BIN"

// built is the binary of this process's tests.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Main runs a package's tests and removes what Binary has built. It is for
// TestMain, which passes the result to os.Exit.
func Main(m *testing.M) int {
	defer func() {
		if built.dir != "" {
			_ = os.RemoveAll(built.dir)
		}
	}()
	return m.Run()
}

// Binary is the path of mqd, built once from this tree the way the test itself
// was built: with the race detector and the checks of the tag "invariants" if it
// has them. A package that uses it has a TestMain with [Main].
func Binary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.path = os.Getenv(BinaryVar); built.path != "" {
			// The program refuses variables of its own that mean nothing to it.
			_ = os.Unsetenv(BinaryVar) // a name that can be set can be unset
			built.path, built.err = filepath.Abs(built.path)
			return
		}
		built.path, built.err = build()
	})
	if built.err != nil {
		t.Fatalf("mqd cannot be built: %v", built.err)
	}
	return built.path
}

func build() (string, error) {
	var err error
	if built.dir, err = os.MkdirTemp("", "mqd-binary-"); err != nil {
		return "", err
	}
	path := filepath.Join(built.dir, "mqd")
	args := []string{"build", "-ldflags=-checklinkname=0", "-o", path}
	cgo := "0"
	if RaceEnabled() {
		args, cgo = append(args, "-race"), "1"
	}
	if invariant.Enabled {
		args = append(args, "-tags", "invariants")
	}
	// Tests in a module of their own know nothing of what the binary needs.
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("the module's directory: %w", err)
	}
	cmd := exec.Command("go", append(args, module+"/cmd/mqd")...)
	cmd.Dir = strings.TrimSpace(string(root))
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return path, nil
}

// RaceEnabled reports whether the test runs under the race detector.
func RaceEnabled() bool {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// NeedDriver skips the test, with the reason, where the binary finds no way to do
// I/O.
func NeedDriver(t testing.TB) {
	t.Helper()
	out, err := exec.Command(Binary(t), "version", "-o", "json").Output()
	if err != nil {
		t.Fatalf("mqd version: %v", err)
	}
	var v struct {
		Drivers []struct{ Name, State string }
	}
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("mqd version: %v in %s", err, out)
	}
	var reasons []string
	for _, d := range v.Drivers {
		if strings.HasPrefix(d.State, "available") {
			return
		}
		reasons = append(reasons, d.Name+": "+d.State)
	}
	t.Skipf("mqd has no I/O driver for this machine: %s", strings.Join(reasons, "; "))
}
