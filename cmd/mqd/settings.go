package main

import (
	"strings"
	"time"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/node"
)

// options is what mqd serve can be told.
type options struct {
	DataDir         string
	Listen          string
	Insecure        bool
	MaxConnections  int
	IdleTimeout     time.Duration
	RecvBuffers     int
	Shards          int   // 0: chosen by the machine
	CPUs            []int // none: chosen by the machine
	Pin             string
	Idle            string
	Spin            time.Duration
	IO              string
	JournalSize     int64 // 0: chosen by the filesystem
	CacheSize       int64
	MemoryLimit     int64
	MaxMessageBytes int64
	AutoCreate      bool
	Partitions      int
	ShutdownTimeout time.Duration
	LogFormat       string
	LogLevel        string
}

// apply says when a changed setting is in force.
type apply uint8

const (
	// onRestart: at the next start.
	onRestart apply = iota
	// onReload: when a running broker gets SIGHUP, or at the next start.
	onReload
)

// setting is one row of the table from which flags, environment variables, the
// configuration file, help texts and documents are made.
type setting struct {
	// name is section.key, as in the file.
	name string
	// flag is the name of the flag, without dashes.
	flag string
	// def is the default, as people write it.
	def   string
	value value
	apply apply
	help  string
}

// env is the environment variable of a setting.
func (s *setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, ".", "__"))
}

// Words of settings.
const (
	pinOn, pinOff                     = "on", "off"
	idleAdaptive, idleBusy, idleBlock = "adaptive", "busy", "block"
	ioURing, ioPortable               = "uring", "portable"
	logText, logJSON                  = "text", "json"
)

// Settings that the program speaks of by name.
const (
	nameListen         = "net.listen"
	nameInsecure       = "net.insecure"
	nameMaxConnections = "net.max_connections"
	nameIdle           = "shard.idle"
	nameLogLevel       = "log.level"
)

// settings is the table; the values are stored into o.
func settings(o *options) []setting {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	return []setting{
		{name: "data.dir", flag: "data-dir", def: "/var/lib/mqd", value: textValue{&o.DataDir},
			help: "directory of all data; it is made if it is missing"},

		{name: nameListen, flag: "listen", def: "127.0.0.1:7878", value: textValue{&o.Listen},
			help: "address of the batch protocol, host:port; port 0 takes a free one"},
		{name: nameInsecure, flag: "insecure", def: "false", value: switchValue{&o.Insecure},
			help: "allow an address that other machines can reach, although nothing is authenticated or encrypted yet"},
		{name: nameMaxConnections, flag: "max-connections", def: "10000", value: countValue{to: &o.MaxConnections, min: 1, max: 1_000_000},
			help: "most connections at a time"},
		{name: "net.idle_timeout", flag: "idle-timeout", def: "2m", value: durationValue{&o.IdleTimeout, time.Second, 24 * time.Hour},
			help: "close a connection that is silent for so long"},
		{name: "net.recv_buffers", flag: "recv-buffers", def: "256", value: countValue{to: &o.RecvBuffers, min: 16, max: 4096, power: true},
			help: "receive buffers of each shard, 64KiB each, a power of two"},

		{name: "shard.count", flag: "shards", def: auto, value: countValue{to: &o.Shards, min: 1, max: node.MaxShards, auto: true},
			help: "number of shards; auto is one less than there are physical cores, at least 1"},
		{name: "shard.cpus", flag: "cpus", def: auto, value: cpusValue{&o.CPUs},
			help: "CPUs for shards, the first shard's first; auto begins with the one that handles the data device's interrupts"},
		{name: "shard.pin", flag: "pin", def: auto, value: wordValue{&o.Pin, []string{auto, pinOn, pinOff}},
			help: "tie each shard to a CPU; auto does where that leaves one for everything else"},
		{name: nameIdle, flag: "idle", def: idleAdaptive, value: wordValue{&o.Idle, []string{idleAdaptive, idleBusy, idleBlock}},
			help: "what a shard without work does: poll for a while and then sleep, never sleep, or sleep at once"},
		{name: "shard.spin", flag: "spin", def: formatDuration(shard.DefaultSpin), value: durationValue{&o.Spin, time.Microsecond, 10 * time.Millisecond},
			help: "how long an adaptive shard polls before it sleeps"},

		{name: "io.driver", flag: "io", def: auto, value: wordValue{&o.IO, []string{auto, ioURing, ioPortable}},
			help: "how files and sockets are used; auto is uring"},

		{name: "journal.size", flag: "journal-size", def: auto, value: sizeValue{to: &o.JournalSize, min: node.MinJournalBytes, max: 64 * gib, step: 4 * kib, auto: true},
			help: "size of each shard's journal; auto is the least of 256MiB, 512MiB / shards and 5 % of the filesystem, at least 8MiB"},
		{name: "cache.size", flag: "cache-size", def: "128MiB", value: sizeValue{to: &o.CacheSize, min: 4 * mib, max: 1024 * gib},
			help: "memory for the newest bytes of partitions, all shards together"},
		{name: "memory.limit", flag: "memory-limit", def: "512MiB", value: sizeValue{to: &o.MemoryLimit, min: 64 * mib, max: 1024 * gib},
			help: "memory at which Go's garbage collector works harder; the memory for I/O and cache.size come on top"},

		{name: "topic.max_message_bytes", flag: "max-message-bytes", def: "1MiB", value: sizeValue{to: &o.MaxMessageBytes, min: catalog.MinMaxMessageBytes, max: catalog.MaxMaxMessageBytes},
			help: "largest batch of any topic; at most an eighth of journal.size"},
		{name: "topic.auto_create", flag: "auto-create-topics", def: "false", value: switchValue{&o.AutoCreate},
			help: "create a topic when a client names one that does not exist"},
		{name: "topic.default_partitions", flag: "default-partitions", def: "1", value: countValue{to: &o.Partitions, min: 1, max: catalog.MaxPartitions},
			help: "partitions of a topic that is created without a number"},

		{name: "shutdown.timeout", flag: "shutdown-timeout", def: "30s", value: durationValue{&o.ShutdownTimeout, 100 * time.Millisecond, time.Hour},
			help: "longest orderly end; after it the broker stops at once, and the next start recovers"},

		{name: "log.format", flag: "log-format", def: logText, value: wordValue{&o.LogFormat, []string{logText, logJSON}},
			help: "form of the log on standard error"},
		{name: nameLogLevel, flag: "log-level", def: "info", value: wordValue{&o.LogLevel, []string{"debug", "info", "warn", "error"}}, apply: onReload,
			help: "least level that is logged"},
	}
}
