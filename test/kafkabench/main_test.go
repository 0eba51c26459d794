package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/bench/report"
	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
	"github.com/twmb/franz-go/pkg/kfake"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

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

// The same file of cases runs against both doors of one broker.
func TestTheSameCasesRunAgainstBothDoors(t *testing.T) {
	rig.NeedDriver(t)
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(250), rand.N(250), 1+rand.N(250)))
	if err != nil {
		t.Fatal(err)
	}
	kafka := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := process.Start(process.Config{
		Binary: rig.Binary(t), Dir: rig.DataDir(t),
		Args: []string{"--kafka-listen", kafka, "--shards", "1", "--idle", "block", "--journal-size", "16MiB"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Kill() })
	native, _, err := b.Ready(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	spec := filepath.Join(dir, "cases.yaml")
	if err := os.WriteFile(spec, []byte(cases), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, measure := range map[string]func(result string) ([]byte, error){
		"native": func(result string) ([]byte, error) {
			return exec.CommandContext(t.Context(), rig.Binary(t), "bench", "run", "--server", native, "--spec", spec, "--out", result, "--floors=false", "--repeat", "2").CombinedOutput()
		},
		"kafka": func(result string) ([]byte, error) {
			var out strings.Builder
			err := run(t.Context(), []string{"-brokers", kafka, "-spec", spec, "-out", result, "-repeat", "2"}, &out)
			return []byte(out.String()), err
		},
	} {
		result := filepath.Join(dir, name)
		if out, err := measure(result); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		d, err := report.Read(result)
		if err != nil || len(d.Cases) != 2 {
			t.Fatalf("%s: %d cases, error %v", name, len(d.Cases), err)
		}
		for _, c := range d.Cases {
			if r := c.Result; r.Acked < 1000 || r.Read != r.Acked || r.Faults.Any() || len(c.Rounds) != 2 {
				t.Errorf("%s: %s", name, c.Text())
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
