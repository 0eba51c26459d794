package admin

import (
	"net/http"

	"github.com/mqd-broker/mqd/node"
)

// maxConnRows bounds the connections that are told of.
const maxConnRows = 4096

// connectionsJSON is the answer of /v1/connections.
type connectionsJSON struct {
	Connections []connectionJSON `json:"connections"`
	// LeftOut counts connections that are not among them.
	LeftOut int `json:"left_out"`
}

// connectionJSON is a connection of a client.
type connectionJSON struct {
	Shard int    `json:"shard"`
	ID    uint64 `json:"id"`
	// Peer is host:port of the client, "" if it has gone meanwhile.
	Peer     string `json:"peer"`
	Protocol string `json:"protocol"`
	Tenant   string `json:"tenant"`
	User     string `json:"user"`
	// AgeSeconds is how long it has been on its shard, SilentSeconds how long ago its newest
	// sign of life was.
	AgeSeconds    float64 `json:"age_seconds"`
	SilentSeconds float64 `json:"silent_seconds"`
	Requests      int     `json:"requests_in_works"`
	RecvBuffers   int     `json:"receive_buffers"`
	OutBytes      int     `json:"unsent_bytes"`
	// Paused says that it is not read, because it has its bound in the works or its peer does
	// not read, Ending that it comes to its end.
	Paused bool `json:"paused"`
	Ending bool `json:"ending"`
}

// connections serves the connections of clients.
func (s *Server) connections(w http.ResponseWriter, r *http.Request) {
	all := connectionsJSON{Connections: []connectionJSON{}}
	if c := s.opts.Service.Condition(); c.Node != nil {
		var list []node.ConnFigures
		list, all.LeftOut = c.Node.ConnFigures(r.Context(), maxConnRows)
		for i := range list {
			all.Connections = append(all.Connections, connectionOf(&list[i]))
		}
	}
	writeJSON(w, all)
}

func connectionOf(f *node.ConnFigures) connectionJSON {
	protocol := "mqd"
	if f.Kafka {
		protocol = "kafka"
	}
	return connectionJSON{
		Shard: f.Shard, ID: f.ID, Peer: f.Peer, Protocol: protocol, Tenant: f.Tenant, User: f.Principal,
		AgeSeconds: f.Age.Seconds(), SilentSeconds: f.Silent.Seconds(), Requests: f.Frames, RecvBuffers: f.RecvBuffers, OutBytes: f.OutBytes,
		Paused: f.Paused, Ending: f.Ending,
	}
}
