package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// floor is a latency of the machine alone, in nanoseconds.
type floor struct {
	P50 int64 `json:"p50_ns"`
	P99 int64 `json:"p99_ns"`
}

// String is the floor for people.
func (f floor) String() string { return fmt.Sprintf("p50 %s, p99 %s", micros(f.P50), micros(f.P99)) }

// micros writes nanoseconds.
func micros(ns int64) string {
	return time.Duration(ns).Round(100 * time.Nanosecond).String()
}

// figures are what the run measured.
type figures struct {
	file, generated produced
	disk, network   floor
	machine         string
}

// measure has mqd measure the machine without a broker.
func (d *demo) measure(ctx context.Context) error {
	out, err := d.tool(ctx, "bench", "disk", "--ops", "dsync", "--sizes", "4KiB", "--depths", "1", "--idle", "poll",
		"--file-size", "16MiB", "--duration", "500ms", "--dir", d.dir, "-o", "json")
	if err != nil {
		return err
	}
	var disk struct {
		Host struct {
			Kernel, CPU, Filesystem, Device string
			CPUs                            int
		}
		Disk []struct{ Latency floor }
	}
	if err := json.Unmarshal(out, &disk); err != nil {
		return fmt.Errorf("mqd bench disk: %w", err)
	}
	out, err = d.tool(ctx, "bench", "net", "--depths", "1", "--client", "poll", "--server-idle", "adaptive", "--duration", "500ms", "-o", "json")
	if err != nil {
		return err
	}
	var network struct{ Network []struct{ RTT floor } }
	if err := json.Unmarshal(out, &network); err != nil {
		return fmt.Errorf("mqd bench net: %w", err)
	}
	if len(disk.Disk) == 0 || len(network.Network) == 0 {
		return errors.New("mqd bench has measured nothing")
	}
	d.figures.disk, d.figures.network = disk.Disk[0].Latency, network.Network[0].RTT
	h := disk.Host
	d.figures.machine = fmt.Sprintf("%d × %s, Linux %s, %s on %s", h.CPUs, h.CPU, h.Kernel, h.Filesystem, h.Device)
	return nil
}

// print writes the figures.
func (d *demo) print() {
	f := &d.figures
	row := func(name, text string) { fmt.Fprintf(d.out, "    %-22s %s\n", name, text) }
	fmt.Fprintf(d.out, "\nFigures of this machine (%s); they decide nothing:\n", f.machine)
	g := f.generated
	row("throughput", fmt.Sprintf("%s messages/s, %.1f MB/s: %s messages of %d to %d bytes, one producer, as fast as it reads JSON",
		grouped(int64(float64(g.Messages)/g.Seconds)), float64(g.Bytes)/g.Seconds/1e6, grouped(g.Messages), leastSize, mostSize))
	row("  its acks", ackText(g))
	row("acks of the file", ackText(f.file)+", at an even rate")
	row("class reached", g.Class)
	row("disk, 4 KiB DSYNC", f.disk.String())
	row("TCP round trip", f.network.String())
}

func ackText(p produced) string {
	return fmt.Sprintf("p50 %v, p99 %v, p99.9 %v", us(p.Ack.P50), us(p.Ack.P99), us(p.Ack.P999))
}

func us(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// grouped writes a number with a comma after every three digits.
func grouped[T int | int64](n T) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
