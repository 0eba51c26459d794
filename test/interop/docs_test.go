package interop

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	kafkaDoc   = "../../docs/kafka.md"
	tableBegin = "<!-- Written by go test ./... -update in test/interop, from clients.txt and passes.txt; do not edit to the end of the table. -->\n"
	tableEnd   = "<!-- End of the table. -->\n"
)

// origins say where clients come from.
var origins = map[string]string{"debian": "Debian", "go": "Go modules", "maven": "Maven", "npm": "npm", "pypi": "PyPI"}

// clientTable is the part of docs/kafka.md that says what each client passes.
func clientTable(t *testing.T) string {
	t.Helper()
	p := readPasses(t)
	var b strings.Builder
	b.WriteString("\n| client | version | from | passes | but for |\n|---|---|---|---|---|\n")
	for _, c := range clientList(t) {
		passed, reasons, names := 0, []string{}, map[string][]string{}
		for _, sc := range scenariosOf(c.name) {
			switch why, known := p.rows[c.name+" "+sc.name]; {
			case known && why == "":
				passed++
			case known:
				if names[why] == nil {
					reasons = append(reasons, why)
				}
				names[why] = append(names[why], "`"+sc.name+"`")
			}
		}
		var but []string
		for _, why := range reasons {
			but = append(but, strings.Join(names[why], ", ")+": "+why)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d of %d | %s |\n", c.name, c.version, origins[c.from], passed, len(scenariosOf(c.name)), strings.Join(but, "; "))
	}
	b.WriteString("\n| scenario | what a client does |\n|---|---|\n")
	for _, sc := range slices.Concat(scenarios, streamsScenarios) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", sc.name, sc.says)
	}
	b.WriteString("\n")
	return b.String()
}

func TestTheDocumentsHaveTheClients(t *testing.T) {
	text, err := os.ReadFile(kafkaDoc)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), tableBegin)
	old, tail, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table of clients", kafkaDoc)
	}
	want := clientTable(t)
	if want == old {
		return
	}
	if !*update {
		t.Fatalf("%s does not say of the clients what passes.txt says; go test -run TestTheDocumentsHaveTheClients -update in test/interop writes it", kafkaDoc)
	}
	if err := os.WriteFile(kafkaDoc, []byte(head+tableBegin+want+tableEnd+tail), 0o600); err != nil {
		t.Fatal(err)
	}
}
