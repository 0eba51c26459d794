package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/admin"
	"github.com/mqd-broker/mqd/admin/flight"
	"github.com/mqd-broker/mqd/cmd/mqd/placement"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/cmd/mqd/signals"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/node"
	"github.com/mqd-broker/mqd/tuning/wake"
	"github.com/spf13/cobra"
)

// gcPercent lets the Go heap grow to five times what is alive before it is
// collected: the heap is small, and every collection disturbs the shards.
const gcPercent = 400

// portableInstead is what the log says, with the reason, when the portable driver was
// not asked for.
const portableInstead = "the portable driver serves instead of io_uring, with the same guarantees and more latency"

// errAtOnce is the end of a broker that was told twice to stop.
var errAtOnce = errors.New("stopped at once by a second signal; the next start recovers")

func newServe() *cobra.Command {
	b := &broker{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a broker",
		Long: `Run a broker in the foreground until SIGTERM or SIGINT.

Every setting can be given as a flag, as an environment variable, or in a YAML file
of sections with keys (see mqd config print). Flags win over the environment, the
environment over the file, the file over the defaults. Sizes are written as 4096,
64KiB or 512MiB, durations as 200us, 100ms or 30s.

Environment variables that begin with MQD_ and are no settings are errors, but for
MQD_CONFIG, MQD_SERVER, MQD_ADMIN, and the names that Kubernetes makes for a service mqd,
such as MQD_PORT and MQD_SERVICE_HOST.

At the first signal the broker takes no more connections, finishes what is in
flight, flushes everything and writes a checkpoint; a second signal stops it at
once, and the next start recovers, as after a crash. SIGHUP reads the configuration
again; settings that need a restart are left as they are. Two equal signals within
100 ms, but for SIGHUP, are one.

While it runs, --admin-listen serves health, metrics and its state over HTTP; see
mqd admin. A log that has failed stays closed until mqd admin reopen, or a restart.

The log goes to standard error. The exit status is 0 after an orderly end, else 1.`,
		Example: `  mqd serve --data-dir ./data
  mqd serve --config /etc/mqd/mqd.yaml --log-format json
  MQD_JOURNAL__SIZE=64MiB mqd serve --data-dir ./data --listen 127.0.0.1:0 --ready-file addr`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b.reread = func() (*settings.Config, error) { return resolve(cmd) }
			var err error
			if b.cfg, err = b.reread(); err != nil {
				return err
			}
			return b.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	addSettingFlags(cmd)
	cmd.Flags().StringVar(&b.ready.path, "ready-file", "", "write the address to this `path` when clients can connect, for scripts that use port 0")
	cmd.Flags().IntVar(&b.ready.fd, "ready-fd", -1, "write the address to this open file `descriptor`, and close it, when clients can connect")
	return cmd
}

// platform is the machine with one of its drivers.
type platform interface {
	node.Platform
	// Blocking is the number of threads of a shard, beside its own, that are often
	// in a system call that blocks: Go's scheduler needs room for them.
	Blocking() int
	// Stamps reports whether connections are told when the kernel received.
	Stamps() bool
}

// broker is a run of mqd serve.
type broker struct {
	cfg    *settings.Config
	reread func() (*settings.Config, error)
	ready  readiness

	log     *slog.Logger
	level   slog.LevelVar
	signals <-chan os.Signal
	service *node.Service
	admin   *admin.Server // nil for none
	served  bool          // a node has come up and was not told to stop before

	settings atomic.Pointer[[]byte] // what the front tells of them
	recorder *flight.Recorder       // nil for none
	wake     wakeState
}

func (b *broker) run(ctx context.Context, errs io.Writer) error {
	b.openLog(errs)
	// Signals count from here on: one that comes while the data directory is
	// recovered stops the broker as well.
	received, stop := signals.Listen(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	b.signals = received
	defer b.ready.forget()
	b.service = node.NewService()
	defer b.closeAdmin()
	defer b.wake.release()
	if err := b.start(ctx); err != nil {
		return startTrouble(err, b.cfg)
	}
	if !b.served {
		return nil // told to stop before anything was served
	}
	if err := b.ready.tell(b.service.Addr()); err != nil {
		return errors.Join(err, b.stop(ctx))
	}
	var fresh chan func() // while the configuration is read
	var again bool        // it has to be read once more
	for {
		select {
		case <-b.service.Failed():
			b.log.Error("a shard has failed; stopping")
			return b.stop(ctx)
		case <-ctx.Done():
			return b.stop(context.WithoutCancel(ctx))
		case adopt := <-fresh:
			adopt()
			if fresh = nil; again {
				fresh, again = b.reload(), false
			}
		case sig := <-b.signals:
			switch {
			case sig != syscall.SIGHUP:
				b.log.Info("stopping", "signal", sig.String())
				return b.stop(ctx)
			case fresh != nil:
				again = true
			default:
				fresh = b.reload()
			}
		}
	}
}

func (b *broker) openLog(errs io.Writer) {
	b.setLevel()
	opts := &slog.HandlerOptions{Level: &b.level}
	var h slog.Handler = slog.NewTextHandler(errs, opts)
	if b.cfg.LogFormat == settings.LogJSON {
		opts.ReplaceAttr = withUnit
		h = slog.NewJSONHandler(errs, opts)
	}
	b.log = slog.New(h)
}

// withUnit has JSON say durations as text says them: a bare number has no unit.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func (b *broker) setLevel() {
	var level slog.Level
	_ = level.UnmarshalText([]byte(b.cfg.LogLevel)) // one of the setting's words
	b.level.Set(level)
}

// start checks what can be checked beforehand and starts the node. Without an
// error and without a node it was told to stop.
func (b *broker) start(ctx context.Context) error {
	if err := b.ready.prepare(); err != nil {
		return err
	}
	if err := checkHost(ctx, b.cfg); err != nil {
		return err
	}
	if err := checkListen(b.cfg); err != nil {
		return err
	}
	driver, instead, err := newPlatform(b.cfg.IO, b.cfg.ReceiveTimes)
	if err != nil {
		return err
	}
	if instead != nil {
		b.log.Warn(portableInstead, "reason", instead)
	}
	if b.cfg.DataDir, err = filepath.Abs(b.cfg.DataDir); err != nil {
		return err
	}
	if err := checkDataDir(b.cfg.DataDir); err != nil {
		return err
	}
	if err := checkPort(ctx, b.cfg, portLooks); err != nil {
		return err
	}
	b.wake.hold(b.cfg.WakeLimit, wake.Device, b.log)
	if err := b.openAdmin(); err != nil {
		return err
	}
	if b.cfg.KafkaAdvertise != "" && b.cfg.KafkaListen == "" {
		b.log.Warn("kafka.advertise is for nobody: Kafka clients are served with kafka.listen (--kafka-listen) only")
	}
	if inMemory(b.cfg.DataDir) {
		b.log.Warn("the data directory is in memory (tmpfs or ramfs): everything in it is gone when the machine restarts, whatever class it was acknowledged in", "directory", b.cfg.DataDir)
	}
	m, err := placement.Read("/", b.cfg.DataDir)
	if err != nil {
		return err
	}
	p, err := placement.Place(b.cfg, m)
	if err != nil {
		return err
	}
	notes, err := fitOpenFiles(b.cfg, p.Shards, openFilesLimit())
	if err != nil {
		return err
	}
	for _, w := range append(p.Warnings, notes...) {
		b.log.Warn(w)
	}
	err = b.startOn(ctx, driver, p)
	if errors.Is(err, aio.ErrNoDirect) && b.cfg.IO == settings.Auto {
		// io_uring through the page cache would do everything on threads of the
		// kernel, so that nothing is left of what it is for.
		if driver, _, e := newPlatform(settings.IOPortable, false); e == nil {
			b.log.Warn(portableInstead, "reason", err)
			err = b.startOn(ctx, driver, p)
		}
	}
	if err == nil && b.served {
		b.tellHost()
		b.log.Info("shards placed", "pinned_to", p.CPUs, "cpus", m.Allowed, "device_interrupts_on", m.Interrupt, "gomaxprocs", runtime.GOMAXPROCS(0))
	}
	return err
}

// startOn starts the node on a driver.
func (b *broker) startOn(ctx context.Context, driver platform, p placement.Placement) error {
	if b.cfg.ReceiveTimes && !driver.Stamps() {
		b.log.Warn("io.receive_times is for io_uring only: there is no stage socket")
	}
	p.MaxProcs += p.Shards * driver.Blocking()
	b.tuneRuntime(p)
	cfg := b.nodeConfig(p)
	cfg.Files = filesOfShard(b.cfg, p.Shards, openFilesLimit())
	return b.startNode(ctx, cfg, driver)
}

// startNode starts the node and listens to signals meanwhile.
func (b *broker) startNode(ctx context.Context, cfg node.Config, platform node.Platform) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- b.service.Start(ctx, cfg, platform) }()
	stopping := false
	for {
		select {
		case err := <-started:
			switch {
			case stopping && errors.Is(err, context.Canceled):
				return nil
			case stopping && err == nil:
				return b.stop(context.Background())
			}
			if b.served = err == nil; b.served && b.recorder != nil {
				b.recorder.Began()
			}
			return err
		case sig := <-b.signals:
			if sig == syscall.SIGHUP {
				continue // the configuration has just been read
			}
			if stopping {
				return errAtOnce
			}
			b.log.Info("stopping before the start is complete", "signal", sig.String())
			stopping = true
			cancel()
		}
	}
}

