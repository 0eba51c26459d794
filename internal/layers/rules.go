package layers

// The external modules, by the reason for which the root module has them.
const (
	modGiouring = "github.com/pawelgaczynski/giouring"      // io_uring rings and operations
	modSys      = "golang.org/x/sys"                        // system calls beyond package syscall
	modCPUID    = "github.com/klauspost/cpuid/v2"           // topology, for placing shards
	modHDR      = "github.com/HdrHistogram/hdrhistogram-go" // latency histograms
	modCompress = "github.com/klauspost/compress"           // gzip, snappy, zstd
	modLZ4      = "github.com/pierrec/lz4/v4"               // lz4 frames
	modCobra    = "github.com/spf13/cobra"                  // verbs, completion
	modPflag    = "github.com/spf13/pflag"                  // cobra's flags
	modKoanf    = "github.com/knadh/koanf"                  // layers of configuration
	modYAML     = "go.yaml.in/yaml/v3"                      // the configuration file
	modKmsg     = "github.com/twmb/franz-go/pkg/kmsg"       // Kafka's messages
	modRapid    = "pgregory.net/rapid"                      // property tests
)

// TestModules are the external modules that every package's tests may import.
var TestModules = []string{modRapid}

// TestDrivers are the packages of this module that every package's tests may
// import whatever their rank: the drivers that tests run on.
var TestDrivers = []string{"engine/aio/aiotest", "engine/aio/portable", "engine/aio/sim"}

