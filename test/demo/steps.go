package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/test/process"
)

const (
	topicName       = "alerts"
	topicPartitions = 4
	// lineRate is the rate at which the file is sent, in messages a second, unless
	// that takes more than a second: slow enough for batches of one.
	lineRate = 2000
	// killAfter is the share of the second pass, one part in so many, that is
	// acknowledged when the broker is killed.
	killAfter = 3
	// killRate is the rate of the second pass, in messages a second: slow enough
	// to be killed in its middle.
	killRate = 100_000
)

// broker starts the broker, or starts it again, and waits until it is ready.
func (d *demo) broker(ctx context.Context) (*process.Broker, string, time.Duration, error) {
	b, err := process.Start(process.Config{
		Binary: d.mqd, Dir: filepath.Join(d.dir, "broker"), Args: []string{"--log-format", "json"},
	})
	if err != nil {
		return nil, "", 0, err
	}
	addr, took, err := b.Ready(ctx)
	if err != nil {
		_ = b.Kill() // it has ended, or is in the way
		return nil, "", 0, err
	}
	return b, addr, took, nil
}

func (d *demo) steps(ctx context.Context) error {
	d.say("The floors of this machine, without a broker")
	if err := d.measure(ctx); err != nil {
		return err
	}
	d.note("durable write of 4 KiB: %v; TCP round trip: %v", d.figures.disk, d.figures.network)

	b, addr, took, err := d.broker(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = b.Kill() }() // does nothing to one that has ended
	d.say("mqd serve --data-dir %s", shorten(filepath.Join(d.dir, "broker")))
	d.note("ready after %v, listens on %s, process %d", took.Round(time.Millisecond), addr, b.PID())

	if err := d.createTopic(ctx, addr); err != nil {
		return err
	}
	if err := d.firstPass(ctx, addr); err != nil {
		return err
	}
	if err := d.readBack(ctx, addr); err != nil {
		return err
	}
	if err := d.secondPass(ctx, addr, b); err != nil {
		return err
	}
	again, addr, took, err := d.broker(ctx)
	if err != nil {
		return fmt.Errorf("the broker does not start again: %w", err)
	}
	defer func() { _ = again.Kill() }() // does nothing to one that has ended
	d.say("mqd serve, on the same directory")
	d.note("ready after %v: %s", took.Round(time.Millisecond), replayed(again))
	if err := d.readBack(ctx, addr); err != nil {
		return err
	}
	d.say("SIGTERM: the broker ends in order")
	if err := again.Stop(ctx); err != nil {
		return err
	}
	d.print()
	fmt.Fprintf(d.out, "\nPASSED in %v: %s messages acknowledged, and not one of them lost, changed, moved, repeated or out of order.\n",
		time.Since(d.began).Round(100*time.Millisecond), grouped(d.ledger.acked))
	return nil
}

func (d *demo) createTopic(ctx context.Context, addr string) error {
	d.say("mqd topic create %s --partitions %d --durability flushed", topicName, topicPartitions)
	out, err := d.tool(ctx, "topic", "create", topicName, "--partitions", fmt.Sprint(topicPartitions), "--durability", "flushed", "--server", addr)
	if err != nil {
		return err
	}
	d.note("%s", bytes.TrimSpace(out))
	d.ledger = newLedger(topicPartitions)
	return nil
}

// firstPass sends the file and the generated messages.
func (d *demo) firstPass(ctx context.Context, addr string) error {
	// Whoever compares has a copy of its own; the file may be anywhere.
	fileLines, size, err := readLines(d.file)
	if err != nil {
		return err
	}
	rate := max(lineRate, len(fileLines))
	d.say("mqd produce %s --file %s --rate %d", topicName, shorten(d.file), rate)
	link := filepath.Join(d.dir, "lines")
	if err := os.Symlink(d.file, link); err != nil {
		return err
	}
	if d.figures.file, err = d.produce(ctx, addr, link, d.ledger.send(fileLines), "--rate", fmt.Sprint(rate)); err != nil {
		return err
	}
	if err := d.mustBeAll(d.figures.file, len(fileLines)); err != nil {
		return err
	}
	d.note("%s lines, %s bytes with their newlines: all acknowledged as %s", grouped(len(fileLines)), grouped(size), d.figures.file.Class)

	d.say("mqd produce %s --input jsonl --file generated: %s messages of %d to %d random bytes", topicName, grouped(d.messages), leastSize, mostSize)
	generated := noise(d.messages, d.seed)
	path := filepath.Join(d.dir, "generated")
	if err := writeJSON(path, generated); err != nil {
		return err
	}
	p, err := d.produce(ctx, addr, path, d.ledger.send(generated), "--input", "jsonl")
	if err != nil {
		return err
	}
	d.figures.generated = p
	if err := d.mustBeAll(p, len(generated)); err != nil {
		return err
	}
	d.note("seed %d, %s bytes in %.2f s: all acknowledged as %s", d.seed, grouped(p.Bytes), p.Seconds, p.Class)
	return nil
}

