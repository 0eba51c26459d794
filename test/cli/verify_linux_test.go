package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// verdict is what mqd verify -o json tells.
type verdict struct {
	status   int
	errs     string
	findings []found
	summary  map[string]any
}

// found is a finding.
type found struct {
	Type, File, Topic, Reason string
	Partition                 int64
	Position, Offset          int64
	EndOffset                 int64 `json:"end_offset"`
	Known                     bool
}

// verify runs the verb on a directory and checks that it changes nothing there.
func verify(t *testing.T, dir string, args ...string) verdict {
	t.Helper()
	before := fingerprint(t, dir)
	r := run(t, "", append([]string{"verify", "--data-dir", dir, "-o", "json"}, args...)...)
	if after := fingerprint(t, dir); after != before {
		t.Error("mqd verify has changed something in the directory")
	}
	v := verdict{status: r.status, errs: r.errs}
	for line := range strings.Lines(r.out) {
		if !strings.Contains(line, `"type":"summary"`) {
			var f found
			if err := json.Unmarshal([]byte(line), &f); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			v.findings = append(v.findings, f)
			continue
		}
		if err := json.Unmarshal([]byte(line), &v.summary); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
	}
	return v
}

// fingerprint sums up names, sizes, times and content of all files.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "ballast" {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintln(sum, path, info.Size(), info.ModTime(), sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(sum.Sum(nil))
}

// damages are the findings that are damage.
func (v *verdict) damages() (list []found) {
	for _, f := range v.findings {
		if f.Type == "damage" {
			list = append(list, f)
		}
	}
	return list
}

// filled makes a data directory with sealed segments, open ones and a deleted topic.
// The broker has been killed, or stopped in order.
func filled(t *testing.T, kill bool) (dir string) {
	t.Helper()
	dir = t.TempDir()
	b := serve(t, dir, "--shards", "2")
	in := run(t, "", "generate", "messages", "--count", "3000").out
	for _, class := range []string{"flushed", "written", "memory"} {
		b.must("", "topic", "create", class, "--partitions", "3", "--durability", class, "--config", "segment.bytes=64KiB")
		b.must(in, "produce", class)
	}
	b.must("", "topic", "create", "gone")
	b.must(in, "produce", "gone")
	b.must("", "topic", "delete", "gone", "--yes")
	if kill {
		b.kill()
	} else {
		b.stop()
	}
	return dir
}

// orderly is the directory of a broker that was filled and stopped in order, made once.
var orderly string

// stopped is a copy of it.
func stopped(t *testing.T) string {
	t.Helper()
	if orderly == "" {
		made, dir := filled(t, false), filepath.Join(filepath.Dir(mqd), "orderly")
		if err := os.Rename(made, dir); err != nil {
			t.Fatal(err)
		}
		orderly = dir
	}
	return copied(t, orderly)
}

func TestVerifyFindsNothingInWhatABrokerLeaves(t *testing.T) {
	for _, kill := range []bool{false, true} {
		dir := filled(t, kill)
		for range 2 {
			v := verify(t, dir)
			if v.status != 0 || v.errs != "" || len(v.damages()) != 0 {
				t.Errorf("killed %v: status %d, %s, %+v", kill, v.status, v.errs, v.findings)
			}
			if v.summary["journals"] != 2.0 || v.summary["checkpoints"].(float64) < 2 {
				t.Errorf("killed %v: read %v", kill, v.summary)
			}
			if !kill && (v.summary["records"].(float64) < 9000 || v.summary["indexes"].(float64) < 3) {
				t.Errorf("stopped in order: read %v", v.summary)
			}
			// A later life leaves gaps, and epochs.
			b := serve(t, dir, "--shards", "2")
			b.must("more\n", "produce", "memory")
			b.kill()
		}
	}
}

func TestVerifySaysThatABrokerRuns(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir)
	wants(t, oneLine(t, run(t, "", "verify", "--data-dir", dir)), "a broker runs on", dir)
}

func TestVerifyNeedsADataDirectory(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		wants(t, oneLine(t, run(t, "", "verify", "--data-dir", dir)), "no data directory", dir, "--data-dir")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"verify", "salvage"} {
		wants(t, oneLine(t, run(t, "", verb, "--data-dir", file)), file+" cannot be read")
	}
}

func TestVerifyReadsTheTopicThatIsNamed(t *testing.T) {
	dir := stopped(t)
	all, one := verify(t, dir), verify(t, dir, "--topic", "written")
	if one.status != 0 || one.summary["partitions"] != 3.0 || one.summary["records"] != 3000.0 {
		t.Errorf("status %d, %s, read %v", one.status, one.errs, one.summary)
	}
	if all.summary["records"].(float64) <= 9000 { // and the catalog's
		t.Errorf("all: read %v", all.summary)
	}
	wants(t, oneLine(t, run(t, "", "verify", "--data-dir", dir, "--topic", "nosuch")), `topic "nosuch" is not in`)
}