// tuneRuntime sets the Go runtime's limits, but for those that the environment
// sets itself.
func (b *broker) tuneRuntime(p placement.Placement) {
	fromEnv := os.Getenv("GOMAXPROCS") != ""
	if set := runtime.GOMAXPROCS(0); !fromEnv || set <= p.Shards {
		runtime.GOMAXPROCS(p.MaxProcs)
		if fromEnv {
			b.log.Warn("GOMAXPROCS of the environment is too small for the shards", "set", set, "used", p.MaxProcs)
		}
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(b.cfg.MemoryLimit)
	}
}

func (b *broker) nodeConfig(p placement.Placement) node.Config {
	c := b.cfg
	return node.Config{
		Dir: c.DataDir, Listen: c.Listen, KafkaListen: c.KafkaListen, KafkaAdvertise: c.KafkaAdvertise, KafkaIdleTimeout: c.KafkaIdleTimeout,
		KafkaRequestBytes: int(c.KafkaRequest), Classic: c.Classic(),
		Shards: p.Shards, CPUs: p.CPUs, Idle: p.Idle, Spin: c.Spin, LongTurn: c.TraceTurn, Slow: c.TraceStages,
		JournalBytes: c.JournalSize, CacheBytes: c.CacheSize, MaxMessageBytes: int(c.MaxMessageBytes),
		MaxConnections: c.MaxConnections, MaxConnectionsPerAddress: c.MaxConnectionsPerAddress, AcceptRate: c.AcceptRate,
		IdleTimeout: c.IdleTimeout, RecvBuffers: c.RecvBuffers,
		AutoCreate: c.AutoCreate, DefaultPartitions: c.Partitions, Groups: c.Groups(), GroupPartitions: c.GroupPartitions, GroupLogBytes: c.GroupLogBytes, ShutdownTimeout: c.ShutdownTimeout,
		ProducerMax: c.ProducerMax, ProducerExpiry: c.ProducerExpiry,
		DeleteOnFull: c.OnFull == settings.FullDelete, CompactionRate: c.CompactionRate, CompactionKeys: c.CompactionKeys,
		ScrubRate: c.ScrubRate, ScrubInterval: c.ScrubInterval,
		Version: version, Log: b.log,
	}
}

