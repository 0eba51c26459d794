package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/test/process"
)

// command is mqd with arguments. It is killed when ctx ends.
func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.mqd, args...)
	cmd.SysProcAttr = process.Attributes()
	cmd.WaitDelay = time.Second
	return cmd
}

// tool runs mqd to its end and returns what it wrote.
func (d *demo) tool(ctx context.Context, args ...string) ([]byte, error) {
	cmd := d.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("mqd %s: %w: %s", args[0], err, strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), nil
}

// produced is what mqd produce -o json says.
type produced struct {
	Messages int64   `json:"messages"`
	Acked    int64   `json:"acknowledged"`
	Bytes    int64   `json:"bytes"`
	Seconds  float64 `json:"seconds"`
	Class    string  `json:"class"`
	Ack      struct {
		P50  int64 `json:"p50"`
		P99  int64 `json:"p99"`
		P999 int64 `json:"p99.9"`
	} `json:"ack_microseconds"`
}

// produce sends a file, and notes where its messages were acknowledged; the first
// of them has the number first.
func (d *demo) produce(ctx context.Context, addr, file string, first int, args ...string) (produced, error) {
	var p produced
	acks := file + ".acks"
	args = append([]string{"produce", topicName, "--server", addr, "--file", file, "--acks-file", acks, "-o", "json"}, args...)
	out, err := d.tool(ctx, args...)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return p, fmt.Errorf("mqd produce: %w in %q", err, out)
	}
	n, err := d.takeAcks(acks, first)
	if err == nil && int64(n) != p.Acked {
		err = fmt.Errorf("mqd produce says %d messages were acknowledged, and names %d", p.Acked, n)
	}
	return p, err
}

// takeAcks reads a file of acknowledgements into the ledger: partition, offset and
// number of the message in its file, from 1.
func (d *demo) takeAcks(path string, first int) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n := 0
	for s := bufio.NewScanner(f); s.Scan(); n++ {
		var partition int32
		var offset int64
		var number int
		if _, err := fmt.Sscan(s.Text(), &partition, &offset, &number); err != nil {
			return n, fmt.Errorf("%s: %q: %w", path, s.Text(), err)
		}
		if err := d.ledger.ack(partition, offset, first+number-1); err != nil {
			return n, err
		}
	}
	return n, nil
}

// message is a line of mqd consume -o json.
type message struct {
	Partition   int32   `json:"partition"`
	Offset      int64   `json:"offset"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"value_base64"`
}

// consume reads the whole topic with a process of its own and compares it with the
// ledger.
func (d *demo) consume(ctx context.Context, addr string) (*reading, time.Duration, error) {
	began := time.Now()
	cmd := d.command(ctx, "consume", topicName, "--server", addr, "-o", "json")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	r := d.ledger.read()
	parseErr := parse(pipe, r)
	_, _ = io.Copy(io.Discard, pipe) // whatever is left when a line made no sense
	if err := cmd.Wait(); err != nil {
		return nil, 0, fmt.Errorf("mqd consume: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	if err := errors.Join(parseErr, r.done()); err != nil {
		return nil, 0, err
	}
	return r, time.Since(began), nil
}

func parse(in io.Reader, to *reading) error {
	br := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := br.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("mqd consume: %w after %q", err, line)
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("mqd consume: %w in %q", err, line)
		}
		value := m.ValueBase64
		if m.Value != nil {
			value = []byte(*m.Value)
		}
		to.record(m.Partition, m.Offset, value)
	}
}
