package generator

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// settings are the lines of the unit.
func settings() map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(Unit) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && line[0] != '#' {
			all[key] = append(all[key], value)
		}
	}
	return all
}

func TestTheUnitGivesWhatTheBrokerNeeds(t *testing.T) {
	s := settings()
	for key, want := range map[string]string{
		"LimitMEMLOCK": "infinity", "LimitNOFILE": "1048576", "User": "mqd", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "CapabilityBoundingSet": "",
	} {
		if !slices.Equal(s[key], []string{want}) {
			t.Errorf("%s is %q, want %q", key, s[key], want)
		}
	}
	filter := strings.Join(s["SystemCallFilter"], " ")
	for _, call := range []string{"io_uring_setup", "io_uring_enter", "io_uring_register"} {
		if !strings.Contains(filter, call) {
			t.Errorf("the filter does not name %s", call)
		}
	}
}

func TestSystemdAcceptsTheUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze on this machine")
	}
	verify := func(unit string) (string, error) {
		path := filepath.Join(t.TempDir(), "mqd.service")
		if err := os.WriteFile(path, []byte(unit), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", path).CombinedOutput()
		return string(out), err
	}
	// The program need not be installed where the test runs.
	unit := strings.Replace(Unit, "/usr/local/bin/mqd", "/bin/sh", 1)
	out, err := verify(unit)
	if strings.Contains(out, "unrecognized option") {
		t.Skipf("systemd-analyze of this machine is too old: %s", out)
	}
	if err != nil || strings.Contains(out, "mqd.service:") {
		t.Errorf("%v: %s", err, out)
	}
	if out, _ := verify(strings.Replace(unit, "ProtectClock=", "ProtectClocks=", 1)); !strings.Contains(out, "ProtectClocks") {
		t.Errorf("a key that there is not goes unnoticed: %s", out)
	}
}

func TestTheProfileIsOne(t *testing.T) {
	var p struct {
		DefaultAction string
		Syscalls      []struct {
			Names  []string
			Action string
		}
	}
	if err := json.Unmarshal([]byte(Seccomp), &p); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, group := range p.Syscalls {
		if group.Action != "SCMP_ACT_ALLOW" || !slices.IsSorted(group.Names) {
			t.Errorf("group %+v", group)
		}
		all = append(all, group.Names...)
	}
	slices.Sort(all)
	if p.DefaultAction != "SCMP_ACT_ERRNO" || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("default %s, %d names", p.DefaultAction, len(all))
	}
	for _, never := range []string{"mount", "ptrace", "bpf", "init_module", "keyctl", "perf_event_open", "reboot", "setns", "unshare", "kexec_load", "userfaultfd"} {
		if slices.Contains(all, never) {
			t.Errorf("%s is allowed", never)
		}
	}
}
