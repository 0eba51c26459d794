package kafka

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// config is a topic's configuration as Kafka knows it.
type config struct {
	name string // Kafka's, or mqd.* for what Kafka does not have
	kind kmsg.ConfigType
	own  string // the topic's setting that it is; "" where there is none
	// get is the value in force where there is such a setting; else value is, whatever
	// the topic.
	get   func(c *catalog.Config) string
	value string
	help  string
}

// Values that stand for no limit.
const (
	longest = "9223372036854775807"
	yes, no = "true", "false"
)

func number[T int | int32 | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// limitMillis is a time of which 0 stands for none, in milliseconds.
func limitMillis(d time.Duration) string {
	if d == 0 {
		return number(catalog.Unlimited)
	}
	return number(d.Milliseconds())
}

// configs are all that a topic has. Tools read them all and write some back, so that
// there are rows too for what has one value only here.
var configs = [...]config{
	{name: "cleanup.policy", kind: kmsg.ConfigTypeList, own: "cleanup.policy",
		get: func(c *catalog.Config) string { return c.CleanupPolicy().String() }},
	{name: "compression.gzip.level", kind: kmsg.ConfigTypeInt, value: "-1", help: "batches stay as their producers compressed them"},
	{name: "compression.lz4.level", kind: kmsg.ConfigTypeInt, value: "9", help: "batches stay as their producers compressed them"},
	{name: "compression.type", kind: kmsg.ConfigTypeString, value: "producer", help: "batches stay as their producers compressed them"},
	{name: "compression.zstd.level", kind: kmsg.ConfigTypeInt, value: "3", help: "batches stay as their producers compressed them"},
	{name: "delete.retention.ms", kind: kmsg.ConfigTypeLong, own: "delete.retention.ms",
		get: func(c *catalog.Config) string { return number(c.DeleteRetention().Milliseconds()) }},
	{name: "file.delete.delay.ms", kind: kmsg.ConfigTypeLong, value: "0", help: "files go when nobody reads them any more"},
	{name: "flush.messages", kind: kmsg.ConfigTypeLong, value: longest, help: "see mqd.durability"},
	{name: "flush.ms", kind: kmsg.ConfigTypeLong, own: "flush.interval",
		get:  func(c *catalog.Config) string { return number(c.FlushInterval().Milliseconds()) },
		help: "longest time until what is acknowledged begins to be made safe; 0 with mqd.durability flushed"},
	{name: "follower.replication.throttled.replicas", kind: kmsg.ConfigTypeList, help: "there is one broker"},
	{name: "index.interval.bytes", kind: kmsg.ConfigTypeInt, own: "index.interval.bytes",
		get: func(c *catalog.Config) string { return number(c.IndexInterval()) }},
	{name: "leader.replication.throttled.replicas", kind: kmsg.ConfigTypeList, help: "there is one broker"},
	{name: "local.retention.bytes", kind: kmsg.ConfigTypeLong, value: "-2", help: "all of a log is here, see retention.bytes"},
	{name: "local.retention.ms", kind: kmsg.ConfigTypeLong, value: "-2", help: "all of a log is here, see retention.ms"},
	{name: "max.compaction.lag.ms", kind: kmsg.ConfigTypeLong, value: longest, help: "nothing is compacted for its age"},
	{name: "max.message.bytes", kind: kmsg.ConfigTypeInt, own: "max.message.bytes",
		get: func(c *catalog.Config) string { return number(c.MaxMessageBytes()) }},
	{name: "message.downconversion.enable", kind: kmsg.ConfigTypeBoolean, value: no, help: "batches are sent as they are stored"},
	{name: "message.timestamp.after.max.ms", kind: kmsg.ConfigTypeLong, value: longest, help: "times are not judged"},
	{name: "message.timestamp.before.max.ms", kind: kmsg.ConfigTypeLong, value: longest, help: "times are not judged"},
	{name: "message.timestamp.difference.max.ms", kind: kmsg.ConfigTypeLong, value: longest, help: "times are not judged"},
	{name: "message.timestamp.type", kind: kmsg.ConfigTypeString, own: "message.timestamp.type",
		get: func(c *catalog.Config) string {
			if c.TimestampType() == catalog.LogAppendTime {
				return "LogAppendTime"
			}
			return "CreateTime"
		}},
	{name: "min.cleanable.dirty.ratio", kind: kmsg.ConfigTypeDouble, own: "min.cleanable.dirty.ratio",
		get: func(c *catalog.Config) string {
			return strconv.FormatFloat(float64(c.DirtyRatio())/1000, 'f', -1, 64)
		}},
	{name: "min.compaction.lag.ms", kind: kmsg.ConfigTypeLong, own: "min.compaction.lag.ms",
		get: func(c *catalog.Config) string { return number(c.CompactionLag().Milliseconds()) }},
	{name: "min.insync.replicas", kind: kmsg.ConfigTypeInt, value: "1", help: "there is one broker"},
	{name: "mqd.durability", kind: kmsg.ConfigTypeString, own: "durability",
		get: func(c *catalog.Config) string { return c.Durability().String() }},
	{name: "mqd.flush.bytes", kind: kmsg.ConfigTypeLong, own: "flush.bytes",
		get:  func(c *catalog.Config) string { return number(c.FlushBytes()) },
		help: "most bytes acknowledged until they begin to be made safe; 0 with mqd.durability flushed"},
	{name: "preallocate", kind: kmsg.ConfigTypeBoolean, value: no, help: "segments grow"},
	{name: "remote.storage.enable", kind: kmsg.ConfigTypeBoolean, value: no, help: "all of a log is here"},
	{name: "retention.bytes", kind: kmsg.ConfigTypeLong, own: "retention.bytes",
		get: func(c *catalog.Config) string { return number(c.RetentionBytes()) }},
	{name: "retention.ms", kind: kmsg.ConfigTypeLong, own: "retention.ms",
		get: func(c *catalog.Config) string { return limitMillis(c.RetentionTime()) }},
	{name: "segment.bytes", kind: kmsg.ConfigTypeInt, own: "segment.bytes",
		get: func(c *catalog.Config) string { return number(c.SegmentBytes()) }},
	{name: "segment.index.bytes", kind: kmsg.ConfigTypeInt, value: "10485760", help: "indexes are as large as they have to be"},
	{name: "segment.jitter.ms", kind: kmsg.ConfigTypeLong, value: "0", help: "segments close when they are due"},
	{name: "segment.ms", kind: kmsg.ConfigTypeLong, own: "segment.ms",
		get: func(c *catalog.Config) string { return limitMillis(c.SegmentTime()) }},
	{name: "unclean.leader.election.enable", kind: kmsg.ConfigTypeBoolean, value: no, help: "there is one broker"},
}

// settings are those of the catalog by their names.
var settings = func() map[string]catalog.Info {
	all := map[string]catalog.Info{}
	for _, in := range catalog.Settings() {
		all[in.Name] = in
	}
	return all
}()

func findConfig(name string) *config {
	for i := range configs {
		if configs[i].name == name {
			return &configs[i]
		}
	}
	return nil
}

// about says what a configuration does.
func (c *config) about() string {
	if c.help != "" || c.own == "" {
		return c.help
	}
	return settings[c.own].Help
}

// of is the value in force and whether the topic has it itself.
func (c *config) of(t *catalog.Config) (value string, own bool) {
	if c.own == "" {
		return c.value, false
	}
	return c.get(t), t.Own(settings[c.own].Key)
}

// setting is the topic's setting that a value stands for. ok is false for none: the
// topic has that value anyway. The error is for people.
func (c *config) setting(t *catalog.Config, value string) (s catalog.Setting, ok bool, err error) {
	now, _ := c.of(t)
	if c.kind == kmsg.ConfigTypeList {
		value = listOf(value, settings[c.own].Words)
	}
	switch {
	case value == now:
		return s, false, nil
	case c.own == "":
		return s, false, fmt.Errorf("%s is %q, and %q is all that it can be: %s", c.name, value, c.value, c.help)
	case value == "":
		return s, false, fmt.Errorf("%s is empty", c.name)
	}
	s = catalog.Setting{Key: c.own, Value: value}
	if c.name == "flush.ms" {
		s.Value += "ms"
	}
	return s, true, nil
}

// listOf is the word that has the parts of a list, in whichever order, and the list as it
// is where no word has: to Kafka's clients the order does not matter, nor does space.
func listOf(list string, words []string) string {
	parts := partsOf(list)
	for _, word := range words {
		if slices.Equal(partsOf(word), parts) {
			return word
		}
	}
	return list
}

// partsOf are the parts of a list, each once, in their order by name.
func partsOf(list string) []string {
	parts := strings.Split(list, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	slices.Sort(parts)
	return slices.Compact(parts)
}

// unset takes the topic's own value away.
func (c *config) unset(t *catalog.Config) (s catalog.Setting, ok bool) {
	_, own := c.of(t)
	return catalog.Setting{Key: c.own}, own
}

// brokerConfig is a configuration of the broker, which clients may only read.
type brokerConfig struct {
	name  string
	kind  kmsg.ConfigType
	value func(s *Server) string
}

func fixed(value string) func(*Server) string { return func(*Server) string { return value } }

// members bound the members of groups.
func (s *Server) members() classic.Limits { return s.b.Node().Options().Classic.WithDefaults() }

// groupLimits bound what groups commit.
func (s *Server) groupLimits() group.Limits { return s.b.Node().Options().Groups.WithDefaults() }

// brokerConfigs are what tools look for in a broker.
var brokerConfigs = [...]brokerConfig{
	{"advertised.listeners", kmsg.ConfigTypeString, func(s *Server) string { return fmt.Sprintf("PLAINTEXT://%s:%d", s.host, s.port) }},
	{"auto.create.topics.enable", kmsg.ConfigTypeBoolean, func(s *Server) string {
		return strconv.FormatBool(s.b.Node().AutoCreate() == broker.AutoCreateOn)
	}},
	{"broker.id", kmsg.ConfigTypeInt, fixed(number(nodeID))},
	{"compression.type", kmsg.ConfigTypeString, fixed("producer")},
	{"connections.max.idle.ms", kmsg.ConfigTypeLong, func(s *Server) string { return number(s.opts.IdleTimeout.Milliseconds()) }},
	{"default.replication.factor", kmsg.ConfigTypeInt, fixed("1")},
	{"delete.topic.enable", kmsg.ConfigTypeBoolean, fixed(yes)},
	{"group.initial.rebalance.delay.ms", kmsg.ConfigTypeInt, func(s *Server) string { return number(max(0, s.members().Delay.Milliseconds())) }},
	{"group.max.session.timeout.ms", kmsg.ConfigTypeInt, func(s *Server) string { return number(s.members().MaxSession.Milliseconds()) }},
	{"group.max.size", kmsg.ConfigTypeInt, func(s *Server) string { return number(s.members().Members) }},
	{"group.min.session.timeout.ms", kmsg.ConfigTypeInt, func(s *Server) string { return number(s.members().MinSession.Milliseconds()) }},
	{"log.cleanup.policy", kmsg.ConfigTypeList, fixed("delete")},
	{"log.message.timestamp.type", kmsg.ConfigTypeString, fixed("CreateTime")},
	{"log.retention.bytes", kmsg.ConfigTypeLong, fixed(number(catalog.Unlimited))},
	{"log.retention.ms", kmsg.ConfigTypeLong, fixed(number(catalog.Unlimited))},
	{"log.segment.bytes", kmsg.ConfigTypeInt, fixed(number(catalog.DefaultSegmentBytes))},
	{"message.max.bytes", kmsg.ConfigTypeInt, func(s *Server) string { return number(s.b.Node().Options().MaxBatch) }},
	{"min.insync.replicas", kmsg.ConfigTypeInt, fixed("1")},
	{"num.partitions", kmsg.ConfigTypeInt, func(s *Server) string { return number(int64(s.b.Node().Options().Partitions)) }},
	{"offset.metadata.max.bytes", kmsg.ConfigTypeInt, func(s *Server) string { return number(s.groupLimits().Metadata) }},
	{"offsets.retention.minutes", kmsg.ConfigTypeInt, func(s *Server) string { return number(int64(s.groupLimits().Retention.Minutes())) }},
	{"socket.request.max.bytes", kmsg.ConfigTypeInt, func(s *Server) string { return number(s.opts.MaxRequest) }},
	{"unclean.leader.election.enable", kmsg.ConfigTypeBoolean, fixed(no)},
}
