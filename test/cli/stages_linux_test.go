package cli

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/mqd-broker/mqd/admin"
)

// ask reads what a broker's admin address answers.
func ask[T any](t *testing.T, url string) (v T) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// socketTimes are how many batches a broker has parsed, how many of them it has timed from the
// kernel on, and how many it could not.
func socketTimes(t *testing.T, address string) (parsed, timed, unsound uint64) {
	t.Helper()
	for _, sh := range ask[[]admin.ShardStages](t, "http://"+address+admin.PathStages) {
		parsed += sh.Stages["parse"].Count
		timed += sh.Stages["socket"].Count
	}
	for _, sh := range ask[[]admin.ShardMetrics](t, "http://"+address+admin.PathShards) {
		n, ok := sh.Metrics["mqd_shard_unsound_times_total"]
		if !ok {
			t.Errorf("shard %d does not count what it cannot time", sh.Shard)
		}
		unsound += uint64(n)
	}
	return parsed, timed, unsound
}

// Every batch is timed from the kernel on if that is asked for, and where io_uring is not
// used, or it is not asked for, there is no such stage.
func TestBatchesAreTimedFromTheKernelOn(t *testing.T) {
	for name, args := range map[string][]string{
		"asked for":     {"--io", "uring", "--io-receive-times"},
		"not asked for": {"--io", "uring"},
		"portable":      {"--io", "portable", "--io-receive-times"},
	} {
		t.Run(name, func(t *testing.T) {
			asked, address := name == "asked for", withoutPort(t)
			b := serve(t, t.TempDir(), append(args, "--shards", "2", "--admin-listen", address)...)
			b.must("", "topic", "create", "t", "--partitions", "4")
			before, noted := uint64(0), uint64(0)
			for asked && noted == 0 { // the kernel begins some time after it has been asked to
				b.must("one\n", "produce", "t")
				parsed, timed, unsound := socketTimes(t, address)
				before, noted = parsed, timed+unsound
			}
			b.must("one\ntwo\nthree\n", "produce", "t")
			parsed, timed, unsound := socketTimes(t, address)
			switch {
			case parsed == before:
				t.Error("nothing has been parsed")
			case asked && timed+unsound-noted != parsed-before:
				t.Errorf("%d of %d batches are timed", timed+unsound-noted, parsed-before)
			case !asked && timed+unsound > 0:
				t.Errorf("a stage socket with %d batches, and %d could not be timed", timed, unsound)
			}
			for _, sh := range ask[[]admin.ShardStages](t, "http://"+address+admin.PathStages) {
				if _, there := sh.Stages["socket"]; there && !asked {
					t.Errorf("shard %d has a stage socket", sh.Shard)
				}
			}
			if name == "portable" && !b.log.wait("io.receive_times is for io_uring only") {
				t.Error("the log does not say that the setting is of no use")
			}
			b.stop()
		})
	}
}
