package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/cmd/mqd/signals"
	"github.com/mqd-broker/mqd/internal/messages"
	"github.com/mqd-broker/mqd/internal/quantity"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/spf13/cobra"
)

// produce is the verb that sends messages.
type produce struct {
	server        *server
	format        formatFlag
	topic         string
	input         string
	file          string
	acksFile      string
	keySeparator  string
	partition     int32
	rate          float64
	batchMessages int
	compression   string
	minClass      string
}

// codecs are the words of --compression.
var codecs = map[string]client.Codec{
	"none":   client.CompressNone,
	"gzip":   client.CompressGzip,
	"snappy": client.CompressSnappy,
	"lz4":    client.CompressLZ4,
	"zstd":   client.CompressZstd,
}

const codecNames = "none, gzip, snappy, lz4, zstd"

func newProduce() *cobra.Command {
	p := &produce{}
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Send lines or JSON lines as messages",
		Long: `Send messages from standard input, or from --file, until its end, and wait until
every one is acknowledged. Then print a summary: messages, bytes, time, how long
acknowledgements took, and the weakest durability class that one has reached.

With --input lines every line is a message, byte for byte, without its newline.
With --input jsonl every line is a JSON object:

  {"key": "k", "value": "v", "headers": [{"key": "h", "value": "x"}], "partition": 3}

All fields may be missing; null is no key or no value. What is not text is given in
base64 as key_base64 and value_base64. "timestamp" is in milliseconds since 1970.
"offset" is ignored, so that the output of mqd consume -o json can be sent again.
"partition" is not: every message goes where it was, and the other topic needs as many
partitions as the first one. --partition sends all to one.

The first failure ends the command: the exit status is 1, and the error says how
many messages were acknowledged. Those that were not may be in the topic or not.

How long an acknowledgement took is measured for each batch, from when its first
message was read until the answer, and counted for all of its messages.`,
		Example: `  echo hello | mqd produce orders
  mqd produce orders --file orders.txt --key-separator ':' --compression zstd
  mqd generate messages --count 1000000 | mqd produce orders --rate 100000
  mqd consume orders -o json | mqd produce copy --input jsonl
  mqd produce orders --file orders.txt --acks-file acks.txt --min-class flushed`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.topic = args[0]
			return p.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	p.server = addServer(cmd)
	cmd.ValidArgsFunction = p.server.topicNames
	f := cmd.Flags()
	f.StringVar(&p.input, "input", "lines", "`form` of the input: lines, jsonl")
	f.StringVarP(&p.file, "file", "f", "", "read from this `path` instead of standard input")
	f.StringVar(&p.keySeparator, "key-separator", "", `with lines: what is before the first separator is the key; \t is a tab`)
	f.Int32VarP(&p.partition, "partition", "p", -1, "send everything to this `partition`, whatever records say; -1 is by key, else spread")
	f.Float64Var(&p.rate, "rate", 0, "`messages` a second, evenly spaced; 0 is as fast as possible")
	f.IntVar(&p.batchMessages, "batch-messages", 0, "`messages` that make a batch go although another is in flight; 0 is the client's default, 64")
	f.StringVar(&p.compression, "compression", "none", "compression of batches, a `codec`: "+codecNames)
	f.StringVar(&p.minClass, "min-class", "", "refuse a topic whose durability `class` is weaker: flushed, written, memory")
	f.StringVar(&p.acksFile, "acks-file", "", "write to this `path` a line for each acknowledged message: partition, offset, number in the input; for audits")
	completeClasses(cmd, "min-class")
	p.format.add(cmd, formatText, formatJSON)
	return cmd
}

// options are the producer's.
func (p *produce) options() ([]client.ProducerOption, error) {
	codec, ok := codecs[p.compression]
	if !ok {
		return nil, fmt.Errorf("--compression is %q, expected one of %s", p.compression, codecNames)
	}
	class, err := parseClass("min-class", p.minClass)
	if err != nil {
		return nil, err
	}
	opts := []client.ProducerOption{client.WithCompression(codec), client.WithMinClass(class)}
	switch {
	case p.rate < 0:
		return nil, fmt.Errorf("--rate is %v, expected 0 or more", p.rate)
	case p.partition < -1:
		return nil, fmt.Errorf("--partition is %d, expected 0 or more, or -1 for none in particular", p.partition)
	case p.batchMessages < 0:
		return nil, fmt.Errorf("--batch-messages is %d, expected 0 or more", p.batchMessages)
	case p.batchMessages > 0:
		opts = append(opts, client.WithBatchMessages(p.batchMessages))
	}
	if p.partition >= 0 {
		opts = append(opts, client.WithPartition(p.partition))
	}
	return opts, nil
}

