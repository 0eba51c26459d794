package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/bench/report"
	"github.com/twmb/franz-go/pkg/kfake"
)

const cases = `
version: 1
all: {messages: 500, duration: 1m, warmup: 0s, partitions: 3}
cases:
  - {name: open, rate: 5000, arrival: poisson, keys: 10}
  - {name: closed, depth: 64, batch-messages: 16, codec: lz4, compressible: 0.5}
`

func TestTheSameCasesRunAgainstABrokerOfKafkasProtocol(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dir := t.TempDir()
	spec, result := filepath.Join(dir, "cases.yaml"), filepath.Join(dir, "result")
	if err := os.WriteFile(spec, []byte(cases), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, acks := range []string{"all", "leader"} {
		var out strings.Builder
		if err := run(t.Context(), []string{"-brokers", strings.Join(c.ListenAddrs(), ","), "-spec", spec, "-out", result, "-acks", acks, "-repeat", "2"}, &out); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		d, err := report.Read(result)
		if err != nil || len(d.Cases) != 2 {
			t.Fatalf("%d cases, error %v", len(d.Cases), err)
		}
		for _, c := range d.Cases {
			r := c.Result
			if r.Acked < 1000 || r.Read != r.Acked || r.Faults.Any() || len(c.Rounds) != 2 || !strings.Contains(r.Title, "acks "+acks) {
				t.Errorf("%s", c.Text())
			}
		}
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-acks", "none"}, {"-repeat", "0"}, {"-spec", "none.yaml"}} {
		if err := run(t.Context(), args, os.Stdout); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
