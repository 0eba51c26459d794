package node

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/compaction"
	"github.com/mqd-broker/mqd/engine/producers"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/engine/stage"
)

// Platform is what a node needs from the machine that it runs on.
type Platform interface {
	// NewDriver makes the driver of a shard. It is called on the goroutine,
	// locked to its thread if Pinned, that will own it.
	NewDriver(shard int, opts aio.Options) (aio.Driver, error)
	// Thread is the scheduler as a shard's loop sees it; nil makes loops block
	// when they are idle.
	Thread(shard int) shard.Thread
	// Locked says whether a driver belongs to the thread that made it.
	Locked() bool
	// Pin ties the calling thread to a CPU.
	Pin(cpu int) error
}

// Limits of a configuration.
const (
	// MinJournalBytes is the smallest journal of a shard. A batch may be an
	// eighth of it.
	MinJournalBytes = 256 << 10
	// MaxShards is the largest number of shards.
	MaxShards = 64
	// messageShare is the part of the journal, one in so many, that a batch may
	// take.
	messageShare = 8
	// MinMessageBytes and MaxMessageBytes bound Config.MaxMessageBytes. An answer
	// to a fetch carries the batch that it is for, in a bounded number of pieces
	// of the cache.
	MinMessageBytes, MaxMessageBytes = 4 << 10, 8 << 20
	// maxRecvBuffers is the largest receive pool of a shard.
	maxRecvBuffers = 4096
	// minFiles and maxFiles bound Config.Files; otherFiles of them are not for
	// segments.
	minFiles   = 1024
	maxFiles   = 65536
	otherFiles = 512
	// spareCacheBytes is what a shard's cache needs beside two of its largest
	// batches: room for what other partitions hold of the pieces in which it is
	// managed. A batch stays in the cache at least until the next one of its
	// partition is there, because the block that both lie in is written once.
	spareCacheBytes = 1 << 20
	// maxScrubRate bounds Config.ScrubRate, in bytes a second.
	maxScrubRate = 1 << 40
	// defaultJournalMax and the divisors below make the default journal size.
	defaultJournalMax   = 256 << 20
	defaultJournalTotal = 512 << 20
	defaultJournalMin   = 8 << 20
	defaultJournalPart  = 20 // one part of the filesystem in this many
)

