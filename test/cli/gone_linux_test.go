package cli

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// lost waits for an error in the log that tells of a loss and names a file.
func (b *broker) lost(path string) {
	b.t.Helper()
	if !b.log.waitFor(func(all string) bool {
		return slices.ContainsFunc(strings.Split(all, "\n"), func(line string) bool {
			return strings.Contains(line, `"level":"ERROR"`) && strings.Contains(line, "LOSS DETECTED") && strings.Contains(line, path) && strings.Contains(line, "mqd salvage")
		})
	}) {
		b.t.Fatalf("no error that tells that %s is lost:\n%s", path, b.log)
	}
}

// TestABrokerServesBesideASegmentThatIsGone removes the newest segment of a partition: the
// broker starts, says so, and serves everything else; the partition takes messages, and what
// is lost is given up when somebody orders it.
func TestABrokerServesBesideASegmentThatIsGone(t *testing.T) {
	for name, killed := range map[string]bool{"stopped": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			dir, sent := stopped(t), 3000
			logs := files(t, dir, "topics/flushed.*/1/*.log")
			newest := logs[len(logs)-1] // of which the checkpoint knows
			if killed {
				b := serve(t, dir, "--shards", "2")
				b.must("one\ntwo\nthree\n", "produce", "flushed")
				b.kill()
				sent += 3
			}
			if err := os.Remove(newest); err != nil {
				t.Fatal(err)
			}
			if v := verify(t, dir); v.status != 2 {
				t.Errorf("verify: status %d, %+v", v.status, v.findings)
			}
			for n := range 2 {
				b := serve(t, dir, "--shards", "2")
				if n == 0 {
					b.lost(newest)
				}
				if strings.Count(b.must("", "consume", "written"), "\n") != 3000 {
					t.Error("another topic is not whole")
				}
				b.must("more\n", "produce", "flushed")
				sent++
				b.stop()
			}
			if v := verify(t, dir); v.status != 2 {
				t.Errorf("verify behind the starts: status %d, %+v", v.status, v.findings)
			}
			s := salvage(t, dir, "--yes")
			if s.status != 0 || len(s.lost) != 1 || s.lost[0].Topic != "flushed" || s.lost[0].Partition != 1 {
				t.Fatalf("salvage: status %d, %s%s", s.status, s.out, s.errs)
			}
			b := serve(t, dir, "--shards", "2")
			if got, want := strings.Count(b.must("", "consume", "flushed"), "\n"), sent-int(s.lost[0].EndOffset-s.lost[0].Offset); got != want {
				t.Errorf("%d messages, expected %d", got, want)
			}
			b.stop()
			if v := verify(t, dir); v.status != 0 {
				t.Errorf("verify behind the salvage: status %d, %+v", v.status, v.findings)
			}
		})
	}
}
