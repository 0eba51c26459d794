package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// inspected are the items that mqd inspect shows of a path, by type.
func inspected(t *testing.T, path string) map[string][]map[string]any {
	t.Helper()
	r := run(t, "", "inspect", path, "-o", "json")
	if r.status != 0 || r.errs != "" {
		t.Fatalf("status %d, %s", r.status, r.errs)
	}
	items := map[string][]map[string]any{}
	for line := range strings.Lines(r.out) {
		var it map[string]any
		if err := json.Unmarshal([]byte(line), &it); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		kind, _ := it["type"].(string)
		items[kind] = append(items[kind], it)
	}
	return items
}

func TestInspectShowsAWholeDirectory(t *testing.T) {
	dir := stopped(t)
	before := fingerprint(t, dir)
	items := inspected(t, dir)
	if fingerprint(t, dir) != before {
		t.Error("mqd inspect has changed something in the directory")
	}
	for _, kind := range []string{"file", "node", "header", "slots", "partition", "epoch", "anchor", "end", "batch", "command", "entry", "footer"} {
		if len(items[kind]) == 0 {
			t.Errorf("nothing is shown of type %q", kind)
		}
	}
	if n := len(items["damage"]); n > 0 {
		t.Errorf("%d damages in a whole directory, first %v", n, items["damage"][0])
	}
	records := 0.0
	for _, b := range items["batch"] {
		records += b["records"].(float64)
		if state := b["state"].(string); state != "whole" {
			t.Errorf("batch %v", b)
		}
	}
	if v := verify(t, dir); records != v.summary["records"] {
		t.Errorf("%v records in batches, mqd verify has read %v", records, v.summary["records"])
	}
	var names []string
	for _, c := range items["command"] {
		if name, ok := c["name"].(string); ok {
			names = append(names, name)
		}
	}
	if text := strings.Join(names, " "); text != "flushed written memory gone" {
		t.Errorf("the catalog's log creates %q", text)
	}
}

func TestInspectShowsTheRoundsOfAKilledBroker(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir, "--shards", "1")
	b.must("", "topic", "create", "t")
	b.must("one\n", "produce", "t")
	b.kill()
	path := filepath.Join(dir, "journals", "journal-0")
	items := inspected(t, path)
	kinds := map[string]int{}
	for _, e := range items["entry"] {
		kinds[e["kind"].(string)]++
		if state, ok := e["state"]; ok && state != "whole" {
			t.Errorf("entry %v", e)
		}
	}
	if len(items["anchor"]) != 2 || len(items["end"]) != 1 || kinds["batch"] < 2 || kinds["mark"] == 0 {
		t.Errorf("%d anchors, %d ends, entries %v", len(items["anchor"]), len(items["end"]), kinds)
	}
	text := run(t, "", "inspect", path).out
	wants(t, text, "round: lsn ", "entry: kind batch", "offset 0, ", "state whole", "end: position ")
}

func TestInspectNamesWhatItCannotShow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, oneLine(t, run(t, "", "inspect", path)), path, "neither its name nor its content")
	wants(t, oneLine(t, run(t, "", "inspect", path+".none")), "no such file")
}
