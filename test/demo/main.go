package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// limit bounds the whole demonstration.
const limit = 2 * time.Minute

func main() {
	d := &demo{out: os.Stdout}
	flag.StringVar(&d.mqd, "mqd", "bin/mqd", "`path` of mqd")
	flag.StringVar(&d.file, "file", "test/demo/data/alerts.txt", "`path` of a file whose lines are sent")
	flag.StringVar(&d.parent, "dir", "demo-data", "`directory` for everything that is written, removed afterwards")
	flag.IntVar(&d.messages, "messages", 200_000, "`number` of generated messages in each pass")
	flag.Uint64Var(&d.seed, "seed", uint64(time.Now().UnixNano()), "what the generated messages are made from")
	flag.Parse()
	os.Exit(status(os.Stderr, d.run()))
}

// status says what an error means for whoever called.
func status(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(w, "\nFAILED: %v\n", err)
	return 1
}

// demo is one run.
type demo struct {
	out      io.Writer
	mqd      string
	file     string
	parent   string
	messages int
	seed     uint64

	dir     string
	step    int
	began   time.Time
	ledger  *ledger
	figures figures
}

// run does everything, and leaves nothing behind, however it ends.
func (d *demo) run() (err error) {
	if d.messages < 1000 {
		return fmt.Errorf("%d messages: expected at least 1000, or there is no middle in which to kill", d.messages)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, path := range []*string{&d.mqd, &d.file, &d.parent} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(d.parent, 0o755); err != nil {
		return err
	}
	if d.dir, err = os.MkdirTemp(d.parent, "run-"); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, os.RemoveAll(d.dir))
		_ = os.Remove(d.parent) // stays if it holds anything else
	}()
	d.began = time.Now()
	err = d.steps(ctx)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("not finished after %v: %w", limit, err)
	case ctx.Err() != nil:
		return errors.New("interrupted")
	}
	return err
}

// say begins a step.
func (d *demo) say(format string, args ...any) {
	d.step++
	fmt.Fprintf(d.out, "%2d. %s\n", d.step, fmt.Sprintf(format, args...))
}

// note adds to the step.
func (d *demo) note(format string, args ...any) {
	fmt.Fprintf(d.out, "    %s\n", fmt.Sprintf(format, args...))
}
