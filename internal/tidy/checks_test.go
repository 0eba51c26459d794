package tidy

import (
	"fmt"
	"strings"
	"testing"
)

func parse(t *testing.T, name, src string) *File {
	t.Helper()
	f, err := Parse(name, []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// lines makes n lines of code that say nothing.
func lines(n int) string { return strings.Repeat("\t_ = 0\n", n) }

// nested makes a function with n nested statements.
func nested(n int) string {
	return "package p\nfunc f(a, b bool) {\n" + strings.Repeat("if a {\n", n) + strings.Repeat("}\n", n) + "}\n"
}

func comments(n int) string { return "package p\n" + strings.Repeat("//\n", n-1) }

const (
	engine = "engine/a.go"
	// open is put together so that this file does not contain it.
	open = "TO" + "DO"
)

// shown has, for each rule, sources that break it and that just keep it.
var shown = []struct {
	rule, file string
	bad, good  string
}{
	{"file sizes", engine, comments(maxFileLines + 1), comments(warnFileLines)},
	{"file sizes", "engine/a_test.go", comments(maxTestFileLines + 1), comments(maxTestFileLines)},
	{"function sizes", engine, "package p\nfunc f() {\n" + lines(69) + "}\n", "package p\nfunc f() {\n" + lines(68) + "}\n"},
	{"function sizes", engine, "package p\nvar f = func() {\n" + lines(69) + "}\n", "package p\nvar f = func() {\n" + lines(68) + "}\n"},
	{"function sizes", "a/a_test.go", "package p\nfunc f() {\n" + lines(69) + "}\n", "package p\nfunc f() {\n_ = []int{\n" + strings.Repeat("1,\n", 10) + "}\n" + lines(100) + "}\n"},
	{"function sizes", engine, "package p\nfunc f() {\n_ = []int{\n" + strings.Repeat("1,\n", 10) + "}\n" + lines(100) + "}\n", "package p\n"},
	{"tests' programs", "a/a_test.go", "package p\nimport \"os\"\nvar e = os.WriteFile(\"a\", nil, 0o700)\n", "package p\nimport \"os\"\nvar e = os.WriteFile(\"a\", nil, 0o644)\n"},
	{"tests' programs", "a/a_test.go", "package p\nimport \"os\"\nvar e = os.WriteFile(\"a\", nil, 0001)\n", "package p\nimport \"os\"\nvar f, perm = os.MkdirAll(\"a\", 0o755), os.FileMode(0)\nvar e = os.WriteFile(\"a\", nil, perm)\n"},
	{"nesting", engine, nested(maxNesting + 1), nested(maxNesting)},
	{"nesting", engine, "package p\nfunc f(a bool) { for { switch { case a: for range 2 { select { default: if a { func() { for {} }() } } } } } }\n",
		"package p\nfunc f(a bool) { if a {} else if a {} else if a {} else if a {} else if a {} else if a {} else if a {} }\n"},
	{"nesting", engine, "package p\nfunc f(a bool) { if a {} else { for { for { for { for { for {} } } } } } }\n", nested(2)},
	{"banned names", engine, "package p\nimport \"time\"\nvar t = time.Now()\n", "package p\nimport \"time\"\nvar t = time.Second\n"},
	{"banned names", engine, "package p\nimport \"time\"\nvar now = time.Now\n", "package p\nimport \"strings\"\nvar b strings.Builder\n"},
	{"banned names", engine, "package p\nimport clock \"time\"\nvar t = clock.Now()\n", "package p\nvar time struct{ Now func() }\nfunc f() { time.Now() }\n"},
	{"banned names", "client/a.go", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", "package p\nimport \"time\"\nvar t = time.Now()\n"},
	{"banned names", "broker/a.go", "package p\nimport \"os\"\nvar e = os.Rename(\"a\", \"b\")\n", "package p\n"},
	{"banned names", "client/a.go", "package p\nimport \"os\"\nvar e = os.WriteFile(\"a\", nil, 0)\n", "package p\nimport \"os\"\nvar e = os.Getenv(\"a\")\n"},
	{"banned names", "engine/shard/a.go", "package p\nimport \"golang.org/x/sys/unix\"\nvar e = unix.Fsync(0)\n", "package p\nimport \"golang.org/x/sys/unix\"\nvar e = unix.SchedSetaffinity(0, nil)\n"},
	{"banned names", "engine/segment/a.go", "package p\nimport \"syscall\"\nvar e = syscall.Fdatasync(0)\n", "package p\nimport \"syscall\"\nvar e error = syscall.ENOSPC\n"},
	{"banned names", engine, "package p\nimport \"github.com/mqd-broker/mqd/engine/aio\"\nvar e = aio.Do(nil, nil)\n", "package p\nimport \"github.com/mqd-broker/mqd/engine/aio\"\nvar o aio.Op\n"},
	{"banned names", "cmd/mqd/a.go", "package p\nimport \"sync/atomic\"\nfunc f(p *int64) { atomic.AddInt64(p, 1) }\n", "package p\nimport \"sync/atomic\"\nvar n atomic.Int64\n"},
	{"banned names", "admin/a.go", "package p\nimport \"log\"\nfunc f() { log.Fatalf(\"x\") }\n", "package p\nimport \"log\"\nfunc f() { log.Printf(\"x\") }\n"},
	{"banned names", "uring/a.go", "package p\nimport \"fmt\"\nfunc f() { fmt.Println() }\n", "package p\nimport \"fmt\"\nvar s = fmt.Sprintln()\n"},
	{"banned names", "bench/a.go", "package p\nimport \"os\"\nfunc f() { os.Exit(1) }\n", "package p\nimport \"fmt\"\nfunc f() { fmt.Println() }\n"},
	{"banned forms", engine, "package p\nimport . \"strings\"\n", "package p\nimport _ \"strings\"\n"},
	{"banned forms", engine, "package p\nfunc f() { println(1) }\n", "package p\nfunc f(w interface{ println(int) }) { w.println(1) }\n"},
	{"banned forms", engine, "package p\nimport _ \"unsafe\"\n//go:linkname f runtime.f\nfunc f()\n", "package p\n//go:noinline\nfunc f() {}\n"},
	{"panics", engine, "package p\nfunc f() { panic(\"text\") }\n", "package p\nimport \"github.com/mqd-broker/mqd/internal/invariant\"\nfunc f() { invariant.Violated(\"p: x\") }\n"},
	{"goroutines", engine, "package p\nfunc f() { go f() }\n", "package p\nfunc f() { defer f() }\n"},
	{"channels", engine, "package p\nvar c chan int\n", "package p\nvar c []int\n"},
	{"channels", "net/native/a.go", "package p\nfunc f(c interface{ Done() bool }) { select {} }\n", "package p\nfunc f(x int) int { return -x }\n"},
	{"skips", "a/a_test.go", "package p\nimport \"testing\"\nfunc f(t *testing.T) { t.Skip() }\n", "package p\nimport \"testing\"\nfunc f(t *testing.T) { t.Skip(\"no compiler\") }\n"},
	{"skips", "a/a_test.go", "package p\nimport \"testing\"\nfunc f(t *testing.T) { t.SkipNow() }\n", "package p\n"},
	{"package names", "a/util/a.go", "package util\n", "package ring\n"},
	{"package names", "a/util/a_test.go", "package util_test\n", "package ring_test\n"},
	{"file names", "a/index_legacy.go", "package p\n", "//go:build linux\n\npackage p\n"},
	{"file names", "a/index_2_test.go", "package p\n", "package p\n"},
	{"file names", "a/index.go", "//go:build linux\n\npackage p\n", "// Package p speaks of //go:build lines.\npackage p\n"},
	{"package comments", engine, "package p\n", "// Package p is here.\npackage p\n"},
	{"exported comments", engine, "package p\nfunc F() {}\n", "package p\n// F is here.\nfunc F() {}\n"},
	{"exported comments", engine, "package p\ntype t[K any] int\ntype U int\n", "package p\ntype t[K any] int\nfunc (t[K]) F() {}\n"},
	{"exported comments", engine, "package p\n// T is here.\ntype T[K any] int\nfunc (t *T[K]) F() {}\n", "package p\n// T is here.\ntype T int\nfunc (T) String() string { return \"\" }\n"},
	{"exported comments", engine, "package p\nconst (\nA = 1\nb = 2\n)\n", "package p\n// Sizes.\nconst (\nA = 1\nB = 2\n)\nvar (\nC = 1 // a size\n)\n"},
	{"open ends", engine, "package p\n// " + open + ": later\n", "package p\n// " + open + "(#12): later\n"},
	{"open ends", engine, "package p\n/*\n FIX" + "ME\n*/\n", "package p\nvar s = \"" + open + "\"\n"},
}

func TestEachRuleTellsBadFromGood(t *testing.T) {
	for i, c := range shown {
		t.Run(fmt.Sprintf("%02d %s", i, c.rule), func(t *testing.T) {
			check := Checks[c.rule]
			if got := failures(check([]*File{parse(t, c.file, c.bad)})); len(got) == 0 {
				t.Errorf("passed, but breaks the rule:\n%.400s", c.bad)
			} else if !strings.HasPrefix(got[0].String(), c.file+":") {
				t.Errorf("the finding does not name its file: %v", got[0])
			}
			goodFile := c.file
			if c.rule == "file names" {
				goodFile = "a/index_linux.go"
			}
			if got := failures(check([]*File{parse(t, goodFile, c.good)})); len(got) != 0 {
				t.Errorf("keeps the rule, but: %v", got)
			}
		})
	}
}

func failures(found []Finding) []Finding {
	var bad []Finding
	for _, f := range found {
		if f.Severity == Fail {
			bad = append(bad, f)
		}
	}
	return bad
}

func TestEveryRuleIsShownToFail(t *testing.T) {
	// These two have tests of their own below.
	has := map[string]bool{"package sizes": true, "sleeping tests": true}
	for _, c := range shown {
		if Checks[c.rule] == nil {
			t.Errorf("%q is no rule", c.rule)
		}
		has[c.rule] = true
	}
	for rule := range Checks {
		if !has[rule] {
			t.Errorf("nothing shows that %q can fail", rule)
		}
	}
}

func TestRulesLeaveTestsAndExceptedPlacesAlone(t *testing.T) {
	src := "package p\nimport (\n\"os\"\n\"time\"\n)\nfunc f() { go f(); time.Sleep(1); os.Remove(\"x\"); panic(\"x\") }\nvar c chan int\n"
	for _, name := range []string{"engine/a_test.go", "test/rig/a.go"} {
		f := []*File{parse(t, name, src)}
		for _, rule := range []string{"banned names", "panics", "goroutines", "channels"} {
			if got := Checks[rule](f); len(got) != 0 {
				t.Errorf("%s in %s: %v", rule, name, got)
			}
		}
	}
	blocking := "package p\nimport \"github.com/mqd-broker/mqd/engine/aio\"\nvar e = aio.Do(nil, nil)\n"
	if got := BannedNames([]*File{parse(t, "engine/recovery/slot.go", blocking)}); len(got) != 0 {
		t.Errorf("recovery may block: %v", got)
	}
	if got := BannedNames([]*File{parse(t, "engine/segment/recoverer/x.go", blocking)}); len(got) == 0 {
		t.Error("a pattern for files matched a directory")
	}
}

func TestPackageSizesCountsAllFilesOfAPackageButTests(t *testing.T) {
	var files []*File
	for i := range 6 {
		files = append(files, parse(t, fmt.Sprintf("big/f%d.go", i), comments(700)))
		files = append(files, parse(t, fmt.Sprintf("good/f%d_test.go", i), comments(700)))
	}
	for i := range maxPackageFiles + 1 {
		files = append(files, parse(t, fmt.Sprintf("many/f%d.go", i), comments(1)))
		files = append(files, parse(t, fmt.Sprintf("api/%02d_call.go", i), comments(1)))
	}
	got := PackageSizes(files)
	if len(got) != 2 || got[0].File != "big" || got[1].File != "many" {
		t.Fatalf("want findings for big and many, got %v", got)
	}
}

func TestARatchetedFunctionMayStayButNotGrow(t *testing.T) {
	f := []*File{parse(t, "a/a.go", "package p\ntype t int\nfunc (x *t) f() {\n"+lines(98)+"}\n")}
	if got := functionSizes(f, map[string]int{"a/a.go:t.f": 100}); len(got) != 0 {
		t.Errorf("it has its listed size: %v", got)
	}
	if got := functionSizes(f, map[string]int{"a/a.go:t.f": 99}); len(got) != 1 {
		t.Errorf("it grew by a line: %v", got)
	}
}

func TestAListedFunctionMayPassOnAPanic(t *testing.T) {
	f := []*File{parse(t, "a/a.go", "package p\nfunc f() { if v := recover(); v != nil { panic(v) } }\nfunc g() { panic(1) }\n")}
	if got := panics(f, []string{"a/a.go:f"}); len(got) != 1 || got[0].Line != 3 {
		t.Errorf("want g alone, got %v", got)
	}
}

func TestASleepingTestIsWarnedOf(t *testing.T) {
	got := SleepingTests([]*File{parse(t, "a/a_test.go", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }\n")})
	if len(got) != 1 || got[0].Severity != Warn {
		t.Errorf("got %v", got)
	}
}

func TestAFileThatIsLongButAllowedIsWarnedOf(t *testing.T) {
	got := FileSizes([]*File{parse(t, "a/a.go", comments(maxFileLines))})
	if len(got) != 1 || got[0].Severity != Warn {
		t.Errorf("got %v", got)
	}
}

func TestTextRulesTellBadFromGood(t *testing.T) {
	home := "/wo" + "rk/"
	text := func(path, data string) []Text { return []Text{{path, []byte(data)}} }
	for _, c := range []struct {
		check func([]Text) []Finding
		texts []Text
		line  int // of the finding; 0 for none
	}{
		{OpenEndsInText, text("docs/a.md", "a\n"+open+" b\n"), 2},
		{OpenEndsInText, text("docs/a.md", "mktemp x.XXXXXX\n"+open+"(#3): b\n"), 0},
		{OpenEndsInText, text("a/testdata/a.txt", open), 0},
		{OpenEndsInText, text("a/a.go", open), 0},
		{OwnPaths, text("Makefile", "a:\n\n\tcp x "+home+"y\n"), 3},
		{OwnPaths, text("a/a.go", "\""+home+"x\""), 1},
		{OwnPaths, text("docs/a.md", "/ro"+"ot/x"), 1},
		{OwnPaths, text("docs/a.md", "net"+home+"x, ."+home+"x, ~"+home+"x, /wo"+"rks/"), 0},
	} {
		got := c.check(c.texts)
		if c.line == 0 && len(got) != 0 || c.line != 0 && (len(got) != 1 || got[0].Line != c.line) {
			t.Errorf("%s %q: want a finding in line %d, got %v", c.texts[0].Path, c.texts[0].Data, c.line, got)
		}
	}
}

func TestParseRefusesWhatIsNotGo(t *testing.T) {
	if _, err := Parse("a.go", []byte("package p\nfunc {\n")); err == nil {
		t.Fatal("a broken file was accepted: it would go unchecked")
	}
}