// Config is everything that can be set about a node. Zero fields take the
// defaults.
type Config struct {
	// Dir is the data directory. Required.
	Dir string
	// Listen is the address of the native protocol, "host:port". Port 0 takes
	// a free one. Default 127.0.0.1:7878.
	Listen string
	// KafkaListen is the address of the Kafka protocol, "host:port"; "" for none, the
	// default. Port 0 takes a free one.
	KafkaListen string
	// KafkaAdvertise is the address that Kafka clients are told to connect to,
	// "host:port". Port 0 stands for the one listened on. Default: the address listened
	// on, or one of this machine where that is every address.
	KafkaAdvertise string
	// KafkaIdleTimeout closes silent connections of Kafka clients. Default 10 min.
	KafkaIdleTimeout time.Duration
	// KafkaRequestBytes is the largest produce request of a Kafka client. Default 16 MiB;
	// each shard has memory for two.
	KafkaRequestBytes int
	// Classic bounds the members that Kafka clients are of groups. Its Delay is 250 ms by
	// default; a negative one is none.
	Classic classic.Limits
	// Shards is the number of shards, 1 to MaxShards. Default 1.
	Shards int
	// CPUs are the CPUs that shards are pinned to, in order; empty: not pinned.
	CPUs []int
	// Idle says what an idle shard does.
	Idle shard.IdleMode
	// Spin is how long an idle shard polls before it sleeps.
	Spin time.Duration
	// LongTurn is the length of a turn of a loop that LongTurns tells of; 0 for none.
	LongTurn time.Duration
	// Slow are the times from which on a stage of a batch or a fetch has taken too long,
	// which SlowStages tells of; 0 for none.
	Slow stage.Limits
	// Slots is the number of hash slots of a new data directory. Default 64.
	Slots int
	// JournalBytes is the size of each shard's journal. Default: the smallest
	// of 256 MiB, 512 MiB / shards and 5 % of the filesystem, at least 8 MiB and
	// eight times MaxMessageBytes.
	JournalBytes int64
	// CacheBytes is the memory for the newest bytes of partitions, all shards
	// together. Each shard has at least twice MaxMessageBytes and 1 MiB, whatever
	// the sum. Default 128 MiB.
	CacheBytes int64
	// IndexBytes is the memory that each shard keeps for the indexes of segments that
	// grow. Default 16 MiB.
	IndexBytes int64
	// MaxMessageBytes is the largest batch of any topic, 4 KiB to 8 MiB and at
	// most an eighth of the journal. Default 1 MiB.
	MaxMessageBytes int
	// MaxConnections bounds the connections of the node. Default 10000.
	MaxConnections int
	// MaxConnectionsPerAddress bounds those that come from one address; 0 for no such
	// limit, the default.
	MaxConnectionsPerAddress int
	// AcceptRate bounds the connections accepted in a second; 0 for no such limit, the
	// default.
	AcceptRate int
	// IdleTimeout closes silent connections. Default 120 s.
	IdleTimeout time.Duration
	// AutoCreate makes a topic when a client names one that does not exist.
	AutoCreate bool
	// DefaultPartitions is the number of partitions of topics made so.
	DefaultPartitions int
	// ProducerMax bounds the idempotent producers that each shard remembers, counted in
	// each partition to which they write, about 200 bytes each; the one silent for
	// longest goes first. 1 to 1,048,576, default 65,536.
	ProducerMax int
	// ProducerExpiry is how long one is remembered that appends nothing. Default 24 h.
	ProducerExpiry time.Duration
	// GroupPartitions is the number of partitions of the internal topic in which consumer
	// groups live, when it is made. Default 16.
	GroupPartitions int
	// GroupLogBytes is by how much the log of each of those may grow before it is cut.
	// Default 8 MiB.
	GroupLogBytes int64
	// Groups bounds what the groups of each of those may take.
	Groups group.Limits
	// DeleteOnFull has topics with a retention limit lose their oldest segments before
	// their time while the disk is full. Default: producers are refused until there is
	// room.
	DeleteOnFull bool
	// ScrubRate is how much of what is stored is read in the background in a second, in
	// bytes, all shards together, to find what has rotted; 0: nothing is.
	ScrubRate int64
	// ScrubInterval is the least time from the beginning of one such reading of
	// everything to that of the next. Default 168 h.
	ScrubInterval time.Duration
	// RetentionPause is the time between two looks at what topics want to keep no longer.
	// Default 2 s.
	RetentionPause time.Duration
	// CompactionRate is the most that is read of compacted topics in a second, in bytes, all
	// shards together. Default 32 MiB.
	CompactionRate int64
	// CompactionKeys is the memory of a shard for the keys of the partition that it compacts,
	// in bytes, 24 for each. Default 32 MiB.
	CompactionKeys int64
	// CompactionPause is the time between two looks for what can be compacted. Default 5 s.
	CompactionPause time.Duration
	// ShutdownTimeout bounds an orderly end. Default 30 s.
	ShutdownTimeout time.Duration
	// RecoveryBytes is the memory that a start may use for what it has read of the
	// journals; what has no room in it is read twice. Default 128 MiB.
	RecoveryBytes int64
	// RecvBuffers is the number of receive buffers of a shard, 64 KiB each, a
	// power of two up to 4096. Default 256.
	RecvBuffers int
	// Files is the number of files that a shard may have open, with a descriptor
	// each: 1024 to 65536, 512 of them for other things than segments. Default
	// 1024.
	Files int
	// Version is the program's version, which clients are told.
	Version string
	// Log gets what an operator should hear of. Default: discarded.
	Log *slog.Logger

	known *checkpoint.Node // of the directory that a service has served before
}

func (c Config) withDefaults() Config {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:7878"
	}
	defInt(&c.Shards, 1)
	defInt(&c.MaxMessageBytes, 1<<20)
	defInt(&c.MaxConnections, 10000)
	defInt(&c.DefaultPartitions, 1)
	defInt(&c.RecvBuffers, 256)
	defInt(&c.Files, minFiles)
	defInt(&c.ProducerMax, producers.DefaultMax)
	if c.ProducerExpiry == 0 {
		c.ProducerExpiry = producers.DefaultExpiry
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = 128 << 20
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = 120 * time.Second
	}
	if c.KafkaIdleTimeout == 0 {
		c.KafkaIdleTimeout = 10 * time.Minute
	}
	defInt(&c.KafkaRequestBytes, 16<<20)
	if c.CompactionRate == 0 {
		c.CompactionRate = 32 << 20
	}
	if c.CompactionKeys == 0 {
		c.CompactionKeys = 32 << 20
	}
	if c.ScrubInterval == 0 {
		c.ScrubInterval = 7 * 24 * time.Hour
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = 30 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func defInt(p *int, v int) {
	if *p == 0 {
		*p = v
	}
}

// Validate reports the first setting with which no node starts. Zero fields stand for the
// defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	return c.validate()
}

