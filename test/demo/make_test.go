package main

import (
	"os/exec"
	"strings"
	"testing"
)

func TestAFileThatIsNotThereIsSaidBeforeTheBuild(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skipf("no make: %v", err)
	}
	for _, file := range []string{"no-such-file", "test"} { // nothing, and a directory
		// With -j too, nothing is built meanwhile.
		cmd := exec.Command("make", "-C", "../..", "-j", "4", "demo", "FILE="+file)
		cmd.Env = append(cmd.Environ(), "MAKEFLAGS=")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "FILE="+file+": no file") || strings.Contains(string(out), "go build") {
			t.Errorf("make demo FILE=%s: %v\n%s", file, err, out)
		}
	}
}