// Table places every package. Higher ranks import lower ones.
var Table = []Package{
	{Path: "test/...", Rank: 110, Traits: Unsafe | TestSupport,
		External: []string{modSys, modHDR, modCompress, modLZ4, modKmsg}},
	{Path: "cmd/mqd", Rank: 100,
		External: []string{modSys, modCPUID, modHDR, modCobra, modPflag, modKoanf, modYAML}},
	{Path: "cmd/mqd/adminclient", Rank: 98, External: []string{modCobra}},
	{Path: "cmd/mqd/benching", Rank: 99, External: []string{modCobra, modPflag, modYAML}},
	{Path: "cmd/mqd/bundler", Rank: 99, External: []string{modCobra}},
	{Path: "cmd/mqd/backlogbench", Rank: 98, External: []string{modCobra}},
	{Path: "cmd/mqd/consent", Rank: 97, External: []string{modCobra}},
	{Path: "cmd/mqd/groups", Rank: 98, External: []string{modCobra}},
	{Path: "cmd/mqd/salvager", Rank: 98, External: []string{modCobra}},
	{Path: "cmd/mqd/groupreader", Rank: 99},
	{Path: "cmd/mqd/signals", Rank: 98},
	{Path: "cmd/mqd/generator", Rank: 98, External: []string{modCobra}},
	{Path: "cmd/mqd/tuner", Rank: 98, External: []string{modCobra}},
	{Path: "cmd/mqd/top", Rank: 99, External: []string{modCobra}},
	{Path: "cmd/mqd/trim", Rank: 98, External: []string{modCobra}},
	{Path: "cmd/mqd/placement", Rank: 98, External: []string{modSys}},
	{Path: "cmd/mqd/settings", Rank: 97, External: []string{modKoanf, modYAML}},

	// admin tells what a node is like, so it stands above it; nothing below knows of it.
	{Path: "admin", Rank: 96},
	{Path: "admin/flight", Rank: 95},
	{Path: "admin/scale", Rank: 95},
	// mqdtest runs a node beside the client, for the tests of others.
	{Path: "client/mqdtest", Rank: 96, Traits: TestSupport},
	{Path: "node", Rank: 95, External: []string{modCPUID}},
	{Path: "bench/search", Rank: 93},
	{Path: "bench/report", Rank: 92, External: []string{modHDR}},
	{Path: "bench/budgets", Rank: 93},
	{Path: "bench/agent", Rank: 91},
	{Path: "bench", Rank: 90, External: []string{modSys, modCPUID, modHDR}},
	{Path: "bench/backlog", Rank: 90},
	{Path: "bench/catchup", Rank: 91},
	{Path: "bench/drive", Rank: 89},
	{Path: "bench/dialect", Rank: 88, External: []string{modKmsg}},
	{Path: "bench/draw", Rank: 0},
	{Path: "bench/figure", Rank: 0, External: []string{modHDR}},
	{Path: "bench/ledger", Rank: 0},
	{Path: "bench/pace", Rank: 0},
	{Path: "bench/machine", Rank: 88},
	{Path: "tuning", Rank: 90},
	{Path: "tuning/capture", Rank: 91},
	{Path: "tuning/fixture", Rank: 87, Traits: TestSupport},
	{Path: "tuning/topology", Rank: 88},
	{Path: "tuning/undo", Rank: 88},
	{Path: "tuning/tree", Rank: 86},
	{Path: "tuning/wake", Rank: 86},
	{Path: "tuning/ethtool", Rank: 86, Traits: Unsafe, External: []string{modSys}},

	// client stands outside the broker: see Never. It ranks above the front doors
	// because its tests run a whole broker in the process.
	{Path: "client", Rank: 85, TestUp: []string{"client/mqdtest"}},
	{Path: "client/internal/admin", Rank: 84},
	{Path: "client/internal/attempts", Rank: 80},
	{Path: "client/internal/latency", Rank: 80},
	{Path: "client/internal/link", Rank: 82},
	{Path: "client/internal/lane", Rank: 84},
	{Path: "client/internal/memory", Rank: 83},
	{Path: "client/internal/pull", Rank: 84},
	{Path: "client/internal/settings", Rank: 83},
	{Path: "client/internal/unpack", Rank: 84},
	{Path: "client/internal/member", Rank: 84},

	{Path: "verify/live", Rank: 82},

	{Path: "net/native", Rank: 80, Traits: NoOS | DataPath, TestUp: []string{"client"}},
	{Path: "net/kafka", Rank: 80, Traits: NoOS | DataPath, External: []string{modKmsg}},
	{Path: "net/kafka/groups", Rank: 79, Traits: NoOS | DataPath, External: []string{modKmsg}},
	{Path: "net/waitlist", Rank: 60, Traits: NoOS | DataPath},

	{Path: "inspect", Rank: 75, Traits: NoOS},
	{Path: "salvage", Rank: 75, Traits: NoOS},
	{Path: "verify", Rank: 75, Traits: NoOS},
	{Path: "broker/lag", Rank: 72, Traits: NoOS | DataPath},
	{Path: "broker", Rank: 70, Traits: NoOS | DataPath},
	{Path: "broker/options", Rank: 68, Traits: NoOS | DataPath},
	{Path: "broker/plainpool", Rank: 69, Traits: NoOS | DataPath},
	{Path: "broker/groupfile", Rank: 69, Traits: NoOS},
	{Path: "broker/catalogfile", Rank: 69, Traits: NoOS},
	{Path: "broker/cleaner", Rank: 68, Traits: NoOS | DataPath},
	{Path: "broker/catalog", Rank: 65, Traits: NoOS | DataPath},
	{Path: "broker/retain", Rank: 68, Traits: NoOS | DataPath},
	{Path: "broker/group", Rank: 65, Traits: NoOS | DataPath},
	{Path: "broker/classic", Rank: 65, Traits: NoOS | DataPath},
	{Path: "broker/txn", Rank: 65, Traits: NoOS | DataPath},
	{Path: "broker/delay", Rank: 65, Traits: NoOS | DataPath},
	{Path: "net/conn", Rank: 65, Traits: NoOS | DataPath},

	{Path: "engine", Rank: 60, Traits: NoOS | DataPath},
	{Path: "engine/recovery", Rank: 58, Traits: NoOS},
	{Path: "engine/options", Rank: 58, Traits: NoOS | DataPath},
	{Path: "engine/layout", Rank: 57, Traits: NoOS | DataPath},
	{Path: "engine/checkpoint", Rank: 55, Traits: NoOS | DataPath},
	{Path: "engine/journal", Rank: 50, Traits: NoOS | DataPath},
	{Path: "engine/segment", Rank: 50, Traits: NoOS | DataPath},
	{Path: "engine/ballast", Rank: 52, Traits: NoOS | DataPath},
	{Path: "engine/audit", Rank: 52, Traits: NoOS | DataPath},
	{Path: "engine/indexing", Rank: 53, Traits: NoOS | DataPath},
	{Path: "engine/scrub", Rank: 52, Traits: NoOS | DataPath},
	{Path: "engine/producers", Rank: 25, Traits: NoOS | DataPath},
	{Path: "engine/retention", Rank: 54, Traits: NoOS | DataPath},
	{Path: "engine/stage", Rank: 20, Traits: NoOS | DataPath},
	{Path: "engine/tally", Rank: 20, Traits: NoOS | DataPath},
	{Path: "engine/fifo", Rank: 20, Traits: NoOS | DataPath},
	{Path: "engine/pick", Rank: 52, Traits: NoOS | DataPath},
	{Path: "engine/dirsync", Rank: 58, Traits: NoOS | DataPath},
	{Path: "engine/filepool", Rank: 52, Traits: NoOS | DataPath},
	{Path: "engine/flushwindow", Rank: 20, Traits: NoOS | DataPath},
	{Path: "engine/throttle", Rank: 20, Traits: NoOS | DataPath},
	{Path: "engine/order", Rank: 20, Traits: NoOS | DataPath},
	{Path: "engine/compaction", Rank: 58, Traits: NoOS | DataPath},
	{Path: "engine/chunks", Rank: 52, Traits: NoOS | DataPath},
	{Path: "engine/slab", Rank: 50, Traits: NoOS | DataPath},
	{Path: "engine/timesearch", Rank: 50, Traits: NoOS | DataPath},
	{Path: "engine/shard", Rank: 50, Traits: NoOS | DataPath, External: []string{modSys, modCPUID}},

	// Drivers stand above the port that they implement.
	{Path: "uring", Rank: 45, Traits: Unsafe, External: []string{modGiouring, modSys}},
	{Path: "engine/aio/portable", Rank: 45, Traits: Unsafe, External: []string{modSys}},
	{Path: "engine/aio/sim", Rank: 45, Traits: Unsafe, External: []string{modSys}},
	{Path: "engine/aio/sim/disk", Rank: 44, Traits: Unsafe, External: []string{modSys}},
	{Path: "engine/aio/aiotest", Rank: 44, Traits: Unsafe | TestSupport, External: []string{modSys}},
	{Path: "engine/aio/hostfs", Rank: 42, External: []string{modSys}},
	{Path: "engine/aio/openfiles", Rank: 42},
	{Path: "engine/aio/hostnet", Rank: 42, External: []string{modSys}},
	{Path: "engine/aio", Rank: 40, Traits: NoOS | Unsafe, External: []string{modSys}},

	{Path: "net/wire", Rank: 30, Traits: NoOS | DataPath},
	{Path: "batch", Rank: 20, Traits: NoOS | DataPath, External: []string{modCompress, modLZ4}},
	{Path: "ringbuf", Rank: 20, Traits: NoOS | DataPath | Unsafe, External: []string{modSys}},

	// The forms of messages in files stand above the client, whose messages they are.
	{Path: "internal/messages", Rank: 86},
	{Path: "internal/docs", Rank: 7, Traits: TestSupport},
	{Path: "internal/tidy", Rank: 6, Traits: TestSupport},
	{Path: "internal/layers", Rank: 5, Traits: TestSupport},
	{Path: "internal/seed", Rank: 0, Traits: TestSupport},
	{Path: "internal/fields", Rank: 0},
	{Path: "internal/quantity", Rank: 0},
	{Path: "internal/invariant", Rank: 0},
}

