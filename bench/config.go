package bench

import (
	"fmt"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench/draw"
	"github.com/mqd-broker/mqd/bench/drive"
	"github.com/mqd-broker/mqd/bench/figure"
	"github.com/mqd-broker/mqd/bench/pace"
	"github.com/mqd-broker/mqd/net/wire"
)

// Target is what a load goes to.
type Target struct {
	// Addr is its address, "host:port".
	Addr string
	// Echo says that it is an [Echo], not a broker.
	Echo bool
	// Kafka, if not "", is the address of the broker's Kafka door. Messages then go and
	// come by Kafka's protocol, over one connection each; everything else, such as the
	// topic, goes to Addr.
	Kafka string
}

// Spread says to which partition a frame goes.
type Spread uint8

const (
	// RoundRobin sends one frame to each partition in turn.
	RoundRobin Spread = iota
	// One sends everything to the first partition.
	One
	// ByKey sends a frame where its key belongs; all its messages have one key.
	ByKey
)

var spreadNames = [...]string{"round-robin", "one", "key"}

// String is the name on the command line.
func (s Spread) String() string { return nameOf(spreadNames[:], int(s)) }

// MarshalText puts the name into JSON.
func (s Spread) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseSpread reads a name that String gives.
func ParseSpread(name string) (Spread, error) {
	i, err := parseName("spread", spreadNames[:], name)
	return Spread(i), err
}

// UnmarshalText reads the name from JSON.
func (s *Spread) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSpread(string(text))
	return err
}

// Reading says when the messages of a run are read back.
type Reading uint8

const (
	// Live reads them as they come, in the same loop: end to end latency.
	Live Reading = iota
	// After reads them when all are acknowledged: nothing disturbs the producer.
	After
)

var readingNames = [...]string{"live", "after"}

// String is the name on the command line.
func (r Reading) String() string { return nameOf(readingNames[:], int(r)) }

// MarshalText puts the name into JSON.
func (r Reading) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// ParseReading reads a name that String gives.
func ParseReading(name string) (Reading, error) {
	i, err := parseName("reading", readingNames[:], name)
	return Reading(i), err
}

// UnmarshalText reads the name from JSON.
func (r *Reading) UnmarshalText(text []byte) (err error) {
	*r, err = ParseReading(string(text))
	return err
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("(%d)", i)
}