// files are the files of a topic with a suffix, in order.
func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v, no file", pattern, err)
	}
	sort.Strings(paths)
	return paths
}

// flip changes one bit of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 4
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// copied makes a copy of a data directory.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestVerifyFindsDamageOfEachKind(t *testing.T) {
	const topic = "topics/flushed.*/0/"
	for _, c := range []struct {
		name   string
		harm   func(dir string) (path string)
		reason string
		topic  string
		offset int64 // of the damage, -1 where there is none
	}{
		{"node file", func(dir string) string {
			path := filepath.Join(dir, "mqd.node")
			flip(t, path, 20)
			return path
		}, "CRC", "", -1},
		{"checkpoint", func(dir string) string {
			path := files(t, dir, "checkpoints/checkpoint-0.*")[0]
			flip(t, path, 300)
			return path
		}, "CRC", "", -1},
		{"first anchor", func(dir string) string {
			path := filepath.Join(dir, "journals/journal-0")
			flip(t, path, 100)
			return path
		}, "anchor 0", "", -1},
		{"second anchor", func(dir string) string {
			path := filepath.Join(dir, "journals/journal-1")
			flip(t, path, 4096+100)
			return path
		}, "anchor 1", "", -1},
		{"batch of a sealed log", func(dir string) string {
			path := files(t, dir, topic+"*.log")[0]
			flip(t, path, 100)
			return path
		}, "crc", "flushed", 0},
		{"field that no batch's checksum covers", func(dir string) string {
			path := files(t, dir, topic+"*.log")[0]
			flip(t, path, 15)
			return path
		}, "epoch", "flushed", 0},
		{"batch of the open log", func(dir string) string {
			logs := files(t, dir, topic+"*.log")
			flip(t, logs[len(logs)-1], 100)
			return logs[len(logs)-1]
		}, "crc", "flushed", -2},
		{"log of the catalog", func(dir string) string {
			path := files(t, dir, "topics/__catalog.*/0/*.log")[0]
			flip(t, path, 70)
			return path
		}, "crc", "__catalog", 0},
		{"entry of an index", func(dir string) string {
			path := files(t, dir, topic+"*.index")[0]
			flip(t, path, 4096+5)
			return path
		}, "index damaged", "flushed", -1},
		{"region of an index", func(dir string) string {
			path := files(t, dir, topic+"*.index")[0]
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			flip(t, path, int64(len(b))-130)
			return path
		}, "index damaged", "flushed", -1},
		{"segment that is missing", func(dir string) string {
			path := files(t, dir, topic+"*.log")[1]
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			return strings.TrimSuffix(path, ".log") + ".index"
		}, "missing", "flushed", -2},
		{"open log that is cut", func(dir string) string {
			logs := files(t, dir, topic+"*.log")
			if err := os.Truncate(logs[len(logs)-1], 61); err != nil {
				t.Fatal(err)
			}
			return logs[len(logs)-1]
		}, "the checkpoint knows of", "", -1},
		{"partition that is missing", func(dir string) string {
			path := files(t, dir, topic)[0]
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			return path
		}, "missing", "flushed", 0},
		{"journal that cannot be opened", func(dir string) string {
			path := filepath.Join(dir, "journals/journal-0")
			flip(t, path, 100)
			flip(t, path, 4096+100)
			return path
		}, "anchor 1", "", -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := stopped(t)
			path, err := filepath.Rel(dir, c.harm(dir))
			if err != nil {
				t.Fatal(err)
			}
			v := verify(t, dir)
			if v.status != 2 || !strings.Contains(v.errs, "damaged places: ") {
				t.Errorf("status %d, %s", v.status, v.errs)
			}
			for _, f := range v.damages() {
				if f.File == path && f.Topic == c.topic && strings.Contains(f.Reason, c.reason) && (c.offset == -2 || f.Offset == c.offset) {
					return
				}
			}
			t.Errorf("%s: %q of topic %q at offset %d is not among %+v", path, c.reason, c.topic, c.offset, v.findings)
		})
	}
}

// An index is a cache: without one the log is as whole as its batches.
func TestVerifyTakesAMissingIndexForNoDamage(t *testing.T) {
	dir := stopped(t)
	if err := os.Remove(files(t, dir, "topics/flushed.*/0/*.index")[0]); err != nil {
		t.Fatal(err)
	}
	before := verify(t, orderly)
	v := verify(t, dir)
	if v.status != 0 || v.summary["unindexed"].(float64) != before.summary["unindexed"].(float64)+1 || v.summary["records"] != before.summary["records"] {
		t.Errorf("status %d, read %v, before %v, %+v", v.status, v.summary, before.summary, v.findings)
	}
}

