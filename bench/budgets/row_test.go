package budgets

import (
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/bench"
)

func TestBudgetsSayWhetherAFigureIsWithin(t *testing.T) {
	b := latencyBudget{[]term{{2, "D", 100_000}, {1, "P", 10_000}}, 100_000}
	if b.total() != 310_000 || b.String() != "2 × D 100.0 + P 10.0 + 100" {
		t.Errorf("%d ns: %s", b.total(), b)
	}
	for ns, want := range map[int64]bool{309_000: true, 310_000: true, 311_000: false} {
		if r := b.within("x", ns); r.Within != want {
			t.Errorf("%d ns of %d: %+v", ns, b.total(), r)
		}
	}
	if r := atLeast("x", 999_999, 1e6, "msg/s", ""); r.Within {
		t.Errorf("%+v", r)
	}
	if r := atLeast("x", 1e6, 1e6, "msg/s", ""); !r.Within {
		t.Errorf("%+v", r)
	}
	if r := atMost("x", 0, 1, 1, "%", ""); !r.Within {
		t.Errorf("%+v", r)
	}
}

func TestAReportOfNothingIsEmptyAndOneOfAPartSaysSo(t *testing.T) {
	var r Report
	if got := r.Text(); got != "" {
		t.Errorf("nothing measured, yet it prints %q", got)
	}
	r.Rows = []Row{atMost("x", 1, 2, 1, "s", "")}
	if !strings.Contains(r.Text(), "INCOMPLETE") {
		t.Errorf("a part looks like the whole:\n%s", r.Text())
	}
	if r.Complete = true; strings.Contains(r.Text(), "INCOMPLETE") {
		t.Errorf("the whole looks like a part:\n%s", r.Text())
	}
}

func TestARowOfAClientThatWasLateIsNoFigure(t *testing.T) {
	r := atMost("x", 1, 2, 1, "s", "").of(&bench.Result{Verdict: bench.Invalid, Reason: "late"})
	if r.Within || r.verdict() != "NOT MEASURED" || !strings.Contains(table([]Row{r}), "late") {
		t.Errorf("%+v:\n%s", r, table([]Row{r}))
	}
	if r := atMost("x", 1, 2, 1, "s", "").of(&bench.Result{Verdict: bench.Valid}); r.verdict() != "pass" {
		t.Errorf("%+v", r)
	}
	rep := Report{Rows: []Row{r, missing("y", "too large"), atMost("z", 3, 2, 1, "s", ""), atMost("z", 1, 2, 1, "s", "")}}
	if pass, fail, missing := rep.Kept(); pass != 1 || fail != 1 || missing != 2 {
		t.Errorf("%d pass, %d fail, %d missing", pass, fail, missing)
	}
}
