package settings

import (
	"slices"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/engine/producers"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/engine/stage"
	"github.com/mqd-broker/mqd/node"
)

// Options is what mqd serve can be told.
type Options struct {
	DataDir                                              string
	Listen                                               string
	KafkaListen, KafkaAdvertise                          string // "": nowhere, and by itself
	KafkaIdleTimeout                                     time.Duration
	KafkaRequest                                         int64
	KafkaMembers                                         int
	KafkaMinSession, KafkaMaxSession, KafkaDelay         time.Duration
	Insecure                                             bool
	MaxConnections, MaxConnectionsPerAddress, AcceptRate int
	IdleTimeout                                          time.Duration
	RecvBuffers                                          int
	Shards                                               int   // 0: chosen by the machine
	CPUs                                                 []int // none: chosen by the machine
	Pin                                                  string
	Idle                                                 string
	WakeLimit                                            time.Duration // negative: none
	Spin                                                 time.Duration
	IO                                                   string
	ReceiveTimes                                         bool
	JournalSize                                          int64 // 0: chosen by the filesystem
	CacheSize                                            int64
	MemoryLimit                                          int64
	MaxMessageBytes                                      int64
	AutoCreate                                           bool
	Partitions                                           int
	ProducerMax                                          int
	ProducerExpiry                                       time.Duration
	GroupPartitions, GroupMax, GroupOffsets              int
	GroupRetention                                       time.Duration
	GroupLogBytes                                        int64
	OnFull                                               string
	CompactionRate, CompactionKeys                       int64
	ScrubRate                                            int64
	ScrubInterval                                        time.Duration
	ShutdownTimeout                                      time.Duration
	AdminListen                                          string // "": nowhere
	AdminProfiles                                        bool
	TraceRecord                                          bool
	TraceWindow, TraceTurn                               time.Duration
	TraceSize                                            int64
	TraceDir                                             string // "": nowhere
	TraceFiles                                           int
	TraceStages                                          stage.Limits
	ScaleFetch                                           time.Duration // negative: none
	ScaleProduce                                         int64         // 0: none
	LogFormat                                            string
	LogLevel                                             string
}

// Groups are the bounds of consumer groups.
func (o *Options) Groups() group.Limits {
	return group.Limits{Groups: o.GroupMax, Offsets: o.GroupOffsets, Retention: o.GroupRetention}
}

// Classic are the bounds of groups of Kafka clients.
func (o *Options) Classic() classic.Limits {
	l := classic.Limits{Members: o.KafkaMembers, MinSession: o.KafkaMinSession, MaxSession: o.KafkaMaxSession, Delay: o.KafkaDelay}
	if l.Delay == 0 {
		l.Delay = -1 // none
	}
	return l
}

// Apply says when a changed setting is in force.
type Apply uint8

const (
	// OnRestart: at the next start.
	OnRestart Apply = iota
	// OnReload: when a running broker gets SIGHUP, or at the next start.
	OnReload
)

// String says how a change comes into force.
func (a Apply) String() string {
	if a == OnReload {
		return "takes effect on SIGHUP"
	}
	return "needs a restart"
}

// Setting is one row of the table.
type Setting struct {
	// Name is section.key, as in the file.
	Name string
	// Flag is the name of the flag, without dashes.
	Flag string
	// Default is the value that nobody has set, as people write it.
	Default string
	// Apply says when a change is in force.
	Apply Apply
	// Help says what it does, in a phrase.
	Help string

	value value
}

// Env is the setting's environment variable.
func (s *Setting) Env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, keyDelim, envDelim))
}

// isList reports whether a value is several, which a file may write as a list.
func (s *Setting) isList() bool {
	switch s.value.(type) {
	case cpusValue, stagesValue:
		return true
	}
	return false
}

// Kind names in one word what is expected: "size", "duration", [Switch], ...
func (s *Setting) Kind() string { return s.value.kind() }

// Limits is the range or the list of what is allowed, "" for anything.
func (s *Setting) Limits() string { return s.value.limits() }

