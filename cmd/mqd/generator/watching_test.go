package generator

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/admin"
)

// served are the names of all series.
func served() map[string]bool {
	all := map[string]bool{}
	for _, m := range admin.Metrics() {
		all[m.Name] = m.Kind != "histogram"
		if m.Kind == "histogram" {
			all[m.Name+"_bucket"] = true
		}
	}
	return all
}

// mustBeServed looks for names that no broker serves.
func mustBeServed(t *testing.T, where, text string) {
	t.Helper()
	names := regexp.MustCompile(`\bmqd_[a-z0-9_]+`).FindAllString(text, -1)
	if len(names) == 0 {
		t.Errorf("%s asks for nothing", where)
	}
	for _, name := range names {
		if !served()[name] {
			t.Errorf("%s asks for %s, which is not served", where, name)
		}
	}
}

func TestAlertsAskForMetricsThatAreServed(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range alerts {
		mustBeServed(t, a.name, a.expr)
		if seen[a.name] || a.text == "" || a.severity != "critical" && a.severity != "warning" {
			t.Errorf("alert %+v", a)
		}
		seen[a.name] = true
		if !strings.Contains(alertRules(), "- alert: "+a.name+"\n        expr: "+quote(a.expr)+"\n") {
			t.Errorf("%s is not in the rules", a.name)
		}
	}
}

// What the document says to be woken for is what wakes.
func TestWhatTheDocumentNamesIsAnAlert(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operating/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## What to be woken for")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1)
	if len(rows) < 5 {
		t.Fatalf("%d expressions were found", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(alertRules(), "expr: "+quote(row[1])+"\n") {
			t.Errorf("%s is no alert", row[1])
		}
	}
}

func TestTheDashboardHasAPanelForEachMetric(t *testing.T) {
	text, err := dashboard()
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	asked, places := "", map[[2]int]bool{}
	for _, p := range d.Panels {
		mustBeServed(t, p.Title, p.Targets[0].Expr)
		asked += p.Targets[0].Expr + "\n"
		at := [2]int{p.GridPos.X, p.GridPos.Y}
		if places[at] || p.GridPos.X+p.GridPos.W > 24 || p.ID == 0 {
			t.Errorf("%s is at %v", p.Title, at)
		}
		places[at] = true
	}
	for _, m := range admin.Metrics() {
		if there := regexp.MustCompile(`\b` + m.Name + `(_bucket)?\b`).MatchString(asked); there == m.Private {
			t.Errorf("%s, private %v: on the dashboard %v", m.Name, m.Private, there)
		}
	}
}
