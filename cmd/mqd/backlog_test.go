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

func TestBenchBacklogDoesNotTakeNothingForTheDefault(t *testing.T) {
	for flag, want := range map[string]string{
		"--messages=0": "--messages is 0, expected 1 or more", "--messages=-1": "--messages is -1, expected 1 or more", "--size=0": "--size is 0, expected 16 or more",
		"--batch-messages=0": "--batch-messages is 0", "--partitions=0": "--partitions is 0", "--rounds=0": "--rounds is 0, expected 1 or more",
		"--answer-bytes=0": "--answer-bytes is 0", "--answer-records=0": "--answer-records is 0", "--server-pid=-1": "--server-pid is -1",
		"--pause=-1s": "--pause is -1s, expected 0s or more", "--duration=-1s": "--duration is -1s, expected 0s or more", "--pause=1s --rate=0": "--rate is 0, expected 1 or more",
	} {
		// No broker answers there: what is not refused ends at once all the same.
		_, err := runBench(t, append([]string{"backlog", "--server", "127.0.0.1:1"}, strings.Fields(flag)...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
}

func TestBenchBacklogHasAConsumerPause(t *testing.T) {
	if _, err := benchPlatform(); err != nil {
		t.Skipf("no driver here: %v", err)
	}
	t.Setenv(asProgram, "1")
	out, err := runBench(t, "backlog", "--dir", t.TempDir(), "--pause", "150ms", "--rate", "2000", "--duration", "500ms", "--partitions", "2", "--class", "memory",
		"-o", "json", "--", "--journal-size", "8MiB")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var r struct {
		Verb  string
		Cases []struct {
			Result struct {
				Sent, Read int64
				Pause      struct {
					Length   int64   `json:"length_ns"`
					Produced float64 `json:"produced_per_second"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(r.Cases) != 1 || r.Verb != "backlog" || r.Cases[0].Result.Pause.Length != 150_000_000 || r.Cases[0].Result.Read != r.Cases[0].Result.Sent {
		t.Fatalf("%+v", r)
	}
	if _, err := runBench(t, "backlog", "--pause", "2s", "--duration", "1s"); err == nil || !strings.Contains(err.Error(), "a pause of 2s") {
		t.Error(err)
	}
}