// Words that are values of settings.
const (
	// Auto leaves the choice to the program.
	Auto = "auto"
	// Off is nowhere.
	Off = "off"

	PinOn        = "on"
	PinOff       = "off"
	IdleAdaptive = "adaptive"
	IdleBusy     = "busy"
	IdleBlock    = "block"
	IOURing      = "uring"
	IOPortable   = "portable"
	FullRefuse   = "refuse"
	FullDelete   = "delete-oldest"
	LogText      = "text"
	LogJSON      = "json"
)

// Names of settings that programs speak of.
const (
	Listen         = "net.listen"
	AdminListen    = "admin.listen"
	KafkaListen    = "kafka.listen"
	KafkaAdvertise = "kafka.advertise"
	MaxConnections = "net.max_connections"
	Idle           = "shard.idle"
	WakeLimit      = "shard.wake_limit"
	LogLevel       = "log.level"
)

// Table lists all settings, for help texts and documents.
func Table() []Setting { return table(&Options{}) }

// Units of sizes.
const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30

// table is the table; values are stored into o.
func table(o *Options) []Setting {
	return slices.Concat(netSettings(o), shardSettings(o), behindSettings(o), watchingSettings(o))
}

// netSettings are where the data is, and who may connect.
func netSettings(o *Options) []Setting {
	return []Setting{
		{Name: "data.dir", Flag: "data-dir", Default: "/var/lib/mqd", value: textValue{to: &o.DataDir},
			Help: "directory of all data; it is made if it is missing"},

		{Name: Listen, Flag: "listen", Default: "127.0.0.1:7878", value: textValue{to: &o.Listen},
			Help: "address of the batch protocol, host:port; port 0 takes a free one"},
		{Name: "net.insecure", Flag: "insecure", Default: "false", value: switchValue{&o.Insecure},
			Help: "allow an address that other machines can reach, although nothing is authenticated or encrypted yet"},
		{Name: MaxConnections, Flag: "max-connections", Default: "10000", value: countValue{to: &o.MaxConnections, min: 1, max: 1_000_000},
			Help: "most connections at a time"},
		{Name: "net.max_connections_per_address", Flag: "max-connections-per-address", Default: "0", value: countValue{to: &o.MaxConnectionsPerAddress, min: 0, max: 1_000_000},
			Help: "most connections at a time from one address, 0 for no limit of its own"},
		{Name: "net.accept_rate", Flag: "accept-rate", Default: "0", value: countValue{to: &o.AcceptRate, min: 0, max: 1_000_000},
			Help: "most connections accepted in a second, 0 for no limit"},
		{Name: "net.idle_timeout", Flag: "idle-timeout", Default: "2m", value: durationValue{&o.IdleTimeout, time.Second, 24 * time.Hour},
			Help: "close a connection that is silent for so long"},
		{Name: "net.recv_buffers", Flag: "recv-buffers", Default: "256", value: countValue{to: &o.RecvBuffers, min: 16, max: 4096, power: true},
			Help: "receive buffers of each shard, 64KiB each, a power of two"},

		{Name: KafkaListen, Flag: "kafka-listen", Default: Off, value: textValue{to: &o.KafkaListen, word: Off},
			Help: "address of Kafka's protocol, host:port; port 0 takes a free one, off is none; it takes twice kafka.max_request more of each shard"},
		{Name: KafkaAdvertise, Flag: "kafka-advertise", Default: Auto, value: textValue{to: &o.KafkaAdvertise, word: Auto},
			Help: "address that Kafka clients are told to connect to, host:port; auto is the one listened on, or one of this machine where that is every address"},
		{Name: "kafka.idle_timeout", Flag: "kafka-idle-timeout", Default: "10m", value: durationValue{&o.KafkaIdleTimeout, time.Second, 24 * time.Hour},
			Help: "close a connection of a Kafka client that has been silent for so long"},
		{Name: "kafka.max_request", Flag: "kafka-max-request", Default: "16MiB", value: sizeValue{to: &o.KafkaRequest, min: mib, max: 256 * mib},
			Help: "largest produce request of a Kafka client, which can have batches for many partitions; each shard has memory for two"},
		{Name: "kafka.rebalance_delay", Flag: "kafka-rebalance-delay", Default: "250ms", value: durationValue{&o.KafkaDelay, 0, 10 * time.Minute},
			Help: "how long a group of Kafka clients without members waits for more when the first one has come, and as long again when another has; 0s is not at all"},
		{Name: "kafka.min_session_timeout", Flag: "kafka-min-session-timeout", Default: "1s", value: durationValue{&o.KafkaMinSession, 10 * time.Millisecond, time.Hour},
			Help: "shortest session timeout that members of Kafka clients may ask for"},
		{Name: "kafka.max_session_timeout", Flag: "kafka-max-session-timeout", Default: "30m", value: durationValue{&o.KafkaMaxSession, time.Second, 24 * time.Hour},
			Help: "longest session timeout that members of Kafka clients may ask for, not below the shortest"},
		{Name: "kafka.max_members", Flag: "kafka-max-members", Default: "1000", value: countValue{to: &o.KafkaMembers, min: 1, max: 100_000},
			Help: "most members of one group of Kafka clients"},
	}
}

