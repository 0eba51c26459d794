package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/node"
)

// maxSilence is how long a shard's loop may take for a turn, or to wake up, before the
// broker counts as dead.
const maxSilence = 10 * time.Second

// Status is the broker at a glance.
type Status struct {
	Version string `json:"version"`
	// State is a name of [node.State].
	State string    `json:"state"`
	Since time.Time `json:"since"`
	Live  bool      `json:"live"`
	Ready bool      `json:"ready"`
	// Reasons say why it is not ready, Warnings what else an operator should know.
	Reasons  []string `json:"reasons"`
	Warnings []string `json:"warnings"`
	// Reopened is how often logs have been opened again since the process began.
	Reopened      int     `json:"reopened"`
	UptimeSeconds float64 `json:"uptime_seconds"`
	// PID is the number of the broker's process, as it sees it itself.
	PID int `json:"pid"`
	// WakeLimitMicros is the longest time, in microseconds, in which CPUs of the machine may
	// wake; nil while the broker holds no limit.
	WakeLimitMicros *int64 `json:"wake_limit_us"`
	// Serving is what there is only while a node serves.
	Serving *Serving `json:"serving,omitempty"`
}

// Serving is the node that serves.
type Serving struct {
	Address       string     `json:"address"`
	Directory     string     `json:"directory"`
	Driver        string     `json:"driver"`
	Term          uint32     `json:"term"`
	StartSeconds  float64    `json:"start_seconds"`
	Replayed      int        `json:"replayed_batches"`
	Connections   int        `json:"connections"`
	Topics        int        `json:"topics"`
	Partitions    int        `json:"partitions"`
	DeviceFailed  bool       `json:"device_failed"`
	MissingPlaces int        `json:"missing_segments"`
	Shards        []LogState `json:"shards"`
}

// LogState is the log of a shard.
type LogState struct {
	Shard     int  `json:"shard"`
	Answered  bool `json:"answered"`
	LogFailed bool `json:"log_failed"`
	// Error says why the log has failed.
	Error        string `json:"error,omitempty"`
	DiskFull     bool   `json:"disk_full"`
	JournalBytes int64  `json:"journal_size_bytes"`
	JournalUsed  int64  `json:"journal_used_bytes"`
	CacheBytes   int64  `json:"cache_size_bytes"`
	CacheUsed    int64  `json:"cache_used_bytes"`
}

// oneLine writes an error in one line.
func oneLine(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", ": ")
}

// reasons say why a broker is not ready.
func reasons(c *node.Condition) []string {
	why := []string{}
	if c.Node == nil {
		switch c.State {
		case node.Starting:
			why = append(why, "starting: the data directory is being recovered")
		case node.Reopening:
			why = append(why, "reopening: connections are closed, the data directory is being recovered")
		case node.Down:
			why = append(why, "down: the logs could not be opened again: "+oneLine(c.Why)+"; when the cause is gone, order: mqd admin reopen")
		default:
			why = append(why, c.State.String())
		}
		return why
	}
	for shard, err := range c.Node.LogErrors() {
		if err != nil {
			why = append(why, fmt.Sprintf("the log of shard %d has failed, it acknowledges nothing and is read from: %s; when the cause is gone, order: mqd admin reopen", shard, oneLine(err)))
		}
	}
	return append(why, stalls(c, maxSilence)...)
}

// stalls are shards that have not turned for longer than most.
func stalls(c *node.Condition, most time.Duration) []string {
	why := []string{}
	if c.Node == nil {
		return why
	}
	for shard, silence := range c.Node.Silence() {
		if silence > most {
			why = append(why, fmt.Sprintf("the loop of shard %d has not turned for %v", shard, silence.Round(time.Second)))
		}
	}
	return why
}

// status tells the state as JSON.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	c := s.opts.Service.Condition()
	why := reasons(&c)
	st := Status{
		Version: s.opts.Version, State: c.State.String(), Since: c.Since.UTC(), Live: len(stalls(&c, maxSilence)) == 0, Ready: len(why) == 0,
		Reasons: why, Warnings: append([]string{}, s.opts.Warnings()...), Reopened: c.Reopened, UptimeSeconds: time.Since(s.began).Seconds(), PID: os.Getpid(),
	}
	if most, held := s.opts.WakeLimit(); held {
		us := most.Microseconds()
		st.WakeLimitMicros = &us
	}
	if c.Node != nil {
		st.tell(c.Node.Figures(r.Context()))
	}
	writeJSON(w, st)
}

// tell adds what a node tells.
func (st *Status) tell(f *node.Figures) {
	n := &Serving{
		Address: f.Address, Directory: f.Directory, Driver: f.Driver, Term: f.Term, StartSeconds: f.Took.Seconds(),
		Replayed: f.Recovery.Replayed, Connections: f.Connections, Topics: f.Topics, Partitions: f.Partitions,
		DeviceFailed: f.DeviceFailed, MissingPlaces: f.MissingSegments,
	}
	st.Serving = n
	warn := func(format string, args ...any) { st.Warnings = append(st.Warnings, fmt.Sprintf(format, args...)) }
	full, rotten := false, uint64(0)
	for i := range f.Shards {
		sh := &f.Shards[i]
		l := LogState{
			Shard: sh.Shard, Answered: sh.Answered, LogFailed: sh.LogErr != nil, DiskFull: sh.DiskFull,
			JournalBytes: sh.JournalBytes, JournalUsed: sh.JournalUsed,
			CacheBytes: sh.Usage.ChunkLimit, CacheUsed: sh.Usage.ChunkBytes,
		}
		if sh.LogErr != nil {
			l.Error = oneLine(sh.LogErr)
		}
		if !sh.Answered {
			warn("shard %d did not answer within %v", sh.Shard, askPatience)
		}
		full = full || sh.DiskFull
		if sh.Scrub != nil {
			rotten += sh.Scrub.Damaged.Load()
		}
		n.Shards = append(n.Shards, l)
	}
	if full || f.BallastMissing {
		warn("the disk is full: producers are refused, consumers are served; make room or delete topics")
	}
	if f.Recovery.Damaged > 0 || f.Recovery.Losses > 0 {
		warn("the start found damage: %d damaged rounds or bodies, %d ranges of offsets that are lost or may be; its log lines say where", f.Recovery.Damaged, f.Recovery.Losses)
	}
	if rotten > 0 {
		warn("scrubbing has found %d damaged places; the log says where", rotten)
	}
	if f.MissingSegments > 0 {
		warn("segments are missing in %d places; the log says where", f.MissingSegments)
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // whoever has gone reads no error either
}
