package node

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/ballast"
)

// pour produces to a topic until so many bytes are acknowledged. It returns false when that
// has been refused so many times in a row.
func (r *rig) pour(c *client.Client, topic string, bytes, patience int) bool {
	r.t.Helper()
	p, err := c.Producer(topic)
	if err != nil {
		r.t.Fatal(err)
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	v := make([]byte, 60<<10)
	for refused := 0; bytes > 0; {
		if _, err := p.Send(r.context(), client.Record{Value: v}); err == nil {
			bytes, refused = bytes-len(v), 0
			continue
		} else if mustBeFull(r.t, err); refused == patience {
			return false
		}
		refused++
		<-again.C
	}
	return true
}

// F03: where that is allowed, the oldest segments go before their time on a full disk, so
// that producers go on; the oldest of all first, and of a topic without a limit nothing.
func TestOnAFullDiskTheOldestGoIfThatIsAllowed(t *testing.T) {
	const room, capacity = 8 << 20, 256 << 20
	for name, allowed := range map[string]bool{"refuse": false, "delete-oldest": true} {
		t.Run(name, func(t *testing.T) {
			cfg := small(1)
			cfg.DeleteOnFull = allowed
			r := newRig(t, cfg, func(o *sim.Options) { o.Capacity = capacity })
			eventually(t, "ballast", func() bool { return r.ballastBytes() == ballast.Size(capacity) })
			c := r.dial()
			for topic, limit := range map[string][2]string{"kept": {}, "old": {"retention.bytes", "1GiB"}, "young": {"retention.ms", "864000000"}} {
				spec := client.TopicSpec{Name: topic, Partitions: 1, Configs: map[string]string{"segment.bytes": "512KiB"}}
				if limit[0] != "" {
					spec.Configs[limit[0]] = limit[1]
				}
				if _, err := c.Admin().CreateTopic(r.context(), spec); err != nil {
					t.Fatal(err)
				}
			}
			for _, topic := range []string{"kept", "old"} {
				if !r.pour(c, topic, 4<<20, 0) {
					t.Fatal("the disk is full before it should be")
				}
			}
			r.leave(room)
			patience := 60 // looks 50 ms apart
			if allowed {
				patience = 1200
			}
			if went := r.pour(c, "young", 4*room, patience); went != allowed {
				t.Fatalf("producers went on: %v\n%s", went, r.log)
			}
			start := map[string]int64{}
			for topic := range map[string]bool{"kept": true, "old": true, "young": true} {
				at, err := c.Admin().ListOffsets(r.context(), topic, client.Start())
				if err != nil {
					t.Fatal(err)
				}
				start[topic] = at[0].Offset
			}
			const segments = (4 << 20) / (60 << 10) // the records of the older topics
			switch {
			case start["kept"] != 0:
				t.Errorf("a topic without a limit begins at %d", start["kept"])
			case !allowed && (start["old"] != 0 || start["young"] != 0):
				t.Errorf("not allowed, and logs begin at %v", start)
			case allowed && (start["old"] < segments-16 || start["young"] == 0):
				t.Errorf("logs begin at %v: the oldest segments of all have not gone first", start)
			}
		})
	}
}
