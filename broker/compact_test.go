package broker

import (
	"bytes"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/catalog"
)

// growKeyed adds batches whose records have few keys until the topic has n segments more.
func (r *rig) growKeyed(topic *catalog.Topic, n int) {
	r.t.Helper()
	for have := len(r.logs(topic)); len(r.logs(topic)) < have+n; {
		b := batch.NewBuilder(nil, 1<<16)
		for i := range 4 {
			rec := batch.Record{Timestamp: 1, Key: []byte{byte('a' + i)}, Value: bytes.Repeat([]byte{'v'}, 500)}
			if err := b.Append(&rec); err != nil {
				r.t.Fatal(err)
			}
		}
		r.mustProduce(0, topic.ID, 0, b.Finish(batch.CodecZstd))
	}
}

func (r *rig) alter(settings ...catalog.Setting) {
	r.t.Helper()
	if a := r.admin(0, &Admin{Kind: AlterTopic, Name: "t", Settings: settings}); a.Code != OK {
		r.t.Fatalf("alter: %v %s", a.Code, a.Message)
	}
}

// Compaction is turned on, and held back, while the topic is in use. As long as it is the
// only policy nothing goes by age, however old.
func TestATopicIsCompactedWhenItSaysSo(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1, smallest(), set("min.cleanable.dirty.ratio", "0.1"))
	r.growKeyed(topic, 3)
	r.stays(topic, 15*time.Second)
	size := r.part(topic).Bytes()
	r.alter(set("cleanup.policy", "compact"), set("min.compaction.lag.ms", "1h"), set("retention.ms", "1000"))
	r.stays(topic, 15*time.Second)
	if now := r.part(topic).Bytes(); now < size {
		t.Fatalf("%d bytes, were %d: less than the lag allows", now, size)
	}
	r.alter(set("min.compaction.lag.ms", "0"))
	r.growKeyed(topic, 1)
	for waited := 0; r.part(topic).Bytes() >= size/2; waited++ {
		if waited > 100 {
			t.Fatalf("%d bytes, were %d: %+v", r.part(topic).Bytes(), size, r.shards[0].store.Stats())
		}
		r.pass(time.Second)
	}
	if start := r.part(topic).LogStart(); start != 0 {
		t.Fatalf("the log begins at %d", start)
	}
	r.alter(set("cleanup.policy", "compact,delete"))
	r.soon(topic)
	if a := r.admin(0, &Admin{Kind: AlterTopic, Name: "t", Settings: []catalog.Setting{set("cleanup.policy", "compress")}}); a.Code == OK || a.Message == "" {
		t.Fatalf("a policy that there is not: %v %q", a.Code, a.Message)
	}
}
