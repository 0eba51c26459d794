package tidy

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/internal/layers"
)

func TestTheRepositoryIsTidy(t *testing.T) {
	root, err := layers.Root()
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
	for name, check := range Checks {
		t.Run(name, func(t *testing.T) { report(t, check(files)) })
	}
	texts, err := Texts(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("open ends in text", func(t *testing.T) { report(t, OpenEndsInText(texts)) })
	t.Run("own paths", func(t *testing.T) { report(t, OwnPaths(texts)) })
}

func report(t *testing.T, found []Finding) {
	for _, f := range found {
		if f.Severity == Warn {
			t.Log(f)
		} else {
			t.Error(f)
		}
	}
}

// Entries of the lists that nothing uses any more are removed, so that the
// ratchets only tighten.
func TestTheListsHoldNothingStale(t *testing.T) {
	root, err := layers.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	for key := range LongFunctions {
		less := maps.Clone(LongFunctions)
		delete(less, key)
		if len(functionSizes(files, LongFunctions)) == len(functionSizes(files, less)) {
			t.Errorf("LongFunctions: %s is not too long any more", key)
		}
	}
	for _, key := range Repanics {
		if len(panics(files, Repanics)) == len(panics(files, without(Repanics, key))) {
			t.Errorf("Repanics: %s panics no more", key)
		}
	}
	for _, name := range slices.Concat(ChannelFiles, clockFiles, MayGo) {
		if strings.HasSuffix(name, ".go") && !slices.ContainsFunc(files, func(f *File) bool { return f.Path == name }) {
			t.Errorf("%s is excepted from a rule and does not exist", name)
		}
	}
}

func without(list []string, item string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == item })
}