// In these files every byte counts, whichever it is.
func TestVerifyFindsWhateverBitIsFlipped(t *testing.T) {
	const seed, flips = 1, 48
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := stopped(t)
	var paths []string
	for _, pattern := range []string{"mqd.node", "checkpoints/checkpoint-*", "topics/*/*/*.index", "journals/journal-?"} {
		paths = append(paths, files(t, dir, pattern)...)
	}
	for _, index := range files(t, dir, "topics/*/*/*.index") {
		// Regions cover every byte of a log that has a sealed index.
		if info, err := os.Stat(index); err == nil && info.Size() > 4096 {
			paths = append(paths, strings.TrimSuffix(index, ".index")+".log")
		}
	}
	for range flips {
		path := paths[rng.IntN(len(paths))]
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size := info.Size()
		if strings.HasPrefix(filepath.Base(path), "journal-") {
			size = 2 * 4096 // the anchors
		}
		at := rng.Int64N(size)
		flip(t, path, at)
		r := run(t, "", "verify", "--data-dir", dir)
		if file, err := filepath.Rel(dir, path); err != nil || r.status != 2 || !strings.Contains(r.out, file) {
			t.Errorf("seed %d: %s, byte %d of %d: status %d, %v\n%s", seed, file, at, size, r.status, err, r.out)
		}
		flip(t, path, at)
	}
	if r := run(t, "", "verify", "--data-dir", dir); r.status != 0 {
		t.Errorf("with all flipped back: %s", r.out)
	}
}

// Two generations are there so that one may be lost: what is in the other is whole.
func TestVerifyFindsALostGenerationAndReadsOn(t *testing.T) {
	dir := stopped(t)
	for _, path := range files(t, dir, "checkpoints/checkpoint-*") {
		if err := os.Truncate(path, 100); err != nil {
			t.Fatal(err)
		}
	}
	v := verify(t, dir)
	if v.status != 2 || v.summary["records"].(float64) < 9000 {
		t.Errorf("without any checkpoint: status %d, read %v, %+v", v.status, v.summary, v.findings)
	}
	for _, f := range v.damages() {
		if !strings.HasPrefix(f.File, "checkpoints/") {
			t.Errorf("damage that is none: %+v", f)
		}
	}
}

// A round that was durable and cannot be read is damage, also where nothing else is.
func TestVerifyFindsDamageInTheRoundsOfAJournal(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir, "--shards", "1")
	b.must("", "topic", "create", "t")
	const marker = "a message that is looked for in the journal"
	for range 5 {
		b.must(marker+"\n", "produce", "t")
	}
	b.kill()
	path := filepath.Join(dir, "journals/journal-0")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte(marker))
	if at < 0 {
		t.Fatal("the journal has none of the messages")
	}
	if v := verify(t, dir); v.status != 0 || v.summary["entries"].(float64) < 6 {
		t.Fatalf("status %d, %s, %v", v.status, v.errs, v.summary)
	}
	flip(t, path, int64(at))
	v := verify(t, dir)
	if list := v.damages(); v.status != 2 || len(list) != 1 || list[0].Topic != "t" || list[0].Offset != 0 || list[0].File != "journals/journal-0" {
		t.Errorf("status %d, %+v", v.status, v.findings)
	}
	out := run(t, "", "verify", "--data-dir", dir)
	wants(t, out.out, "DAMAGED: topic t partition 0: journals/journal-0 at bytes", "offset 0", "damaged places: 1,")
}

func TestVerifyReadsWhatABrokerServes(t *testing.T) {
	dir := stopped(t)
	path := files(t, dir, "topics/flushed.*/1/*.log")[0]
	b := serve(t, dir, "--shards", "2")
	out := b.must("", "verify", "-o", "json")
	wants(t, out, `"type":"summary"`, `"partitions":9`, `"records":9000`, `"damages":0`)
	wants(t, b.must("", "verify", "--topic", "written"), "read: 3 partitions with", " 3,000 records ", "whole: nothing is damaged")
	wants(t, b.fails("", "verify", "--topic", "nosuch"), `topic "nosuch" does not exist`)
	b.stop()

	// One batch of a sealed log is damaged: the broker says which, and the rest is read.
	flip(t, path, 100)
	v := verify(t, dir)
	lost := v.damages()
	if len(lost) != 1 || lost[0].Offset != 0 || lost[0].EndOffset < 1 {
		t.Fatalf("offline: %+v", lost)
	}
	b = serve(t, dir, "--shards", "2")
	r := run(t, "", "verify", "--server", b.addr, "-o", "json")
	if r.status != 2 {
		t.Errorf("status %d, %s", r.status, r.errs)
	}
	wants(t, r.out, `"type":"damage","topic":"flushed","partition":1,"position":-1,"end_position":-1,`,
		fmt.Sprintf(`"offset":0,"end_offset":%d`, lost[0].EndOffset), fmt.Sprintf(`"records":%d`, 9000-lost[0].EndOffset))
	b.stop()
	wants(t, oneLine(t, run(t, "", "verify", "--server", b.addr)), "no broker listens at")
	wants(t, oneLine(t, run(t, "", "verify", "--server", b.addr, "--data-dir", dir)), "exclude each other")
}
