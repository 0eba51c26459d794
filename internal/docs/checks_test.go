package docs_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

var repo = fstest.MapFS{
	"engine/a.go":    {Data: []byte("package engine\nfunc F() {}\nfunc (e *Engine[K]) Run() {}\n")},
	"docs/other.md":  {Data: []byte("# Other\n\n## What `F` does, twice\n\n## What F does, twice\n")},
	"docs/format/.x": {Data: []byte("x")},
}

func TestCheckReferencesTellsBadFromGood(t *testing.T) {
	for text, want := range map[string]int{
		"`engine/a.go`, `engine/a.go:F` and `engine/a.go:Engine.Run`": 0,
		"a file is called `format.go` or `x_linux.go`":                0,
		"```\n`engine/b.go`\n```\n":                                   0,
		"`engine/b.go`":                                               1,
		"`engine/a.go:G`":                                             1,
		"`engine/a.go:Run` and `engine/a.go:Engine.F`":                2,
		"`a.go:F`":               1,
		"`../mqd/engine/a.go:F`": 1,
	} {
		if got := checkReferences(repo, document{"docs/a.md", text}); len(got) != want {
			t.Errorf("%q: want %d problems, got %v", text, want, got)
		}
	}
}

func TestCheckLinksTellsBadFromGood(t *testing.T) {
	for text, want := range map[string]int{
		"[a](other.md) ![b](../engine/a.go \"t\") [c](format) [d](https://example.org/x#y)": 0,
		"[a](other.md#what-f-does-twice) [b](other.md#what-f-does-twice-1)":                 0,
		"# My head: one\n[a](#my-head-one)":                                                 0,
		"`[a](none.md)`":                                                                    0,
		"[a]: other.md\n":                                                                   0,
		"[a](none.md)":                                                                      1,
		"[a](other.md#none)":                                                                1,
		"[a](#none)":                                                                        1,
		"[a]()":                                                                             1,
		"[a]: none.md\n":                                                                    1,
		"[a](/docs/other.md)":                                                               1,
		"[a](../engine/a.go#L3)":                                                            1,
		"[a](../../other.md)":                                                               1,
	} {
		if got := checkLinks(repo, document{"docs/a.md", text}); len(got) != want {
			t.Errorf("%q: want %d problems, got %v", text, want, got)
		}
	}
}

// lifeOf makes a document with the given steps.
func lifeOf(steps ...string) document {
	return document{"docs/ARCHITECTURE.md", "# A\n\n## Life of a batch\n\n" + strings.Join(steps, "\n") + "\n\n## Next\n9. no step\n"}
}

func steps(n int) []string {
	var s []string
	for i := range n {
		s = append(s, fmt.Sprintf("%d. Something happens:\n   `engine/a.go:F`.", i+1))
	}
	return s
}

func TestCheckLifeWantsNumberedStepsThatNameFunctions(t *testing.T) {
	if got := checkLife(lifeOf(steps(minSteps)...)); len(got) != 0 {
		t.Errorf("a good text has problems: %v", got)
	}
	nameless := steps(minSteps)
	nameless[2] = "3. Something happens in `engine/a.go`."
	last := steps(minSteps)
	last[minSteps-1] = fmt.Sprintf("%d. Something happens.", minSteps)
	misnumbered := steps(minSteps)
	misnumbered[1] = "3. `engine/a.go:F`"
	for name, doc := range map[string]document{
		"no section":       {"docs/ARCHITECTURE.md", "# A\n1. `engine/a.go:F`\n"},
		"empty section":    {"docs/ARCHITECTURE.md", "# Life of a batch"},
		"few steps":        lifeOf(steps(minSteps - 1)...),
		"step without":     lifeOf(nameless...),
		"last one without": lifeOf(last...),
		"wrong number":     lifeOf(misnumbered...),
	} {
		if got := checkLife(doc); len(got) != 1 {
			t.Errorf("%s: want one problem, got %v", name, got)
		}
	}
}

func TestCheckFileMapWantsEveryPackage(t *testing.T) {
	doc := document{"docs/ARCHITECTURE.md", "`engine` and `engine/journal`"}
	files := []string{"engine/a.go", "engine/journal/a.go", "internal/x/a.go", "test/rig/a.go", "engine/segment/a.go", "engine/segment/b.go"}
	got := checkFileMap(doc, files)
	if len(got) != 1 || !strings.Contains(got[0].text, "engine/segment") {
		t.Errorf("want engine/segment alone, got %v", got)
	}
}

func TestCheckExampleComparesTheReadmeWithTheCode(t *testing.T) {
	const code = "package client_test\nfunc Example() {\n\t// readme:begin\n\tx := 1\n\n\tif x > 0 {\n\t\tf()\n\t}\n\t// readme:end\n}\n"
	readme := func(text string) document { return document{"README.md", text} }
	same := readme("a\n```go\nx := 1\n\nif x > 0 {\n\tf()\n}\n```\n```sh\nx\n```\n")
	if got := checkExample(same, code); len(got) != 0 {
		t.Errorf("the same code differs: %v", got)
	}
	for name, c := range map[string]struct{ readme, code string }{
		"different":       {strings.Replace(same.text, "x > 0", "x > 1", 1), code},
		"less indented":   {strings.Replace(same.text, "\tf()", "f()", 1), code},
		"no block":        {"a\n", code},
		"a second block":  {same.text + "```go\ny := 2\n```\n", code},
		"no region":       {same.text, "package client_test\n"},
		"region unended":  {same.text, strings.Replace(code, "// readme:end", "", 1)},
		"region unbegun":  {same.text, strings.Replace(code, "// readme:begin", "", 1)},
		"begun two times": {same.text, strings.Replace(code, "// readme:end", "// readme:begin", 1)},
	} {
		if got := checkExample(readme(c.readme), c.code); len(got) != 1 {
			t.Errorf("%s: want one problem, got %v", name, got)
		}
	}
}
