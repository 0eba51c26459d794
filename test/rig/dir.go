package rig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// DataDir makes a directory on a filesystem that takes O_DIRECT and lives on a
// disk, and removes it when the test ends. It skips the test where there is none.
func DataDir(t testing.TB) string {
	t.Helper()
	var refused []string
	for _, parent := range []string{os.TempDir(), "/var/tmp", "."} {
		dir, err := os.MkdirTemp(parent, "mqd-test-")
		if err != nil {
			refused = append(refused, err.Error())
			continue
		}
		if why := unfit(dir); why != "" {
			refused = append(refused, parent+": "+why)
			_ = os.RemoveAll(dir)
			continue
		}
		if dir, err = filepath.Abs(dir); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Errorf("data directory not removed: %v", err)
			}
		})
		return dir
	}
	t.Skipf("no directory on a disk that takes O_DIRECT: %s", strings.Join(refused, "; "))
	return ""
}
