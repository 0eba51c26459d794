package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/mqd-broker/mqd/admin/flight"
	"github.com/mqd-broker/mqd/admin/scale"
	"github.com/mqd-broker/mqd/node"
)

const (
	// askers is the number of requests that may ask shards at a time.
	askers = 4
	// askPatience is how long they wait for answers.
	askPatience = 2 * time.Second
	// headerTimeout and writeTimeout end connections that dribble. An order takes as long
	// as a recovery, and a profile as long as it is asked to, so that the write timeout
	// holds for neither.
	headerTimeout = 5 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	// maxConns is the number of connections at a time. For one more another ends that is not
	// being answered; see crowd.
	maxConns = 64
	// maxHeaderBytes bounds what is read before a request is refused.
	maxHeaderBytes = 16 << 10
)

// Options of a server.
type Options struct {
	// Listen is the address, host:port. Port 0 takes a free one.
	Listen string
	// Profiles serves /debug/pprof.
	Profiles bool
	// Version is the program's.
	Version string
	// Service is what the server tells of.
	Service *node.Service
	// Settings is the configuration as it is now, for people; nil serves none.
	Settings func() []byte
	// WakeLimit tells the longest time in which CPUs of the machine may wake, if the broker
	// holds a limit; nil is none.
	WakeLimit func() (time.Duration, bool)
	// Warnings are of the process, for people; nil is none.
	Warnings func() []string
	// Scale is what is too much for the broker.
	Scale scale.Limits
	// Recorder is the flight recorder, nil for none.
	Recorder *flight.Recorder
	// Log gets what an operator should hear of.
	Log *slog.Logger

	// patience is how long shards may take to answer. 0 is askPatience; tests have more.
	patience time.Duration
}

// Server is a running front.
type Server struct {
	opts  Options
	http  http.Server
	addr  string
	began time.Time
	ask   chan struct{} // a value for each request that asks shards
	load  load
}

// Listen begins to serve. The error is that of listening.
func Listen(o Options) (*Server, error) {
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, err
	}
	if o.WakeLimit == nil {
		o.WakeLimit = func() (time.Duration, bool) { return 0, false }
	}
	if o.Warnings == nil {
		o.Warnings = func() []string { return nil }
	}
	if o.patience == 0 {
		o.patience = askPatience
	}
	s := &Server{opts: o, addr: l.Addr().String(), began: time.Now(), ask: make(chan struct{}, askers)}
	s.http = http.Server{
		Handler: attended(s.handler()), ConnContext: withGuest, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	s.load.judge.Limits, s.load.patience = o.Scale, o.patience
	s.load.watch(o.Service)
	go func() {
		if err := s.http.Serve(gather(l, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("admin HTTP has ended; health and metrics are not served any more", "error", err)
		}
	}()
	return s, nil
}

// Addr is the address that it listens on.
func (s *Server) Addr() string { return s.addr }

// Close ends it, with all connections.
func (s *Server) Close() error {
	s.load.close()
	return s.http.Close()
}

// Paths of what the server serves.
const (
	PathLive          = "/healthz/live"
	PathReady         = "/healthz/ready"
	PathStartup       = "/healthz/startup"
	PathMetrics       = "/metrics"
	PathPublicMetrics = "/metrics/public"
	PathStatus        = "/v1/status"
	PathShards        = "/v1/shards"
	PathTopics        = "/v1/topics"
	PathStages        = "/v1/stages"
	PathGroups        = "/v1/groups"
	PathConnections   = "/v1/connections"
	PathSettings      = "/v1/settings"
	PathTrace         = "/v1/trace"
	PathReopen        = "/v1/reopen"
	PathProfiles      = "/debug/pprof/"
)

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.HandleFunc("GET "+PathLive, s.live)
	mux.HandleFunc("GET "+PathReady, s.ready)
	mux.HandleFunc("GET "+PathStartup, s.startup)
	mux.HandleFunc("GET "+PathMetrics, s.asking(s.metrics))
	mux.HandleFunc("GET "+PathPublicMetrics, s.asking(s.publicMetrics))
	mux.HandleFunc("GET "+PathStatus, s.asking(s.status))
	mux.HandleFunc("GET "+PathShards, s.asking(s.shards))
	mux.HandleFunc("GET "+PathTopics, s.asking(s.topics))
	mux.HandleFunc("GET "+PathStages, s.asking(s.stages))
	mux.HandleFunc("GET "+PathGroups, s.asking(s.groups))
	mux.HandleFunc("GET "+PathConnections, s.asking(s.connections))
	mux.HandleFunc("GET "+PathSettings, s.settings)
	mux.HandleFunc("GET "+PathTrace, s.trace)
	mux.HandleFunc("POST "+PathReopen, s.reopen)
	if s.opts.Profiles {
		mux.HandleFunc(PathProfiles, endless(pprof.Index))
		mux.HandleFunc(PathProfiles+"cmdline", pprof.Cmdline)
		mux.HandleFunc(PathProfiles+"profile", endless(pprof.Profile))
		mux.HandleFunc(PathProfiles+"symbol", pprof.Symbol)
		mux.HandleFunc(PathProfiles+"trace", endless(pprof.Trace))
	}
	return mux
}

// endless serves what may take longer than other requests.
func endless(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		unlimited(w)
		h(w, r)
	}
}

// unlimited takes the time limit of an answer away. Where there is none, as in a test, it
// does nothing.
func unlimited(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
}

// asking bounds the requests that ask shards, in number and in time.
func (s *Server) asking(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.ask <- struct{}{}:
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("%d requests are being answered; try again", askers), http.StatusServiceUnavailable)
			return
		}
		defer func() { <-s.ask }()
		ctx, cancel := context.WithTimeout(r.Context(), s.opts.patience)
		defer cancel()
		h(w, r.WithContext(ctx))
	}
}

// settings serves the configuration.
func (s *Server) settings(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if s.opts.Settings != nil {
		_, _ = w.Write(s.opts.Settings()) // whoever has gone reads no error either
	}
}

// trace serves a snapshot of the flight recorder.
func (s *Server) trace(w http.ResponseWriter, _ *http.Request) {
	if s.opts.Recorder == nil {
		http.Error(w, "the flight recorder is off: trace.record (--trace-record) is false", http.StatusNotFound)
		return
	}
	snapshot, err := s.opts.Recorder.Snapshot()
	if err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, oneLine(err), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(snapshot) // whoever has gone reads no error either
}

// index lists what there is.
func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "mqd %s\n\n", s.opts.Version)
	for _, path := range []string{PathLive, PathReady, PathStartup, PathMetrics, PathPublicMetrics, PathStatus, PathShards, PathStages, PathTopics, PathGroups, PathConnections, PathSettings, PathTrace} {
		fmt.Fprintln(w, path)
	}
	fmt.Fprintf(w, "%s (POST)\n", PathReopen)
	if s.opts.Profiles {
		fmt.Fprintln(w, PathProfiles)
	}
}
