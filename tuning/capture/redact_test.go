package capture

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/tuning/fixture"
	"github.com/mqd-broker/mqd/tuning/tree"
)

// personal is a machine that says who it is wherever one can.
func personal() fixture.Files {
	return fixture.Metal().With(fixture.Files{
		"proc/self/mountinfo": "22 1 259:0 / / rw,relatime - ext4 /dev/mapper/zurich-root rw\n30 22 259:1 / /var/lib/mqd rw,noatime - xfs /dev/nvme1n1 rw,inode64\n" +
			"31 22 0:44 / /home/adele rw - nfs files.example:/adele rw,username=adele,addr=10.1.2.3\n",
		"proc/self/cgroup": "0::/user.slice/adele-4711.scope\n",
		"sys/fs/cgroup/user.slice/adele-4711.scope/memory.max": "2147483648\n",
		"proc/4711/comm":                "adeles-program\n",
		"proc/cpuinfo":                  "processor\t: 0\nmodel name\t: X\nflags\t: fpu\nSerial\t: 00000000deadbeef\n",
		"proc/swaps":                    "Filename Type Size Used Priority\n/home/adele/swap file 1 0 -2\n",
		"proc/self/status":              "Name:\tadele\nCapEff:\t0000000000000000\n",
		"proc/stat":                     "cpu  1000 0 500 98000 100 0 50 0 0 0\nbtime 1700000000\n",
		"sys/class/net/enx00163e112233": "->../../devices/pci0000:00/net/enx00163e112233", "sys/devices/pci0000:00/net/enx00163e112233/operstate": "up\n",
	})
}

func TestWhatNamesTheMachineIsTakenOut(t *testing.T) {
	m := fixture.Build(t, personal())
	all := Take(m, []string{fixture.DataDir}, "zurich")
	var text strings.Builder
	for _, e := range all {
		text.WriteString(e.Name + " -> " + e.Link + "\n" + string(e.Text) + "\n")
	}
	for _, secret := range []string{"adele", "zurich", "4711", "deadbeef", "10.1.2.3", "00163e112233", "1f0c2a7e", "1700000000"} {
		if strings.Contains(text.String(), secret) {
			t.Errorf("%q is in what was captured", secret)
		}
	}
	before, after := report(t, m), report(t, tree.New(unpack(t, all)))
	for _, word := range [][2]string{{"enx00163e112233", "enx000000000001"}, {"user.slice/adele-4711.scope", "user.slice/group-1"}} {
		before = strings.ReplaceAll(before, word[0], word[1])
	}
	after = strings.ReplaceAll(after, "enx000000000002", "enx000000000001")
	if before != after {
		t.Errorf("a check says\n%s\nand of what was captured\n%s", before, after)
	}
}

func TestArchivesDependOnTheirContentOnly(t *testing.T) {
	m := fixture.Build(t, personal())
	var one, two bytes.Buffer
	for _, w := range []*bytes.Buffer{&one, &two} {
		if err := Write(w, Take(m, []string{fixture.DataDir}, "")); err != nil {
			t.Fatal(err)
		}
	}
	if one.Len() == 0 || !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Errorf("%d and %d bytes, which differ", one.Len(), two.Len())
	}
}
