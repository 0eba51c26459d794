package kafka_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/net/kafka"
)

var update = flag.Bool("update", false, "rewrite generated documents")

const (
	referencePath = "../../docs/kafka.md"
	tableBegins   = "do not edit to the end of the table. -->\n\n"
	tableEnds     = "\n<!-- End of the table. -->"
)

func TestTheReferenceHasTheTableOfWhatIsServed(t *testing.T) {
	doc := string(must(os.ReadFile(referencePath)))
	head, rest, ok := strings.Cut(doc, tableBegins)
	_, tail, ends := strings.Cut(rest, tableEnds)
	if !ok || !ends {
		t.Fatalf("%s has no place for the table", referencePath)
	}
	var b strings.Builder
	b.WriteString("| key | API | versions | what is otherwise than in Apache Kafka |\n|---|---|---|---|\n")
	for _, a := range kafka.APIs() {
		fmt.Fprintf(&b, "| %d | %s | %d to %d | %s |\n", a.Key, a.Name, a.Min, a.Max, a.Note)
	}
	want := head + tableBegins + b.String() + tableEnds + tail
	if *update {
		if err := os.WriteFile(referencePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if doc != want {
		t.Errorf("%s differs from the table; rewrite it with -update and review the change", referencePath)
	}
}
