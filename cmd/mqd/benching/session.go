package benching

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/agent"
	"github.com/mqd-broker/mqd/bench/figure"
	host "github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/bench/report"
	"github.com/spf13/cobra"
)

const (
	// floorTime is the length of each measurement of a floor.
	floorTime = 300 * time.Millisecond
	// floorFile and floorSize are the file and the write of the disk's floor.
	floorFile = 8 << 20
	floorSize = 4 << 10
)

// session is a measurement of one broker under way.
type session struct {
	tool   *tool
	ctx    context.Context
	p      platform
	out    io.Writer
	target bench.Target
	pid    int  // of the broker, 0 if it is not ours
	local  bool // the broker is on this machine
	admin  string
	// samples is how often broker and client are looked at, 0 for never.
	samples time.Duration
	live    io.Writer    // where a run under way is shown, nil for nowhere
	fleet   *agent.Fleet // nil if this process produces and consumes
	doc     *report.Document
}

// against measures the broker at --server, or one that is started for it and ended
// afterwards, and writes what do has added to the document.
func (t *tool) against(cmd *cobra.Command, f *runFlags, serve []string, do func(*session) error) error {
	ctx, end, p, err := t.begin(cmd)
	if err != nil {
		return err
	}
	defer end()
	s := &session{tool: t, ctx: ctx, p: p, out: cmd.OutOrStdout(), target: bench.Target{Addr: f.server}, admin: f.admin, local: true, samples: f.sampling(cmd)}
	if t.form == formText && f.live {
		s.live = liveTo(cmd.ErrOrStderr())
	}
	if file := filepath.Join(f.out, report.Name); f.out != "" && exists(file) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s is of an earlier measurement; the result of this one replaces it\n", file)
	}
	s.doc = &report.Document{Schema: report.Version, Verb: cmd.Name(), Args: os.Args[min(3, len(os.Args)):], Started: time.Now()}
	if f.server != "" {
		if len(serve) > 0 {
			return fmt.Errorf("%q: flags of serve are for a broker that bench starts, not for one at --server", serve)
		}
		// Before the floors are measured, for seconds.
		if s.target.Addr, err = t.needs.Reach(ctx, f.server); err != nil {
			return err
		}
		s.local = loopback(s.target.Addr)
		return s.measure(f, t.place(nil), do)
	}
	if addr, far := f.agents.far(); far {
		return fmt.Errorf("an agent at %s does not reach a broker that bench starts, which listens on the loopback interface: name one with --server", addr)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	b, err := host.StartBroker(ctx, program, t.dir, serve...)
	if err != nil {
		return err
	}
	s.target.Addr, s.pid = b.Addr, b.PID
	err = s.measure(f, t.place(host.PinnedCPUs("/", b.PID)), do)
	return errors.Join(err, b.Stop())
}

// exists reports whether there is something at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// loopback reports whether an address is one of this machine's loopback interface.
func loopback(addr string) bool {
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.IsLoopback()
}

func (s *session) measure(f *runFlags, place host.Placement, do func(*session) error) error {
	s.doc.Colocated = f.agents.colocated(s.target.Addr, s.local)
	if err := s.dial(&f.agents); err != nil {
		return err
	}
	if s.fleet != nil {
		defer s.fleet.Close()
	}
	h, err := s.tool.head(s.ctx, s.p, place, s.out)
	if err != nil {
		return err
	}
	s.doc.Host, s.doc.Jitter, s.doc.Placement = h.Host, h.Jitter, h.Placement
	if r, err := s.tool.needs.Check(s.tool.dir, s.pid); err == nil { // else it cannot be told
		s.doc.Check = r.Brief()
		s.tool.line(s.out, fmt.Sprintf("check    %s\n", s.doc.Check))
	}
	s.doc.Settings = s.settings()
	if f.floors && s.local {
		if err := s.floors(); err != nil {
			return err
		}
	}
	failed := do(s)
	if failed != nil && !errors.Is(failed, bench.ErrFailed) {
		return failed
	}
	if f.out != "" {
		failed = errors.Join(failed, report.Write(f.out, s.doc))
	}
	return s.tool.finish(s.out, s.doc, failed)
}

// floors measures what disk and network take by themselves.
func (s *session) floors() error {
	place := s.doc.Placement
	d, err := bench.OpenDisk(s.p, bench.DiskOptions{Dir: s.tool.dir, FileBytes: floorFile, Duration: floorTime, CPU: place.Server})
	if err != nil {
		return err
	}
	defer d.Remove()
	write, err := d.Measure(s.ctx, bench.DiskResult{Op: bench.DSYNC, Size: floorSize, Depth: 1, Idle: bench.Poll}, place.Client())
	if err != nil {
		return err
	}
	s.doc.Floors.Disk = append(s.doc.Floors.Disk, write)
	s.tool.line(s.out, fmt.Sprintf("floor    durable 4 KiB write       %s", write.Latency))
	for _, client := range []bench.Idle{bench.Poll, bench.Block} {
		trip, err := bench.PingPong(s.ctx, s.p, bench.NetOptions{Duration: floorTime, ServerCPU: place.Server, ClientCPU: place.Client()},
			bench.NetResult{Server: bench.Adaptive, Client: client, Depth: 1})
		if err != nil {
			return err
		}
		s.doc.Floors.Network = append(s.doc.Floors.Network, trip)
		s.tool.line(s.out, fmt.Sprintf("floor    round trip, client %-5s  %s", client, trip.RTT))
	}
	s.tool.line(s.out, "")
	return nil
}

// run makes one measurement; it is a bench.Runner.
func (s *session) run(ctx context.Context, load bench.Load) (*bench.Result, error) {
	before, known := s.cpu()
	scraped, end := s.scrape(ctx, load.Scrape)
	sampled := s.sample(scraped, s.samples)
	r, err := s.once(scraped, load)
	samples, stages := sampled()
	if broken := end(); broken != nil {
		err = broken // which has ended the run
	}
	if err != nil {
		return nil, err
	}
	r.Samples, r.Stages = samples, stages
	if after, ok := s.cpu(); ok && known && r.Sent > 0 {
		r.BrokerCPU = float64(after-before) / float64(r.Sent)
	}
	return r, nil
}

// once makes a measurement, here or on agents.
func (s *session) once(ctx context.Context, load bench.Load) (*bench.Result, error) {
	if s.live != nil {
		load.Live = &figure.Live{}
		look := load.Live.Look
		if s.fleet != nil {
			look = s.fleet.Look
		}
		defer show(ctx, s.live, look, livePeriod)()
	}
	if s.fleet != nil {
		return s.fleet.Run(ctx, s.target, load)
	}
	load.CPUs = s.doc.Placement.Clients
	return bench.Run(ctx, s.p, s.target, load)
}

// cpu is the CPU time that a broker of our own has used.
func (s *session) cpu() (time.Duration, bool) {
	if s.pid == 0 {
		return 0, false
	}
	used, err := host.CPUTime("/", s.pid)
	return used, err == nil
}

// take prints cases and puts them into the document. The error is that of cases
// whose messages did not come back.
func (s *session) take(cases []*bench.Case) error {
	var failed []error
	for _, c := range cases {
		s.tool.line(s.out, c.Text())
		failed = append(failed, c.Result.Err())
	}
	s.doc.Cases = append(s.doc.Cases, cases...)
	return errors.Join(failed...)
}
