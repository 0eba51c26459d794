package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/bench/backlog"
)

func TestBenchBacklogReadsEverythingBackBesideTheBareConnection(t *testing.T) {
	t.Setenv(asProgram, "1")
	out, err := runBench(t, "backlog", "--dir", t.TempDir(), "--messages", "20000", "--partitions", "3", "--rounds", "2", "-o", "json",
		"--", "--journal-size", "8MiB")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var r backlog.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(r.Rounds) != 2 || r.Batch < 1 || r.Produced <= 0 || r.PerSecond <= 0 || r.Raw <= 0 || r.Ratio <= 0 {
		t.Fatalf("%+v", r)
	}
	for _, x := range r.Rounds {
		if x.Bytes < 20000*180 || x.Answers < 3 || x.Wrong != 0 {
			t.Fatalf("%+v", x)
		}
	}
}

func TestBenchBacklogRefusesFlagsForABrokerThatRuns(t *testing.T) {
	_, err := runBench(t, "backlog", "--server", "127.0.0.1:1", "--", "--shards", "1")
	if err == nil || !strings.Contains(err.Error(), "--server") {
		t.Fatal(err)
	}
}