// Forbidden is the standard library that a trait forbids outside tests.
var Forbidden = []struct {
	Trait  Trait
	Except []string // packages of the standard library that are allowed after all
	Std    []string
	Why    string
}{
	{NoOS, []string{"net/netip"}, []string{"os/...", "net/...", "io/ioutil", "plugin"},
		"files, sockets and processes are reached through engine/aio"},
	{DataPath, []string{"sync/atomic"}, []string{"sync/..."},
		"a shard owns what it touches; other threads reach it through ringbuf"},
	{DataPath, nil, []string{"math/rand/...", "crypto/rand"},
		"randomness comes through engine/aio, so that a simulated run repeats"},
	{DataPath, nil, []string{"log/..."},
		"a shard does not write logs itself"},
}

// Never forbids imports that ranks would allow.
var Never = []Rule{
	{From: []string{"net/native", "net/kafka", "net/kafka/groups"},
		To:    []string{"engine", "engine/checkpoint", "engine/journal", "engine/layout", "engine/recovery", "engine/segment", "engine/shard"},
		Tests: []string{"net/..."},
		Why:   "a front door speaks to the broker, not to the engine; of the I/O port it uses jobs"},
	{From: []string{"broker/..."}, To: []string{"net/...", "client"}, Tests: []string{"broker"},
		Why: "the broker knows no protocol"},
	{From: []string{"broker/catalog", "broker/classic", "broker/group", "broker/txn", "broker/delay"}, To: []string{"engine/aio/...", "engine/journal", "engine/segment", "engine/shard", "ringbuf"},
		Why: "state machines take input and return output; they perform no I/O"},
	{From: []string{"net/conn"}, To: []string{"net/wire", "batch"}, Tests: []string{"net/conn"},
		Why: "connections carry bytes; protocols stand above them"},
	{From: []string{"engine/...", "uring", "ringbuf", "batch"}, To: []string{"net/...", "client"},
		Why: "the engine and what is below it know no protocol"},
	{From: []string{"client", "client/internal/..."}, To: []string{"admin", "bench/...", "tuning/...", "broker/...", "engine/...", "net/conn", "net/native", "net/kafka", "uring", "ringbuf", "internal/..."}, Tests: []string{"client"},
		Why: "users build client alone: batch, net/wire and the standard library"},
	{From: []string{"net/wire"}, To: []string{"ringbuf"},
		Why: "a codec has no threads"},
}

