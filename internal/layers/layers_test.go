package layers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheRepositoryFollowsItsImportRules(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("only %d Go files found below %s", len(files), root)
	}
	for _, v := range Repo().Check(files) {
		t.Error(v)
	}
	for _, e := range Repo().Unused(files) {
		t.Errorf("the exception for %s importing %s is not used: remove it", e.File, e.Import)
	}
}

func TestTheRootModuleRequiresOnlyModulesThatHaveAPlace(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, mod := range Repo().CheckModules(Requires(gomod)) {
		t.Errorf("go.mod requires %s, which no row of internal/layers/rules.go names", mod)
	}
}

func TestTheTableIsConsistent(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Table {
		if seen[p.Path] {
			t.Errorf("%s is placed twice", p.Path)
		}
		seen[p.Path] = true
		if strings.HasPrefix(p.Path, Module) || strings.HasSuffix(p.Path, "/") {
			t.Errorf("%s: paths are relative to the module", p.Path)
		}
		for _, up := range p.TestUp {
			if _, ok := Lookup(Table, up); !ok {
				t.Errorf("%s: TestUp names %s, which is not in the table", p.Path, up)
			}
		}
	}
	for _, r := range append(append([]Rule{}, Never...), Only...) {
		if r.Why == "" || len(r.From) == 0 || len(r.To) == 0 {
			t.Errorf("a rule about %v lacks a part", r.To)
		}
	}
}

// Every package that the design names has its place before it exists.
func TestTheTableKnowsTheDesignsPackages(t *testing.T) {
	names := "cmd/mqd client batch ringbuf uring engine engine/aio engine/aio/portable engine/aio/sim engine/aio/aiotest " +
		"engine/shard engine/journal engine/segment broker broker/catalog broker/group broker/txn broker/delay " +
		"net/conn net/wire net/native net/kafka admin tuning bench"
	for _, name := range strings.Fields(names) {
		if p, ok := Lookup(Table, name); !ok || p.Path != name {
			t.Errorf("%s has no row of its own", name)
		}
	}
}