func parseName(what string, names []string, name string) (int, error) {
	for i, n := range names {
		if n == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w: %s %q, expected %s", ErrConfig, what, name, strings.Join(names, " or "))
}

// Limits of a load.
const (
	MaxPartitions  = 10000
	MaxConnections = 1000
	MaxThreads     = 64
	MaxBatch       = 100000
	// MaxDepth is the number of frames that a connection can have in flight.
	MaxDepth = 1 << 15
)

// Load describes one measurement. Zero fields take the defaults of withDefaults.
type Load struct {
	// Name tells loads apart that are measured in turn, "" for none.
	Name string `json:"name,omitempty"`
	// Class is the topic's durability class. Default flushed.
	Class wire.Class `json:"-"`
	// Durability says in words what an acknowledgement means where it is not a class:
	// with a [Port].
	Durability string `json:"durability,omitempty"`
	// Partitions of the topic. Default 1.
	Partitions int `json:"partitions"`
	// Connections that produce. Default 1. They are divided among Threads
	// (default 1), each with a loop and a driver of its own.
	Connections int `json:"connections"`
	Threads     int `json:"threads"`
	// BatchMessages is the number of messages of a frame. Default 1.
	BatchMessages int `json:"batch_messages"`
	// Depth is the number of frames that a connection has in flight: kept up in
	// a closed loop (default 1), the most in an open one (default 4096).
	Depth int `json:"depth"`
	// Rate makes it an open loop of so many messages a second, over all
	// connections together; Burst one that comes in bursts.
	Rate  int64      `json:"rate,omitempty"`
	Burst pace.Burst `json:"burst,omitzero"`
	// Poisson makes the gaps of Rate random.
	Poisson bool `json:"poisson,omitempty"`
	// Day makes Rate the mean of a curve that repeats after so long, 0 for none: see
	// [pace.Schedule].
	Day time.Duration `json:"day_ns,omitempty"`
	// Sizes are the sizes of messages, as [draw.ParseSizes] reads them; "" is the
	// default mix. Size, if not 0, is the size of all in bytes instead.
	Sizes string `json:"sizes,omitempty"`
	Size  int    `json:"size,omitempty"`
	// Keys is the number of different keys, 0 for messages without. KeySkew is how
	// uneven they are: 0 not at all, else Zipf's law with an exponent of 1 more.
	Keys    int     `json:"keys,omitempty"`
	KeySkew float64 `json:"key_skew,omitempty"`
	// Plain is the share of a message, 0 to 1, that a codec makes nothing of. The
	// rest is random. Codec compresses frames.
	Plain float64     `json:"compressible,omitempty"`
	Codec batch.Codec `json:"-"`
	// Messages, if not 0, ends the run after about so many, before Duration is
	// over.
	Messages int64 `json:"messages,omitempty"`
	// Spread says how frames are divided among partitions.
	Spread Spread `json:"spread"`
	// Client is the idle mode of the client's loops.
	Client Idle `json:"client"`
	// Reading says when messages are read back.
	Reading Reading `json:"reading"`
	// Duration is measured, after Warmup. Defaults 5 s and 1 s; Warmup below 0
	// is none.
	Duration time.Duration `json:"duration_ns"`
	Warmup   time.Duration `json:"warmup_ns"`
	// Scrape says how often the broker's metrics are fetched meanwhile, 0 for never. Who
	// runs the load does so.
	Scrape time.Duration `json:"scrape_ns,omitempty"`
	// Pause, if not 0, has a second consumer read everything, stop for so long when the
	// measurement begins, and then catch up: see [figure.Pause].
	Pause time.Duration `json:"pause_ns,omitempty"`
	// Live, if set, lets somebody look at the run.
	Live *figure.Live `json:"-"`
	// Produced, if set, is called when everything sent is answered, before what is read
	// then, on a thread that measures.
	Produced func() `json:"-"`
	// Keep leaves the topic where it is.
	Keep bool `json:"-"`
	// CPUs that the threads are pinned to, in order; fewer or none: not pinned.
	CPUs []int `json:"cpus"`
	// Seed decides sizes and contents. Default 1.
	Seed uint64 `json:"seed"`
}

// Open reports whether the load is an open loop.
func (c Load) Open() bool { return c.Rate > 0 || c.Burst.Messages > 0 }

func (c Load) withDefaults() Load {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if c.Class == wire.ClassUnspecified {
		c.Class = wire.ClassFlushed
	}
	def(&c.Partitions, 1)
	def(&c.Connections, 1)
	def(&c.Threads, 1)
	def(&c.BatchMessages, 1)
	if c.Open() {
		def(&c.Depth, 4096)
	}
	def(&c.Depth, 1)
	if c.Duration == 0 {
		c.Duration = 5 * time.Second
	}
	if c.Warmup == 0 {
		c.Warmup = time.Second
	}
	c.Warmup = max(0, c.Warmup)
	if c.Seed == 0 {
		c.Seed = 1
	}
	c.Threads = min(c.Threads, c.Connections)
	return c
}

// Validate reports the first setting that cannot be used: ErrConfig.
func (c Load) Validate() error { return c.withDefaults().validate() }

// validate is Validate of a load that has its defaults.
func (c Load) validate() error {
	for _, v := range [...]struct {
		name string
		n    int
		max  int
	}{
		{"partitions", c.Partitions, MaxPartitions},
		{"connections", c.Connections, MaxConnections},
		{"threads", c.Threads, MaxThreads},
		{"batch-messages", c.BatchMessages, MaxBatch},
		{"depth", c.Depth, MaxDepth},
	} {
		if v.n < 1 || v.n > v.max {
			return fmt.Errorf("%w: %s %d, expected 1 to %d", ErrConfig, v.name, v.n, v.max)
		}
	}
	if c.Rate < 0 || c.Burst.Messages < 0 {
		return fmt.Errorf("%w: rate %d and bursts of %d messages, expected 0 or more", ErrConfig, c.Rate, c.Burst.Messages)
	}
	if c.Messages < 0 {
		return fmt.Errorf("%w: messages %d, expected 0 or more", ErrConfig, c.Messages)
	}
	if c.Pause < 0 || c.Pause > 0 && (c.Pause >= c.Duration || !c.Open() || c.Reading != Live || c.Messages > 0) {
		return fmt.Errorf("%w: a pause of %v, expected one shorter than the duration of %v, in an open loop that is read live, without a number of messages", ErrConfig, c.Pause, c.Duration)
	}
	if c.Duration < 0 {
		return fmt.Errorf("%w: duration %v, expected a positive one", ErrConfig, c.Duration)
	}
	if c.Keys < 0 || c.Keys > draw.MaxKeys || c.Spread == ByKey && c.Keys == 0 {
		return fmt.Errorf("%w: %d keys, expected 0 to %d, and some to spread by", ErrConfig, c.Keys, draw.MaxKeys)
	}
	if !(c.KeySkew >= 0 && c.KeySkew <= 10) || !(c.Plain >= 0 && c.Plain <= 1) {
		return fmt.Errorf("%w: key skew %g and compressible share %g, expected 0 to 10 and 0 to 1", ErrConfig, c.KeySkew, c.Plain)
	}
	if (c.Poisson || c.Day != 0) && c.Rate == 0 {
		return fmt.Errorf("%w: arrivals of poisson or a day (--arrival) without a rate (--rate)", ErrConfig)
	}
	if _, err := c.sizes(0); err != nil {
		return err
	}
	if c.frameBytes() > batch.MaxSize {
		return fmt.Errorf("%w: %d messages of up to %d bytes make no batch below %d bytes", ErrConfig, c.BatchMessages, c.largest(), batch.MaxSize)
	}
	if c.Open() {
		return configError(c.schedule().Validate())
	}
	return nil
}

// sizes gives the sizes of the messages of connection number conn.
func (c Load) sizes(conn int) (*draw.Sizes, error) {
	if c.Size != 0 {
		s, err := draw.FixedSize(c.Size, MinSize)
		return s, configError(err)
	}
	s, err := draw.ParseSizes(c.Sizes, MinSize, c.Seed+uint64(conn))
	return s, configError(err)
}

// configError makes an error one of configuration.
func configError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrConfig, err)
}

