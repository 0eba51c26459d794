package admin

import (
	"fmt"
	"net/http"
	"time"

	"github.com/mqd-broker/mqd/broker"
)

// maxListed bounds the partitions in the list of topics.
const maxListed = 100_000

// topicJSON is a topic in the list.
type topicJSON struct {
	Name       string          `json:"name"`
	ID         string          `json:"id"`
	Created    time.Time       `json:"created"`
	Durability string          `json:"durability"`
	Partitions uint32          `json:"partitions"`
	Listed     []partitionJSON `json:"listed"`
}

// partitionJSON is a partition of it.
type partitionJSON struct {
	Partition    int    `json:"partition"`
	Shard        int    `json:"shard"`
	Class        string `json:"class"`
	LogStart     int64  `json:"log_start_offset"`
	Durable      int64  `json:"durable_offset"`
	End          int64  `json:"end_offset"`
	Bytes        int64  `json:"size_bytes"`
	ExposedBytes int64  `json:"exposed_bytes"`
	Epoch        uint32 `json:"epoch"`
}

// topics serves all topics with their partitions.
func (s *Server) topics(w http.ResponseWriter, r *http.Request) {
	all := []topicJSON{}
	c := s.opts.Service.Condition()
	if c.Node == nil {
		writeJSON(w, all)
		return
	}
	for _, t := range c.Node.TopicFigures(r.Context(), maxListed) {
		one := topicJSON{
			Name: t.Topic.Name, ID: fmt.Sprintf("%x", t.Topic.ID[:]), Created: time.Unix(0, t.Topic.Created).UTC(),
			Durability: broker.Class(t.Topic.Config.Durability()).String(),
			Partitions: t.Topic.Partitions, Listed: make([]partitionJSON, 0, len(t.Partitions)),
		}
		for i, p := range t.Partitions {
			one.Listed = append(one.Listed, partitionJSON{
				Partition: i, Shard: p.Shard, Class: p.Class.String(), LogStart: p.LogStart, Durable: p.Durable, End: p.End,
				Bytes: p.Bytes, ExposedBytes: p.ExposedBytes, Epoch: p.Epoch,
			})
		}
		all = append(all, one)
	}
	writeJSON(w, all)
}
