package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/test/process"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// apacheStart bounds the start of Apache Kafka, format of its directory included.
	apacheStart = 90 * time.Second
	// apacheLook is how often it is asked whether it serves.
	apacheLook = 100 * time.Millisecond
	// logShown is how much of its log goes into an error, bytes.
	logShown = 4 << 10
)

// errNoApache: Apache Kafka is not installed, or did not start.
var errNoApache = errors.New("Apache Kafka")

// apacheFlags are those that its own start script gives to the virtual machine.
var apacheFlags = []string{
	"-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
	"-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
}

// apache is one broker of Apache Kafka, which is its own controller.
type apache struct {
	addr    string
	version string
	pid     int
	log     string
	kill    func() error
	ended   chan struct{}
}

// installedApache is where test/interop/install.sh --broker puts Apache Kafka.
func installedApache() string {
	if dir := os.Getenv("MQD_INTEROP_DIR"); dir != "" {
		return filepath.Join(dir, "apache-kafka")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "mqd-interop", "apache-kafka")
}

// startApache starts the installed Apache Kafka on a new directory, which is the caller's,
// and waits until it serves. Kill ends it.
func startApache(ctx context.Context, installed, dir string) (_ *apache, err error) {
	version, err := os.ReadFile(filepath.Join(installed, "stamp"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w; test/interop/install.sh --broker installs it, where Java and Maven are", errNoApache, err)
	}
	var ports [2]string
	for i := range ports {
		if ports[i], err = freeAddress(); err != nil {
			return nil, err
		}
	}
	a := &apache{addr: ports[0], version: strings.TrimSpace(string(version)), log: filepath.Join(dir, "kafka.log"), ended: make(chan struct{})}
	settings := filepath.Join(dir, "server.properties")
	logging := filepath.Join(dir, "log4j.properties")
	for path, lines := range map[string][]string{settings: apacheSettings(ports, dir), logging: apacheLogging} {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return nil, err
		}
	}
	java := append(slices.Clone(apacheFlags), "-Dlog4j.configuration=file:"+logging, "-cp", filepath.Join(installed, "jars", "*"))
	ctx, cancel := context.WithTimeout(ctx, apacheStart)
	defer cancel()
	format := exec.CommandContext(ctx, "java", append(slices.Clone(java), "kafka.tools.StorageTool", "format", "-t", clusterID(), "-c", settings)...)
	if out, err := child(format); err != nil {
		return nil, fmt.Errorf("%w: format: %w: %s", errNoApache, err, out)
	}
	if err := a.start(exec.Command("java", append(slices.Clone(java), "kafka.Kafka", settings)...)); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoApache, err)
	}
	if err := a.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w: %s", errNoApache, err, a.tail()), a.kill())
	}
	return a, nil
}

// freeAddress is an address of the loopback interface that is free now. Another host of it
// each time makes it likely that it still is when somebody listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+mathrand.N(250), mathrand.N(250), 1+mathrand.N(250)))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// apacheSettings are the settings of a broker alone: Kafka's defaults, but for copies
// that it has nobody for, and for the wait for a group's second member.
func apacheSettings(ports [2]string, dir string) []string {
	return []string{
		"process.roles=broker,controller", "node.id=1", "controller.quorum.voters=1@" + ports[1],
		"listeners=PLAINTEXT://" + ports[0] + ",CONTROLLER://" + ports[1], "advertised.listeners=PLAINTEXT://" + ports[0],
		"controller.listener.names=CONTROLLER", "log.dirs=" + filepath.Join(dir, "data"),
		"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
		"group.initial.rebalance.delay.ms=0", "auto.create.topics.enable=false",
	}
}

var apacheLogging = []string{
	"log4j.rootLogger=WARN, out", "log4j.appender.out=org.apache.log4j.ConsoleAppender",
	"log4j.appender.out.layout=org.apache.log4j.PatternLayout", "log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n",
}

// clusterID is a random one in Kafka's form. It begins with a letter: what begins with a
// hyphen is taken for a flag.
func clusterID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // does not fail
	id[0] = 0
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// start starts the process on a thread that lives as long as it does, because the kernel
// ends it with that thread.
func (a *apache) start(cmd *exec.Cmd) error {
	out, err := os.Create(a.log)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = process.Attributes()
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed, or has said why in its log
			close(a.ended)
		}
		_ = out.Close() // only the child has written
	}()
	if err := <-started; err != nil {
		return err
	}
	a.pid = cmd.Process.Pid
	a.kill = func() error {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-a.ended
		return nil
	}
	return nil
}

// ready waits until the broker tells of itself.
func (a *apache) ready(ctx context.Context) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(a.addr))
	if err != nil {
		return err
	}
	defer c.Close()
	look := time.NewTicker(apacheLook)
	defer look.Stop()
	for {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{}
		if resp, err := req.RequestWith(ctx, c); err == nil && len(resp.Brokers) == 1 {
			return nil
		}
		select {
		case <-a.ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
}

// tail is the newest of the broker's log.
func (a *apache) tail() string {
	text, err := os.ReadFile(a.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-logShown):]))
}

// child runs a program that ends with this one, and returns what it has written.
func child(cmd *exec.Cmd) ([]byte, error) {
	cmd.SysProcAttr = process.Attributes()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.CombinedOutput()
}