func (c Load) schedule() pace.Schedule {
	return pace.Schedule{Rate: c.Rate, Batch: int64(c.BatchMessages), Burst: c.Burst, Poisson: c.Poisson, Day: c.Day}
}

// groups is the number of frames that each connection sends, at most.
func (c Load) groups() int64 {
	if c.Messages == 0 {
		return drive.Far
	}
	each := int64(c.BatchMessages) * int64(c.Connections)
	return (c.Messages + each - 1) / each
}

// largest is the size of the largest message, 0 for sizes that are none.
func (c Load) largest() int {
	s, err := c.sizes(0)
	if err != nil {
		return 0
	}
	return s.Max()
}

// recordOverhead is the most that a record has beside its value and its key.
const recordOverhead = 32 + draw.KeySize

// frameBytes bounds a produce frame.
func (c Load) frameBytes() int {
	return wire.HeaderSize + wire.ProduceRequestFixed + batch.HeaderSize + c.BatchMessages*(c.largest()+recordOverhead)
}

// Title says in one line what was measured.
func (c Load) Title() string {
	parts := []string{"class " + c.Class.String(), plural(c.Partitions, "partition")}
	if c.Durability != "" {
		parts[0] = c.Durability
	}
	if c.Name != "" {
		parts[0] = c.Name + ": " + parts[0]
	}
	if c.Partitions > 1 {
		parts[1] += " " + c.Spread.String()
	}
	parts = append(parts, plural(c.BatchMessages, "message")+" a frame")
	if c.Size != 0 {
		parts = append(parts, fmt.Sprintf("%d B each", c.Size))
	} else if c.Sizes != "" && c.Sizes != "mix" {
		parts = append(parts, c.Sizes+" B")
	} else {
		parts = append(parts, fmt.Sprintf("%d-%d B, mean %d", draw.MixMin, draw.MixMax, draw.MixMean))
	}
	if c.Keys > 0 {
		parts = append(parts, plural(c.Keys, "key"))
	}
	if c.Codec != batch.CodecNone {
		parts = append(parts, fmt.Sprintf("%s, %.0f %% compressible", c.Codec, 100*c.Plain))
	}
	switch {
	case c.Burst.Messages > 0:
		parts = append(parts, fmt.Sprintf("open loop, bursts of %d messages in %v every %v", c.Burst.Messages, c.Burst.Length, c.Burst.Period))
	case c.Poisson:
		parts = append(parts, fmt.Sprintf("open loop, Poisson, %d messages/s", c.Rate))
	case c.Day > 0:
		parts = append(parts, fmt.Sprintf("open loop, a day in %v, %d messages/s in the mean and %.1f times that at its peak", c.Day, c.Rate, pace.PeakOfDay()))
	case c.Rate > 0:
		parts = append(parts, fmt.Sprintf("open loop, %d messages/s", c.Rate))
	default:
		parts = append(parts, fmt.Sprintf("closed loop, %d in flight", c.Depth))
	}
	parts = append(parts, plural(c.Connections, "connection"), "client "+c.Client.String())
	if c.Pause > 0 {
		parts = append(parts, fmt.Sprintf("a second consumer pauses for %v", c.Pause))
	}
	if c.Scrape > 0 {
		parts = append(parts, fmt.Sprintf("metrics fetched every %v", c.Scrape))
	}
	return strings.Join(parts, " · ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
