package admin

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite generated documents")

const referencePath = "../docs/reference/metrics.md"

func TestTheReferenceOfMetricsIsThatOfTheTable(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# Metrics\n\n<!-- Written by go test ./admin -update; do not edit. -->\n\n" +
		"What `" + PathMetrics + "` of the admin HTTP serves, in Prometheus' text format. Those with the labels\n" +
		"topic and partition, or group, are not served at `" + PathPublicMetrics + "`, where the number of\n" +
		"series is bounded; they cover the first 4096 partitions by the names of their topics, and\n" +
		"4096 groups and partitions of groups by the names of groups. Counters begin\n" +
		"at 0 with a start, and with a reopening. A metric that is not known at the moment, as of a\n" +
		"shard that does not answer, is missing.\n\n" +
		"| metric | kind | labels | what it is |\n|---|---|---|---|\n")
	for _, f := range families() {
		labels := "`" + strings.Join(f.labels, "`, `") + "`"
		if len(f.labels) == 0 {
			labels = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.kind, labels, f.help)
	}
	if *update {
		if err := os.WriteFile(referencePath, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s differs from the table; rewrite it with -update and review the change; now:\n%s", referencePath, b.Bytes())
	}
}

// Names in the documents for operators are those of metrics.
func TestDocumentsNameMetricsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, f := range families() {
		known[f.name] = true
		if f.kind == histogram {
			known[f.name+"_bucket"], known[f.name+"_sum"], known[f.name+"_count"] = true, true, true
		}
	}
	files, err := filepath.Glob("../docs/operating/*.md")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d documents, %v", len(files), err)
	}
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bmqd_[a-z0-9_]+`).FindAllString(string(text), -1) {
			if seen++; !known[name] {
				t.Errorf("%s names %s, which is no metric", file, name)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d names were found", seen)
	}
}