// shardSettings are of shards, memory and topics.
func shardSettings(o *Options) []Setting {
	return []Setting{
		{Name: "shard.count", Flag: "shards", Default: Auto, value: countValue{to: &o.Shards, min: 1, max: node.MaxShards, auto: true},
			Help: "number of shards; auto is one less than there are physical cores, at least 1"},
		{Name: "shard.cpus", Flag: "cpus", Default: Auto, value: cpusValue{&o.CPUs},
			Help: "CPUs for shards, the first shard's first; auto begins with the one that handles the data device's interrupts"},
		{Name: "shard.pin", Flag: "pin", Default: Auto, value: wordValue{&o.Pin, []string{Auto, PinOn, PinOff}},
			Help: "tie each shard to a CPU; auto does where that leaves one for everything else"},
		{Name: Idle, Flag: "idle", Default: IdleAdaptive, value: wordValue{&o.Idle, []string{IdleAdaptive, IdleBusy, IdleBlock}},
			Help: "what a shard without work does: poll for a while and then sleep, never sleep, or sleep at once"},
		{Name: "shard.spin", Flag: "spin", Default: formatDuration(shard.DefaultSpin), value: durationValue{&o.Spin, time.Microsecond, 10 * time.Millisecond},
			Help: "how long an adaptive shard polls before it sleeps"},

		{Name: WakeLimit, Flag: "pm-qos", Default: Off, value: limitValue{durationValue{&o.WakeLimit, 0, 100 * time.Millisecond}, time.Microsecond},
			Help: "longest that a CPU of this machine may take to wake from an idle state, while the broker runs; it costs power, 10us is a good value for servers, and /dev/cpu_dma_latency has to be writable"},

		{Name: "io.driver", Flag: "io", Default: Auto, value: wordValue{&o.IO, []string{Auto, IOURing, IOPortable}},
			Help: "how files and sockets are used: by io_uring, or by epoll and threads (portable), which is slower; auto is uring where it can be used"},
		{Name: "io.receive_times", Flag: "io-receive-times", Default: "false", value: switchValue{&o.ReceiveTimes},
			Help: "have the kernel note when it receives, for the stage socket of the times of batches; with io_uring only, and every packet of the machine is noted then"},

		{Name: "journal.size", Flag: "journal-size", Default: Auto, value: sizeValue{to: &o.JournalSize, min: node.MinJournalBytes, max: 64 * gib, step: 4 * kib, auto: true},
			Help: "size of each shard's journal; auto is the least of 256MiB, 512MiB / shards and 5 % of the filesystem, at least 8MiB; it needs eight times topic.max_message_bytes"},
		{Name: "cache.size", Flag: "cache-size", Default: "128MiB", value: sizeValue{to: &o.CacheSize, min: 4 * mib, max: 1024 * gib},
			Help: "memory for the newest bytes of partitions, all shards together"},
		{Name: "memory.limit", Flag: "memory-limit", Default: "512MiB", value: sizeValue{to: &o.MemoryLimit, min: 64 * mib, max: 1024 * gib},
			Help: "memory at which Go's garbage collector works harder; the memory for I/O and cache.size come on top"},

		{Name: "topic.max_message_bytes", Flag: "max-message-bytes", Default: "1MiB", value: sizeValue{to: &o.MaxMessageBytes, min: node.MinMessageBytes, max: node.MaxMessageBytes},
			Help: "largest batch of any topic; at most an eighth of journal.size"},
		{Name: "topic.auto_create", Flag: "auto-create-topics", Default: "false", value: switchValue{&o.AutoCreate},
			Help: "create a topic when a client names one that does not exist"},
		{Name: "topic.default_partitions", Flag: "default-partitions", Default: "1", value: countValue{to: &o.Partitions, min: 1, max: catalog.MaxPartitions},
			Help: "partitions of a topic that is created without a number"},
	}
}

