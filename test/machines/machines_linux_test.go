package machines

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/cmd/mqd/placement"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/fixture"
	"github.com/mqd-broker/mqd/tuning/topology"
	"github.com/mqd-broker/mqd/tuning/undo"
)

var update = flag.Bool("update", false, "write what the machines are found to be to testdata")

const mostArchive = 200 << 10

// each calls do with every machine that there is.
func each(t *testing.T, do func(t *testing.T, name string, m *fixture.Machine)) {
	t.Helper()
	all, err := filepath.Glob("testdata/*.tar.gz")
	if err != nil || len(all) < 5 {
		t.Fatalf("%d machines, %v", len(all), err)
	}
	for _, archive := range all {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		t.Run(name, func(t *testing.T) {
			m := fixture.Build(t, fixture.Files{"var/lib/README": "Data.\n"})
			unpack(t, archive, m.Root())
			do(t, name, m)
		})
	}
}

// unpack writes what an archive has below a directory.
func unpack(t *testing.T, archive, root string) {
	t.Helper()
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if len(content) > mostArchive {
		t.Errorf("%s has %d bytes", archive, len(content))
	}
	zip, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	in := tar.NewReader(zip)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = put(filepath.Join(root, h.Name), h, in)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func put(at string, h *tar.Header, in io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(at, 0o755)
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, at)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	return os.WriteFile(at, text, 0o600)
}

// dataDirs are where the data may be: what is mounted of a drive.
func dataDirs(m *fixture.Machine) []string {
	var all []string
	for _, mount := range topology.Mounts(m) {
		if m.Exists("sys/dev/block/" + mount.Device) {
			all = append(all, mount.Dir)
		}
	}
	return all
}

// look checks a machine, as one of a profile, "" is what it looks like.
func look(m *fixture.Machine, dir string, p tuning.Profile) *tuning.Report {
	parts := topology.Read(m, dir)
	if p == "" {
		p = tuning.Detect(parts)
	}
	return tuning.Check(&tuning.Host{Files: m, Machine: parts, Profile: p})
}

// describe writes all that is made of a machine with its data in a directory.
func describe(t *testing.T, w io.Writer, m *fixture.Machine, dir string) {
	t.Helper()
	r := look(m, dir, "")
	parts := r.Machine
	fmt.Fprintf(w, "=== %s\nkernel %s, %q, hypervisor %v, container %v, %d MiB\n", dir, parts.Kernel, parts.Processor, parts.Hypervisor, parts.Container, parts.Memory>>20)
	fmt.Fprintf(w, "%d CPUs, %d cores, nodes %v, isolated %v\n", len(parts.CPUs), parts.Cores(), parts.Nodes, parts.Isolated)
	for _, c := range parts.CPUs {
		fmt.Fprintf(w, "  CPU %d: package %d, core %d, node %d\n", c.Number, c.Package, c.Core, c.Node)
	}
	for _, d := range parts.Drives {
		fmt.Fprintf(w, "drive %s: %s %q, node %d, %d queues, controller %q, data %v\n", d.Name, d.Kind, d.Model, d.Node, d.Queues, d.Controller, d.Data)
	}
	for _, n := range parts.NICs {
		fmt.Fprintf(w, "card %s: %s, node %d, %d queues, %d Mbit/s, up %v\n", n.Name, n.Driver, n.Node, n.Queues, n.Speed, n.Up)
	}
	fmt.Fprintf(w, "data: %s on %s, %v\n", parts.Data.Filesystem, parts.Data.Device, parts.Data.Options)
	var allowed []int
	for _, c := range parts.CPUs {
		allowed = append(allowed, c.Number)
	}
	place := placement.Look(m, allowed, parts.Data.Device)
	c, err := settings.Merge(settings.Layer{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := placement.Place(c, place)
	fmt.Fprintf(w, "interrupts on CPU %d; mqd serve has %d shards on CPUs %v, %v, %v\n", place.Interrupt, p.Shards, p.CPUs, p.Warnings, err)
	if err := errors.Join(tuning.WriteCPUs(w, r.CPUs), tuning.WriteTable(w, r, true)); err != nil {
		t.Fatal(err)
	}
	changes, err := tuning.Plan(m, tuning.Selected(r, true), true)
	if err != nil {
		fmt.Fprintln(w, err)
	}
	for _, c := range changes {
		fmt.Fprintf(w, "%s %s: %q\n", c.ID, c.Path, c.New)
	}
}

func TestMachinesAreWhatTheyAreKnownToBe(t *testing.T) {
	each(t, func(t *testing.T, name string, m *fixture.Machine) {
		var out bytes.Buffer
		for _, dir := range dataDirs(m) {
			describe(t, &out, m, dir)
		}
		at := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(at, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != string(want) {
			t.Errorf("it is not what %s says (-update writes that):\n%s", at, difference(string(want), got))
		}
	})
}

// difference is the first line that differs.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\n- %s\n+ %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, expected %d", len(b), len(a))
}

func TestWhatIsChangedOnAMachineIsTakenBack(t *testing.T) {
	each(t, func(t *testing.T, _ string, m *fixture.Machine) {
		for _, dir := range []string{"etc/sysctl.d", "etc/udev/rules.d", "etc/tmpfiles.d"} {
			m.Put(t, fixture.Files{dir + "/README": "Here.\n"})
		}
		before := m.Contents(t)
		for _, dir := range dataDirs(m) {
			for _, p := range tuning.Profiles {
				changes, err := tuning.Plan(m, tuning.Selected(look(m, dir, p), true), true)
				if err != nil || len(changes) == 0 {
					t.Fatalf("%s, %s: %d changes, %v", dir, p, len(changes), err)
				}
				r := &undo.Record{Changes: changes}
				if err := undo.Apply(m, r); err != nil {
					t.Errorf("%s, %s: %v", dir, p, err)
				}
				for _, f := range tuning.Selected(look(m, dir, p), true) {
					t.Errorf("%s, %s: %s is still %s, not %s", dir, p, f.Name(), f.Found, f.Set)
				}
				if err := undo.Revert(m, r, false); err != nil {
					t.Fatalf("%s, %s: %v", dir, p, err)
				}
				for _, d := range fixture.Differences(before, m.Contents(t)) {
					t.Errorf("%s, %s: %s", dir, p, d)
				}
			}
		}
	})
}

// What is in the repository tells of no machine which one it is.
func TestNothingNamesAMachine(t *testing.T) {
	names := regexp.MustCompile(`(?i)([0-9a-f]{2}[:-]){5}[0-9a-f]{2}|enx[0-9a-f]{12}|[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[1-9a-f]|serial|/home/|/tmp/`)
	each(t, func(t *testing.T, _ string, m *fixture.Machine) {
		for path, text := range m.Contents(t) {
			if found := names.FindString(path + "\n" + text); found != "" {
				t.Errorf("%s has %q", path, found)
			}
		}
	})
}