// validate is Validate with the defaults filled in.
func (c *Config) validate() error {
	for _, v := range [...]struct {
		name             string
		value, low, high int64
	}{
		{"shards", int64(c.Shards), 1, MaxShards},
		{"max message size", int64(c.MaxMessageBytes), MinMessageBytes, MaxMessageBytes},
		{"max connections", int64(c.MaxConnections), 1, math.MaxInt32},
		{"max connections per address", int64(c.MaxConnectionsPerAddress), 0, math.MaxInt32},
		{"accept rate", int64(c.AcceptRate), 0, 1_000_000},
		{"default partitions", int64(c.DefaultPartitions), 1, math.MaxInt32},
		{"receive buffers", int64(c.RecvBuffers), 1, maxRecvBuffers},
		{"files", int64(c.Files), minFiles, maxFiles},
		{"idle timeout in milliseconds", c.IdleTimeout.Milliseconds(), 1, math.MaxUint32},
		{"idle timeout of Kafka clients in milliseconds", c.KafkaIdleTimeout.Milliseconds(), 1, math.MaxUint32},
		{"largest request of Kafka clients in bytes", int64(c.KafkaRequestBytes), minKafkaRequest, maxKafkaRequest},
		{"shutdown timeout in milliseconds", c.ShutdownTimeout.Milliseconds(), 1, math.MaxInt64},
		{"memory of a start in bytes", c.RecoveryBytes, 0, math.MaxInt64},
		{"index memory in bytes", c.IndexBytes, 0, math.MaxInt32},
		{"producers", int64(c.ProducerMax), 1, producers.MostMax},
		{"producer expiry in milliseconds", c.ProducerExpiry.Milliseconds(), 1, math.MaxInt64},
		{"scrub rate in bytes a second", c.ScrubRate, 0, maxScrubRate},
		{"scrub interval in milliseconds", c.ScrubInterval.Milliseconds(), 1, math.MaxInt64},
		{"compaction rate in bytes a second", c.CompactionRate, int64(c.Shards), maxScrubRate},
		{"compaction pause in milliseconds", c.CompactionPause.Milliseconds(), 0, time.Hour.Milliseconds()},
		{"memory for keys in bytes", c.CompactionKeys, compaction.MinKeyBytes, math.MaxInt32},
		{"spin in nanoseconds", int64(c.Spin), 0, math.MaxInt64},
		{"long turn in nanoseconds", int64(c.LongTurn), 0, math.MaxInt64},
	} {
		if v.value < v.low || v.value > v.high {
			return fmt.Errorf("%s: %d, expected %d to %d", v.name, v.value, v.low, v.high)
		}
	}
	if c.KafkaAdvertise != "" {
		if _, _, err := advertised(c.KafkaAdvertise, "127.0.0.1:1", nil); err != nil {
			return err
		}
	}
	switch sessions := c.Classic.WithDefaults(); {
	case c.Dir == "":
		return fmt.Errorf("data directory: not set")
	case c.JournalBytes != 0 && c.JournalBytes < MinJournalBytes:
		return fmt.Errorf("journal size: %d bytes, expected at least %d", c.JournalBytes, MinJournalBytes)
	case c.JournalBytes%aio.BlockSize != 0:
		return fmt.Errorf("journal size: %d bytes, expected a multiple of %d", c.JournalBytes, aio.BlockSize)
	case c.JournalBytes != 0 && int64(c.MaxMessageBytes) > c.JournalBytes/messageShare:
		return fmt.Errorf("max message size: %d bytes, expected at most an eighth of the journal, %d; raise journal.size or lower topic.max_message_bytes", c.MaxMessageBytes, c.JournalBytes/messageShare)
	case c.CacheBytes < c.leastCache():
		return fmt.Errorf("cache size: %d bytes, expected at least %d; raise cache.size or lower topic.max_message_bytes", c.CacheBytes, c.leastCache())
	case sessions.MinSession < time.Millisecond || sessions.MinSession > sessions.MaxSession:
		return fmt.Errorf("kafka.min_session_timeout is %v, expected 1ms to kafka.max_session_timeout, %v", sessions.MinSession, sessions.MaxSession)
	case c.RecvBuffers&(c.RecvBuffers-1) != 0:
		return fmt.Errorf("receive buffers: %d, expected a power of two", c.RecvBuffers)
	case len(c.CPUs) > 0 && len(c.CPUs) < c.Shards:
		return fmt.Errorf("CPUs: %d given for %d shards", len(c.CPUs), c.Shards)
	}
	return nil
}

// leastCache is the smallest cache of a shard, in bytes.
func (c *Config) leastCache() int64 { return 2*int64(c.MaxMessageBytes) + spareCacheBytes }

// shardCache is the size of a shard's cache in bytes.
func (c *Config) shardCache() int64 { return max(c.CacheBytes/int64(c.Shards), c.leastCache()) }

// journalBytes is the size of a shard's journal on a filesystem of the given size.
func (c *Config) journalBytes(filesystem int64) int64 {
	if c.JournalBytes != 0 {
		return c.JournalBytes
	}
	n := min(int64(defaultJournalMax), defaultJournalTotal/int64(c.Shards), filesystem/defaultJournalPart)
	least := messageShare * int64(c.MaxMessageBytes)
	return (max(n, defaultJournalMin, least) + aio.BlockSize - 1) &^ (aio.BlockSize - 1)
}