// behindSettings are of what goes on behind, and of the end.
func behindSettings(o *Options) []Setting {
	return []Setting{
		{Name: "producer.max", Flag: "producer-max", Default: "65536", value: countValue{to: &o.ProducerMax, min: 1, max: producers.MostMax},
			Help: "idempotent producers that each shard remembers, counted in each partition to which they write; the one silent for longest goes first"},
		{Name: "producer.expiry", Flag: "producer-expiry", Default: "24h", value: durationValue{&o.ProducerExpiry, time.Second, 8760 * time.Hour},
			Help: "forget an idempotent producer that has written nothing for so long"},

		{Name: "groups.partitions", Flag: "groups-partitions", Default: "16", value: countValue{to: &o.GroupPartitions, min: 1, max: 1024},
			Help: "parts in which consumer groups are kept, each on one shard; it counts when the first group is made, and not any more after that"},
		{Name: "groups.retention", Flag: "groups-retention", Default: "168h", value: durationValue{&o.GroupRetention, time.Second, 87600 * time.Hour},
			Help: "how long a group without members keeps what it has committed"},
		{Name: "groups.max", Flag: "groups-max", Default: "100000", value: countValue{to: &o.GroupMax, min: 1, max: 10_000_000},
			Help: "most consumer groups in each of groups.partitions"},
		{Name: "groups.max_offsets", Flag: "groups-max-offsets", Default: "2000000", value: countValue{to: &o.GroupOffsets, min: 1, max: 100_000_000},
			Help: "most offsets committed by all groups together in each of groups.partitions, about 100 bytes each"},
		{Name: "groups.log_bytes", Flag: "groups-log-bytes", Default: "8MiB", value: sizeValue{to: &o.GroupLogBytes, min: 64 * kib, max: 64 * gib},
			Help: "by how much the log of each of groups.partitions may grow before it is replaced by snapshots"},

		{Name: "retention.on_full", Flag: "retention-on-full", Default: FullRefuse, value: wordValue{&o.OnFull, []string{FullRefuse, FullDelete}},
			Help: "on a full disk: refuse what producers send until there is room, or delete the oldest log files of topics with a retention limit before their time"},

		{Name: "compaction.rate", Flag: "compaction-rate", Default: "32MiB", value: sizeValue{to: &o.CompactionRate, min: 64 * kib, max: 1024 * gib},
			Help: "most that is read in a second of topics with cleanup.policy compact, to find what is superseded"},
		{Name: "compaction.keys", Flag: "compaction-keys", Default: "32MiB", value: sizeValue{to: &o.CompactionKeys, min: 64 * kib, max: gib},
			Help: "memory of each shard for the keys of the partition that it compacts, 24 bytes a key; what has more takes several passes"},

		{Name: "scrub.rate", Flag: "scrub-rate", Default: "8MiB", value: sizeValue{to: &o.ScrubRate, max: 1024 * gib},
			Help: "how much of the full segments is read in the background in a second, to find what has rotted; 0 turns that off"},
		{Name: "scrub.interval", Flag: "scrub-interval", Default: "168h", value: durationValue{&o.ScrubInterval, time.Second, 8760 * time.Hour},
			Help: "least time from the beginning of one such reading of everything to that of the next"},

		{Name: "shutdown.timeout", Flag: "shutdown-timeout", Default: "30s", value: durationValue{&o.ShutdownTimeout, 100 * time.Millisecond, time.Hour},
			Help: "longest orderly end; after it the broker stops at once, and the next start recovers"},
	}
}