// reload reads the configuration. The result puts it into force. It is read beside, because
// a file on a filesystem that has stopped, or one that is a pipe, may take for ever, and other
// signals have to be heard meanwhile.
func (b *broker) reload() chan func() {
	fresh := make(chan func(), 1)
	go func() {
		c, err := b.reread()
		fresh <- func() { b.adopt(c, err) }
	}()
	return fresh
}

// adopt puts those changed settings into force that can be.
func (b *broker) adopt(c *settings.Config, err error) {
	if err != nil {
		b.log.Error("configuration not reloaded", "error", err)
		return
	}
	for _, s := range settings.Table() {
		switch {
		case c.Text(s.Name) == b.cfg.Text(s.Name):
		case s.Apply == settings.OnReload:
			if err := b.cfg.Adopt(s.Name, c); err != nil {
				b.log.Error("setting not reloaded", "setting", s.Name, "error", err)
			}
		default:
			b.log.Warn("changed setting needs a restart", "setting", s.Name, "now", b.cfg.Text(s.Name), "configured", c.Text(s.Name))
		}
	}
	b.setLevel()
	b.tellSettings()
	b.log.Info("configuration reloaded", "log_level", b.cfg.LogLevel)
}

// stop ends the running node in order, within the timeout, unless another signal comes.
func (b *broker) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.ShutdownTimeout)
	defer cancel()
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- b.service.Stop(ctx) }()
	for {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			b.log.Info("stopped", "took", time.Since(began).Round(time.Millisecond))
			return nil
		case sig := <-b.signals:
			if sig != syscall.SIGHUP {
				return errAtOnce
			}
		}
	}
}