// mustBeAll wants n messages acknowledged, each of them flushed.
func (d *demo) mustBeAll(p produced, n int) error {
	if p.Acked != int64(n) || p.Class != "flushed" {
		return fmt.Errorf("%d of %d messages were acknowledged, as class %q; expected all of them, as flushed", p.Acked, n, p.Class)
	}
	return nil
}

// readBack reads everything with a process of its own.
func (d *demo) readBack(ctx context.Context, addr string) error {
	d.say("mqd consume %s -o json: every byte, every offset, the order in each partition", topicName)
	r, took, err := d.consume(ctx, addr)
	if err != nil {
		return err
	}
	d.note("%s messages in %.2f s: all %s acknowledged ones are there as they were sent", grouped(r.read), took.Seconds(), grouped(d.ledger.acked))
	if r.extra > 0 {
		d.note("and %s more that were on their way when the broker died", grouped(r.extra))
	}
	return nil
}

// secondPass sends further messages and kills the broker in their middle.
func (d *demo) secondPass(ctx context.Context, addr string, b *process.Broker) error {
	d.say("Once more %s messages, and SIGKILL for the broker in their middle", grouped(d.messages))
	messages := noise(d.messages, d.seed+1)
	path := filepath.Join(d.dir, "second")
	if err := writeJSON(path, messages); err != nil {
		return err
	}
	first := d.ledger.send(messages)
	acks := path + ".acks"
	cmd := d.command(ctx, "produce", topicName, "--server", addr, "--input", "jsonl", "--file", path,
		"--acks-file", acks, "--rate", fmt.Sprint(killRate), "-o", "json")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := d.waitForAcks(ctx, acks, ended); err != nil {
		return errors.Join(err, b.Kill())
	}
	if err := b.Kill(); err != nil {
		return err
	}
	if err := <-ended; err == nil {
		return errors.New("the producer has not noticed that the broker was killed")
	}
	n, err := d.takeAcks(acks, first)
	if err != nil {
		return err
	}
	if n == 0 || n >= len(messages) {
		return fmt.Errorf("%d of %d messages were acknowledged: that was not the middle", n, len(messages))
	}
	d.note("killed process %d; the producer: %s", b.PID(), strings.TrimSpace(errs.String()))
	d.note("%s of %s messages had been acknowledged; what became of the others is unknown, and each may be there once", grouped(n), grouped(len(messages)))
	return nil
}

// waitForAcks waits until a part of the messages is acknowledged.
func (d *demo) waitForAcks(ctx context.Context, acks string, ended chan error) error {
	const line = len("0 12345 123456\n") // about
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if info, err := os.Stat(acks); err == nil && info.Size() >= int64(d.messages/killAfter*line) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return fmt.Errorf("the producer ended before the broker was killed: %v", err)
		}
	}
}

// replayed says what the broker logged about its recovery, before it was ready.
func replayed(b *process.Broker) string {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 1000 { // what it wrote has still to come through a pipe
		for text := range strings.Lines(b.LogTail()) {
			var line struct {
				Msg      string `json:"msg"`
				Replayed int    `json:"replayed"`
				Bytes    int64  `json:"replayed_bytes"`
			}
			if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "serving" {
				return fmt.Sprintf("%s batches of %s bytes brought from the journal to the segments", grouped(line.Replayed), grouped(line.Bytes))
			}
		}
		<-tick.C
	}
	return "it did not say what it recovered"
}

// shorten makes a path relative to the working directory where that is shorter.
func shorten(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && len(rel) < len(path) {
		return rel
	}
	return path
}