// Only names all importers of a package.
var Only = []Rule{
	{To: []string{modGiouring + "/..."}, From: []string{"uring"},
		Why: "giouring links only with a linker flag, and its bugs are handled in one place"},
	{To: []string{"uring"}, From: []string{"cmd/mqd", "test/..."}, Tests: []string{"uring", "bench"},
		Why: "cmd/mqd alone picks a driver; everything else links without a flag"},
	{To: []string{"engine/aio/portable"}, From: []string{"cmd/mqd", "client/mqdtest", "test/..."}, Tests: []string{"..."},
		Why: "cmd/mqd alone picks a driver; mqdtest takes the one that needs no privileges"},
	{To: []string{"client/mqdtest"}, From: []string{"test/..."}, Tests: []string{"..."},
		Why: "a broker for tests"},
	{To: []string{"engine/aio/sim"}, From: []string{"cmd/mqd", "client/mqdtest", "test/..."}, Tests: []string{"..."},
		Why: "the simulator is for tests and for the verb that runs it"},
	{To: []string{"engine/aio/aiotest"}, From: []string{"test/..."}, Tests: []string{"..."},
		Why: "the conformance suite is for the tests of drivers"},
	{To: []string{"engine/aio/hostfs"}, From: []string{"uring", "engine/aio/portable", "bench", "cmd/mqd", "test/..."}, Tests: []string{"engine/aio/hostfs"},
		Why: "it blocks: drivers' helpers use it, and tools that have no shard"},
	{To: []string{"engine/aio/hostnet"}, From: []string{"uring", "engine/aio/portable"}, Tests: []string{"engine/aio/hostnet"},
		Why: "it blocks: a shard has sockets from its driver"},
	{To: []string{"engine/aio/openfiles"}, From: []string{"uring", "engine/aio/portable"},
		Why: "it is a part of drivers"},
	{To: []string{"client"}, From: []string{"client/mqdtest", "cmd/mqd", "cmd/mqd/backlogbench", "cmd/mqd/groupreader", "cmd/mqd/groups", "internal/messages", "cmd/mqd/trim", "bench", "bench/backlog", "test/..."}, Tests: []string{"net/native", "client", "node", "admin"},
		Why: "the broker does not speak to itself through its client"},
	{To: []string{"internal/layers"}, From: []string{"internal/tidy", "internal/docs"}, Tests: []string{"internal/..."},
		Why: "the rules are for tests"},
}

// Exceptions are the files that may import what a trait of their package
// forbids. One that is no longer used fails the test.
var Exceptions = []Exception{
	{"batch/codec.go", "sync", "pools of compressors: clients and helpers compress, shards never do"},
	{"batch/lz4.go", "sync", "pools of compressors: clients and helpers compress, shards never do"},
	{"ringbuf/inbox.go", "sync", "goroutines that are not shards queue up before the ring; the shard never takes the lock"},
}
