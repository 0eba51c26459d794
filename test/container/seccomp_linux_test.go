package container

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/mqd-broker/mqd/cmd/mqd/generator"
	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
	"golang.org/x/sys/unix"
)

// Variables with which this test's program starts another one under a profile.
const (
	programVar = "CONTAINER_PROGRAM"
	callsVar   = "CONTAINER_CALLS"
)

func TestMain(m *testing.M) {
	if program := os.Getenv(programVar); program != "" {
		err := become(program, strings.Split(os.Getenv(callsVar), ","))
		fmt.Fprintln(os.Stderr, "not started under the profile:", err)
		os.Exit(1)
	}
	os.Exit(rig.Main(m))
}

// become replaces this process by a program that may make the calls, given by their
// numbers.
func become(program string, calls []string) error {
	const (
		offsetCall, offsetArch = 0, 4 // in struct seccomp_data
		archX86, archARM       = 0xc000003e, 0xc00000b7
	)
	arch := uint32(archX86)
	if runtime.GOARCH == "arm64" {
		arch = archARM
	}
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetArch},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: arch},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetCall},
	}
	for _, c := range calls {
		number, err := strconv.ParseUint(c, 10, 32)
		if err != nil {
			return err
		}
		code = append(code,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(number)},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	}
	code = append(code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	filter := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0); err != nil {
		return err
	}
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, programVar+"=") && !strings.HasPrefix(v, callsVar+"=") {
			env = append(env, v)
		}
	}
	return unix.Exec(program, append([]string{program}, os.Args[1:]...), env)
}

// numbers are those of the calls that the profile allows, without some. Names that this
// architecture does not have are left out, as runtimes do.
func numbers(t *testing.T, without string) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+runtime.GOARCH+".go"))
	if err != nil {
		t.Skipf("the numbers of system calls on %s are not known: %v", runtime.GOARCH, err)
	}
	known := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s*SYS_(\w+)\s*= (\d+)$`).FindAllStringSubmatch(string(table), -1) {
		known[strings.ToLower(m[1])] = m[2]
	}
	var profile struct{ Syscalls []struct{ Names []string } }
	if err := json.Unmarshal([]byte(generator.Seccomp), &profile); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, group := range profile.Syscalls {
		for _, name := range group.Names {
			if number, ok := known[name]; ok && (without == "" || !strings.HasPrefix(name, without)) {
				all = append(all, number)
			}
		}
	}
	if len(all) < 100 {
		t.Fatalf("only %d calls of the profile are known", len(all))
	}
	return strings.Join(all, ",")
}

// serve runs a broker under the profile and has a client produce and read.
func serve(t *testing.T, without string) (log string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := process.Start(process.Config{
		Binary: self, Dir: rig.DataDir(t), Args: []string{"--shards", "1", "--journal-size", "8MiB", "--cache-size", "8MiB", "--admin-listen", "127.0.0.1:0"},
		Env: []string{programVar + "=" + rig.Binary(t), callsVar + "=" + numbers(t, without)},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	addr, _, err := b.Ready(ctx)
	if err != nil {
		_ = b.Kill()
		t.Fatalf("%v\n%s", err, b.LogTail())
	}
	run := func(in string, args ...string) string {
		cmd := exec.CommandContext(ctx, rig.Binary(t), append(args, "--server", addr)...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("mqd %v: %v\n%s\n%s", args, err, out, b.LogTail())
		}
		return string(out)
	}
	run("", "topic", "create", "notes", "--partitions", "2")
	run("one\ntwo\nthree\n", "produce", "notes")
	got := run("", "consume", "notes")
	for _, want := range []string{"one", "two", "three"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q was not read: %s", want, got)
		}
	}
	run("", "topic", "delete", "notes", "--yes")
	if err := b.Stop(ctx); err != nil {
		t.Errorf("%v\n%s", err, b.LogTail())
	}
	return b.LogTail()
}

func TestTheBrokerServesUnderItsProfile(t *testing.T) {
	rig.NeedDriver(t)
	if log := serve(t, ""); strings.Contains(log, "portable driver") {
		t.Errorf("io_uring is not used:\n%s", log)
	}
}

// This is what the profiles that come with container runtimes do.
func TestWithoutRingsThePortableDriverServes(t *testing.T) {
	if log := serve(t, "io_uring"); !strings.Contains(log, "portable driver") {
		t.Errorf("the filter has not been in force:\n%s", log)
	}
}