// watchingSettings are of whoever looks after a broker, and of the log.
func watchingSettings(o *Options) []Setting {
	return []Setting{
		{Name: AdminListen, Flag: "admin-listen", Default: "127.0.0.1:9644", value: textValue{to: &o.AdminListen, empty: true},
			Help: "address of health, metrics and orders over HTTP, host:port; port 0 takes a free one, empty is none; the default is given up if it is taken"},
		{Name: "admin.pprof", Flag: "admin-pprof", Default: "false", value: switchValue{&o.AdminProfiles},
			Help: "serve profiles of the process there, at /debug/pprof"},

		{Name: "trace.record", Flag: "trace-record", Default: "false", value: switchValue{&o.TraceRecord},
			Help: "keep the newest of Go's execution trace in memory, for mqd admin trace"},
		{Name: "trace.window", Flag: "trace-window", Default: "10s", value: durationValue{&o.TraceWindow, time.Second, 5 * time.Minute},
			Help: "how much time is kept of it, as far as it fits into trace.size"},
		{Name: "trace.size", Flag: "trace-size", Default: "8MiB", value: sizeValue{to: &o.TraceSize, min: mib, max: 256 * mib},
			Help: "memory for it, about; a snapshot has up to four times that"},
		{Name: "trace.dir", Flag: "trace-dir", Default: Off, value: textValue{to: &o.TraceDir, word: Off},
			Help: "directory for a snapshot, once a minute at most, when a turn of a shard's loop was longer than trace.turn, or a stage than trace.stages; off is none"},
		{Name: "trace.turn", Flag: "trace-turn", Default: "20ms", value: durationValue{&o.TraceTurn, 100 * time.Microsecond, 10 * time.Second},
			Help: "the length of a turn of a shard's loop that is too long"},
		{Name: "trace.stages", Flag: "trace-stages", Default: "round_wait=50ms,device=50ms", value: stagesValue{&o.TraceStages},
			Help: "the time in a stage of a batch or a fetch that is too long, for a snapshot too"},
		{Name: "trace.files", Flag: "trace-files", Default: "8", value: countValue{to: &o.TraceFiles, min: 1, max: 1000},
			Help: "snapshots that stay in trace.dir, the newest"},

		{Name: "scale.fetch_latency", Flag: "scale-fetch-latency", Default: "500us", value: limitValue{durationValue{&o.ScaleFetch, time.Microsecond, time.Hour}, time.Microsecond},
			Help: "p99 of sending messages to consumers, or of reading them from the drive, which for 30 s is a signal that the broker has too much to do"},
		{Name: "scale.produce_rate", Flag: "scale-produce-rate", Default: "0", value: sizeValue{to: &o.ScaleProduce, max: 1024 * gib},
			Help: "bytes from producers in a second that are such a signal; 0 is none"},

		{Name: "log.format", Flag: "log-format", Default: LogText, value: wordValue{&o.LogFormat, []string{LogText, LogJSON}},
			Help: "form of the log on standard error"},
		{Name: LogLevel, Flag: "log-level", Default: "info", value: wordValue{&o.LogLevel, []string{"debug", "info", "warn", "error"}}, Apply: OnReload,
			Help: "least level that is logged"},
	}
}