// source opens the input.
func (p *produce) source(in io.Reader) (messages.Reader, error) {
	sep := p.keySeparator
	if strings.Contains(sep, `\`) {
		var err error
		if sep, err = strconv.Unquote(`"` + sep + `"`); err != nil {
			return nil, fmt.Errorf("--key-separator %q: %w", p.keySeparator, err)
		}
	}
	switch {
	case p.input == "lines":
		return messages.NewLineReader(in, []byte(sep)), nil
	case p.input != "jsonl":
		return nil, fmt.Errorf("--input is %q, expected lines or jsonl", p.input)
	case sep != "":
		return nil, errors.New("--key-separator is for --input lines; JSON lines have a field \"key\"")
	}
	return messages.NewJSONReader(in), nil
}

func (p *produce) run(ctx context.Context, in io.Reader, out, errs io.Writer) (err error) {
	opts, err := p.options()
	if err != nil {
		return err
	}
	if p.file != "" {
		f, err := os.Open(p.file)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	src, err := p.source(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer signals.OnInterrupt(cancel)()

	t := newTally(cancel)
	c, err := p.server.dial(ctx, client.WithHooks(client.Hooks{OnSend: t.sent}))
	if err != nil {
		return err
	}
	defer p.server.close(c)
	chosen := &messages.Chooser{Wanted: messages.AnyPartition}
	if p.input == "jsonl" && p.partition < 0 {
		opts = append(opts, client.WithPartitioner(chosen.Partition))
	}
	producer, err := c.Producer(p.topic, opts...)
	if err != nil {
		return p.server.explain(err)
	}
	var acks *ackLog
	if p.acksFile != "" {
		if acks, err = openAckLog(p.acksFile, cancel); err != nil {
			return err
		}
	}
	s := &sending{p: p, src: src, producer: producer, chosen: chosen, acks: acks, tally: t}
	watched := make(chan struct{})
	watching, unwatch := context.WithCancel(ctx)
	go func() {
		defer close(watched)
		t.watch(watching, p.server.timeout, errs)
	}()
	err = s.all(ctx)
	// Whatever has no answer by now gets none: closing ends it.
	if err != nil {
		ended, end := context.WithCancel(context.Background())
		end()
		_ = c.Close(ended)
	}
	unwatch()
	<-watched
	if acks != nil {
		err = errors.Join(err, acks.close())
	}
	return p.finish(out, t, err)
}

// errShort is an end that nothing has gone wrong for, as far as anybody was told,
// and that not all messages are acknowledged at.
var errShort = errors.New("the others came to no end that the client has told")

// finish reports what came of it.
func (p *produce) finish(out io.Writer, t *tally, err error) error {
	r := t.report()
	if err == nil && r.Acked < r.Messages {
		err = errShort
	}
	if err != nil {
		if cause := p.server.explain(t.cause(err)); r.Acked < r.Messages {
			return &trouble{fmt.Sprintf("%s of %s acknowledged: %v", quantity.Grouped(r.Acked), quantity.Of(r.Messages, "message", "messages"), cause), err}
		}
		if r.Messages == 0 {
			return fmt.Errorf("nothing was sent: %w", p.server.explain(t.cause(err)))
		}
		return fmt.Errorf("all %s messages that were read are acknowledged: %w", quantity.Grouped(r.Messages), p.server.explain(t.cause(err)))
	}
	if p.format.text == formatJSON {
		return printJSON(out, r)
	}
	_, err = fmt.Fprintln(out, r)
	return err
}

// sending is the way of messages from the input to the producer.
type sending struct {
	p        *produce
	src      messages.Reader
	producer *client.Producer
	chosen   *messages.Chooser
	acks     *ackLog
	tally    *tally

	mu sync.Mutex // held while a message is given to the producer
}

// all sends every message and waits for the acknowledgements. The error is nil
// if all are acknowledged. ctx ends with the first failure.
func (s *sending) all(ctx context.Context) error {
	fed := make(chan error, 1)
	go func() { fed <- s.feed(ctx) }()
	var err error
	select {
	case err = <-fed:
	case <-ctx.Done(): // whoever feeds may wait for input that never comes
	}
	// Nobody is at a message now, and none is begun when ctx has ended.
	s.mu.Lock()
	defer s.mu.Unlock()
	flushed := s.producer.Flush(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, signals.ErrInterrupted) || answered(err) {
		// The broker is there: what was read gets its answer.
		patient, end := context.WithTimeout(context.WithoutCancel(ctx), s.p.server.timeout)
		defer end()
		_ = s.producer.Flush(patient) // the first failure is reported
		return err
	}
	if err == nil {
		err = flushed
	}
	return err
}

// answered reports whether err is the broker's own answer.
func answered(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && e.Code != wire.CodeNone
}

// feed sends messages until the input ends.
func (s *sending) feed(ctx context.Context) error {
	pace := newPacer(s.p.rate)
	for {
		m, err := s.src.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := pace.wait(ctx); err != nil {
			return err
		}
		if err := s.one(ctx, &m); err != nil {
			return err
		}
	}
}

// one sends one message.
func (s *sending) one(ctx context.Context, m *messages.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if m.Partition >= 0 && s.p.partition < 0 && int(m.Partition) >= s.producer.Partitions() {
		return fmt.Errorf("message %d names partition %d, topic %s has %d", s.tally.read.Load()+1, m.Partition, s.p.topic, s.producer.Partitions())
	}
	s.chosen.Wanted = m.Partition
	ticket, err := s.producer.Append(ctx, m.Record)
	if errors.Is(err, client.ErrTooLarge) {
		return &trouble{fmt.Sprintf("message %d of the input, %d bytes, is too large for this broker (--max-message-bytes of mqd serve): %s",
			s.tally.read.Load()+1, len(m.Key)+len(m.Value), strings.TrimPrefix(err.Error(), "mqd: ")), err}
	}
	if err != nil {
		return err
	}
	s.tally.took(len(m.Key) + len(m.Value))
	if s.acks != nil {
		s.acks.expect(ctx, ticket)
	}
	return nil
}

// pacer spaces messages evenly from the first one on, whatever the broker does.
type pacer struct {
	interval float64 // nanoseconds
	began    time.Time
	n        float64
}

// newPacer returns nil for rate 0, which never waits.
func newPacer(rate float64) *pacer {
	if rate == 0 {
		return nil
	}
	return &pacer{interval: float64(time.Second) / rate}
}

// wait returns when the next message is due.
func (p *pacer) wait(ctx context.Context) error {
	if p == nil {
		return nil
	}
	if p.began.IsZero() {
		p.began = time.Now()
	}
	early := time.Until(p.began.Add(time.Duration(p.n * p.interval)))
	p.n++
	if early <= 0 {
		return nil
	}
	timer := time.NewTimer(early)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
