package integration

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/bench/budgets"
	"github.com/mqd-broker/mqd/test/rig"
)

// What goes through Kafka's door comes back whole, measured by the same client as what goes
// through the native one. How the figures stand to their budgets depends on the machine.
func TestBothDoorsAreMeasuredByTheSameClient(t *testing.T) {
	rig.NeedDriver(t)
	cmd := exec.CommandContext(t.Context(), rig.Binary(t), "bench", "all", "--doors", "--dir", t.TempDir(), "--rounds", "2",
		"--piece", "100ms", "--long", "100ms", "-o", "json", "--", "--journal-size", "16MiB", "--shards", "1")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, errs.String())
	}
	var r budgets.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !r.Complete || len(r.Cases) != 6 || len(r.Rows) != 8 {
		t.Fatalf("%d cases, %d rows\n%s", len(r.Cases), len(r.Rows), out)
	}
	for _, c := range r.Cases {
		rounds := 2
		if c.Result.EndToEnd.Count > 0 { // of latencies more pairs are measured in each
			rounds = 3 * 2
		}
		if res := c.Result; res.Acked == 0 || res.Read != res.Acked || res.Faults.Any() || len(c.Rounds) != rounds {
			t.Errorf("%d rounds, want %d: %s", len(c.Rounds), rounds, c.Text())
		}
	}
}
