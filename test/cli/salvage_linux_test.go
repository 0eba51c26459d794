package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// salvaged is what mqd salvage -o json tells.
type salvaged struct {
	result
	lost    []found
	summary map[string]any
}

func salvage(t *testing.T, dir string, args ...string) (s salvaged) {
	t.Helper()
	s.result = run(t, "", append([]string{"salvage", "--data-dir", dir, "-o", "json"}, args...)...)
	for line := range strings.Lines(s.out) {
		var f found
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch f.Type {
		case "lost":
			s.lost = append(s.lost, f)
		case "summary":
			if err := json.Unmarshal([]byte(line), &s.summary); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// TestSalvageGivesUpWhatIsLost damages a batch: without an order nothing changes; with it
// consumers pass over what is lost and get everything else, and nothing is damaged any
// more, in the files or as a broker serves them.
func TestSalvageGivesUpWhatIsLost(t *testing.T) {
	dir := stopped(t)
	log := files(t, dir, "topics/flushed.*/1/*.log")[0]
	flip(t, log, 100)
	before := fingerprint(t, dir)
	for _, args := range [][]string{nil, {"--dry-run"}, {"--topic", "flushed", "--partition", "1"}} {
		s := salvage(t, dir, args...)
		if s.status != 2 || len(s.lost) != 1 || s.summary["accepted"] != false || !strings.Contains(s.errs, "--yes gives them up") {
			t.Errorf("%v: status %d, %s%s", args, s.status, s.out, s.errs)
		}
	}
	for _, args := range [][]string{{"--topic", "flushed", "--partition", "0"}, {"--topic", "written", "--yes"}} {
		if s := salvage(t, dir, args...); s.status != 0 || len(s.lost) != 0 {
			t.Errorf("%v: status %d, %s%s", args, s.status, s.out, s.errs)
		}
	}
	plan := run(t, "", "salvage", "--data-dir", dir).out
	said := regexp.MustCompile(`(?m)^to replace: topic flushed partition 1: \S+: (\d+) of (\d+) bytes go$`).FindStringSubmatch(plan)
	if said == nil || strings.Contains(plan, "replaced: topic") {
		t.Fatalf("without --yes: %s", plan)
	}
	if fingerprint(t, dir) != before {
		t.Fatal("something was changed without an order")
	}
	s := salvage(t, dir, "--yes")
	if s.status != 0 || len(s.lost) != 1 || s.errs != "" {
		t.Fatalf("status %d, %s%s", s.status, s.out, s.errs)
	}
	lost := s.lost[0]
	if lost.Topic != "flushed" || lost.Partition != 1 || lost.Offset != 0 || lost.EndOffset < 1 {
		t.Errorf("lost %+v", lost)
	}
	cut, _ := strconv.ParseInt(said[1], 10, 64)
	held, _ := strconv.ParseInt(said[2], 10, 64)
	if at, err := os.Stat(log); err != nil || at.Size() != held-cut {
		t.Errorf("%d of %d bytes went, which leaves %v, %v", cut, held, at.Size(), err)
	}
	if v := verify(t, dir); v.status != 0 || !slices.ContainsFunc(v.findings, func(f found) bool {
		return strings.HasSuffix(f.File, ".orphan") && strings.HasPrefix(f.Reason, "mqd salvage has put it aside")
	}) {
		t.Errorf("verify: status %d, %+v", v.status, v.findings)
	}
	if kept := files(t, dir, "topics/flushed.*/1/*.orphan"); len(kept) != 1 {
		t.Errorf("kept %v", kept)
	}
	b := serve(t, dir, "--shards", "2")
	got := strings.Count(b.must("", "consume", "flushed"), "\n")
	if want := 3000 - int(lost.EndOffset-lost.Offset); got != want {
		t.Errorf("%d messages, expected %d", got, want)
	}
	b.must("", "verify")
	wants(t, oneLine(t, run(t, "", "salvage", "--data-dir", dir)), "a broker runs on", dir)
	b.must("more\n", "produce", "flushed")
	b.kill()
	if v := verify(t, dir); v.status != 0 {
		t.Errorf("verify behind a kill: status %d, %+v", v.status, v.findings)
	}
}

func TestSalvageNamesMistakes(t *testing.T) {
	dir := stopped(t)
	for _, c := range []struct {
		args []string
		part string
	}{
		{[]string{"--yes", "--dry-run"}, "exclude each other"},
		{[]string{"--partition", "1"}, "--partition needs --topic"},
		{[]string{"--topic", "t", "--partition", "-2"}, "--partition is -2"},
		{[]string{"--topic", "nosuch"}, `topic "nosuch" is not in`},
		{[]string{"--topic", "flushed", "--partition", "99"}, `nothing of partition 99 of topic "flushed" is in `},
		{[]string{"--topic", "nosuch", "--partition", "0"}, `topic "nosuch" is not in`},
	} {
		wants(t, oneLine(t, run(t, "", append([]string{"salvage", "--data-dir", dir}, c.args...)...)), c.part)
	}
	wants(t, oneLine(t, run(t, "", "salvage", "--data-dir", filepath.Join(dir, "none"))), "none: no data directory: it does not exist", fmt.Sprint(dir))
	for _, generation := range files(t, dir, "checkpoints/checkpoint-0.*") {
		flip(t, generation, 200)
	}
	wants(t, oneLine(t, run(t, "", "salvage", "--data-dir", dir)), "not whole", "checkpoint-0.a", "checkpoint-0.b")
}

// mqd verify and mqd salvage count the same partitions, also behind a kill, when only the
// journals know some, and where a directory is missing.
func TestVerifyAndSalvageCountTheSamePartitions(t *testing.T) {
	for _, kill := range []bool{false, true} {
		dir := filled(t, kill)
		for _, missing := range []bool{false, true} {
			if missing {
				if err := os.RemoveAll(files(t, dir, "topics/flushed.*/0")[0]); err != nil {
					t.Fatal(err)
				}
			}
			v, s := verify(t, dir), salvage(t, dir)
			if n := v.summary["partitions"]; n != s.summary["partitions"] || n == 0.0 {
				t.Errorf("killed %v, missing %v: verify counts %v, salvage %v", kill, missing, n, s.summary["partitions"])
			}
		}
	}
}
