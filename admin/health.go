package admin

import (
	"net/http"
	"strings"

	"github.com/mqd-broker/mqd/node"
)

// The probes do no I/O and ask no shard: they read what shards leave for anybody.

// live answers 200 while every loop turns. A broker without a node is alive: it waits for
// an order.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) {
	c := s.opts.Service.Condition()
	verdict(w, "live", stalls(&c, maxSilence))
}

// ready answers 200 while everything is taken and served.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	c := s.opts.Service.Condition()
	verdict(w, "ready", reasons(&c))
}

// startup answers 200 when the first start is over.
func (s *Server) startup(w http.ResponseWriter, _ *http.Request) {
	c := s.opts.Service.Condition()
	var why []string
	if c.State == node.Starting {
		why = reasons(&c)
	}
	verdict(w, "started", why)
}

// verdict answers with a word, or with the reasons against it, a line each.
func verdict(w http.ResponseWriter, word string, against []string) {
	w.Header().Set("Cache-Control", "no-store")
	if len(against) > 0 {
		http.Error(w, "not "+word+"\n"+strings.Join(against, "\n"), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(word + "\n")) // whoever has gone reads no error either
}
