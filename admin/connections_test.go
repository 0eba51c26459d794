package admin

import (
	"context"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/node"
)

func TestConnectionsAreListed(t *testing.T) {
	r := newRig(t)
	var all connectionsJSON
	if r.decode(PathConnections, &all); all.Connections == nil || len(all.Connections) != 0 {
		t.Errorf("before the start: %+v", all)
	}
	r.start()
	r.produce("orders", 2, "a message") // a client has a connection for each shard that it needs
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := r.dial().Admin().CreateTopic(ctx, client.TopicSpec{Name: "more", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	r.decode(PathConnections, &all)
	count := r.service.Condition().Node.Figures(ctx).Connections
	if len(all.Connections) != count || count < 2 || all.LeftOut != 0 {
		t.Fatalf("%d of %d connections are listed, %d left out", len(all.Connections), count, all.LeftOut)
	}
	seen := map[[2]uint64]bool{}
	for _, c := range all.Connections {
		key := [2]uint64{uint64(c.Shard), c.ID}
		if seen[key] || c.ID == 0 || c.Peer == "" || c.Protocol != "mqd" || c.AgeSeconds < 0 || c.SilentSeconds < 0 || c.SilentSeconds > c.AgeSeconds || c.Ending {
			t.Errorf("%+v", c)
		}
		seen[key] = true
	}
	// Of more than there is room for the others are counted.
	list, left := r.service.Condition().Node.ConnFigures(ctx, 2)
	if len(list) == 0 || len(list) > 2 || len(list)+left != count {
		t.Errorf("%d of %d are listed, %d left out", len(list), count, left)
	}
}

func TestAConnectionIsToldInItsWords(t *testing.T) {
	f := node.ConnFigures{Shard: 1, Kafka: true, Age: time.Minute, Silent: time.Second}
	f.ID, f.Peer, f.Tenant, f.Principal, f.Frames, f.RecvBuffers, f.OutBytes, f.Paused, f.Ending = 7, "10.0.0.1:5", "t", "u", 2, 3, 4, true, true
	want := connectionJSON{Shard: 1, ID: 7, Peer: "10.0.0.1:5", Protocol: "kafka", Tenant: "t", User: "u", AgeSeconds: 60, SilentSeconds: 1,
		Requests: 2, RecvBuffers: 3, OutBytes: 4, Paused: true, Ending: true}
	if got := connectionOf(&f); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
