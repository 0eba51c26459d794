// Command kafkabench measures a broker that speaks Kafka's protocol, mqd among them, under
// the files of cases that mqd bench run --spec takes, and leaves the same results:
//
//	kafkabench -brokers 127.0.0.1:9092 -spec cases.yaml -out ./result
//
// kafkabench compare starts mqd and Apache Kafka, and runs one file of cases against mqd's
// two protocols and Apache Kafka, in turn; make compare-kafka calls it.
//
// Its figures are those of broker and client together, the client being franz-go. It is a
// module of its own so that franz-go stays out of mqd's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/bench/report"
	"github.com/mqd-broker/mqd/cmd/mqd/benching"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	verb, args := run, os.Args[1:]
	if len(args) > 0 && args[0] == "compare" {
		verb, args = compare, args[1:]
	}
	err := verb(ctx, args, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kafkabench:", err)
		os.Exit(1)
	}
}

// acks are what an acknowledgement can stand for. Whether it also stands for a flush is
// the broker's affair.
var acks = map[string]kgo.Acks{"all": kgo.AllISRAcks(), "leader": kgo.LeaderAck()}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("kafkabench", flag.ContinueOnError)
	brokers := flags.String("brokers", "127.0.0.1:9092", "addresses, with commas between them")
	spec := flags.String("spec", "", "file of cases")
	dir := flags.String("out", "", "directory for the results")
	ack := flags.String("acks", "all", "all or leader")
	repeat := flags.Int("repeat", 1, "times that each case is measured, in turn with the others")
	if err := flags.Parse(args); err != nil {
		return err
	}
	level, ok := acks[*ack]
	if !ok || *repeat < 1 {
		return fmt.Errorf("-acks %q, -repeat %d: expected all or leader, 1 or more", *ack, *repeat)
	}
	text, err := os.ReadFile(*spec)
	if err != nil {
		return err
	}
	loads, err := benching.ParseSpec(text)
	if err != nil {
		return err
	}
	for i := range loads {
		loads[i].Durability = fmt.Sprintf("Kafka's protocol, acks %s (flushed as the broker has it)", *ack)
	}
	d := &report.Document{
		Schema: report.Version, Verb: "kafkabench", Args: args, Started: time.Now(), Colocated: true,
		Host: machine.ReadHost("/", ".", machine.NoCPU, revision()), Placement: machine.Placement{Server: machine.NoCPU},
	}
	measure := func(ctx context.Context, load bench.Load) (*bench.Result, error) {
		return bench.RunPort(ctx, newPort(strings.Split(*brokers, ","), level, load, nil), load)
	}
	if d.Cases, err = bench.Interleave(ctx, measure, loads, *repeat); err != nil {
		return err
	}
	var failed []error
	for _, c := range d.Cases {
		fmt.Fprintln(out, c.Text())
		failed = append(failed, c.Result.Err())
	}
	if *dir != "" {
		failed = append(failed, report.Write(*dir, d))
	}
	return errors.Join(failed...)
}

// codec is franz-go's name of a codec.
func codec(c batch.Codec) kgo.CompressionCodec {
	switch c {
	case batch.CodecGzip:
		return kgo.GzipCompression()
	case batch.CodecSnappy:
		return kgo.SnappyCompression()
	case batch.CodecLz4:
		return kgo.Lz4Compression()
	case batch.CodecZstd:
		return kgo.ZstdCompression()
	default:
		return kgo.NoCompression()
	}
}

// revision names the program.
func revision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
