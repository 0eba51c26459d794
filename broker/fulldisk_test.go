package broker

import (
	"testing"
	"time"
)

// On a full disk everything waited for room until its time was over, and nobody heard
// why; so did the deletion of a topic, which alone would have made room.
func TestOnAFullDiskTopicsAreDeletedAndTheRestIsToldWhy(t *testing.T) {
	r := newRig(t, rigOptions{broker: Options{ProduceTimeout: 2 * time.Second}})
	topic := r.create("t", 1)
	spare := r.create("spare", 1)
	r.mustProduce(0, topic.ID, 0, testBatch(t, 1, 100))
	if err := r.w.SetCapacity(rigDir, 1); err != nil {
		t.Fatal(err)
	}
	var last *produced
	for n := 0; last == nil || last.Code == OK; n++ {
		if n == 10_000 {
			t.Fatal("the disk never filled")
		}
		last = r.produce(0, topic.ID, 0, testBatch(t, 8, 400))
	}
	if last.Code != Busy || last.Message != helpDiskFull {
		t.Fatalf("produce: %v %q", last.Code, last.Message)
	}
	if a := r.admin(0, &Admin{Kind: CreateTopic, Name: "new", Partitions: 1}); a.Code != Busy || a.Message != helpDiskFull {
		t.Fatalf("create: %v %q", a.Code, a.Message)
	}
	if a := r.admin(0, &Admin{Kind: DeleteTopic, Name: "t"}); a.Code != OK {
		t.Fatalf("delete: %v %q", a.Code, a.Message)
	}
	if err := r.w.SetCapacity(rigDir, 1<<40); err != nil {
		t.Fatal(err)
	}
	for last = nil; last == nil || last.Code != OK; last = r.produce(0, spare.ID, 0, testBatch(t, 1, 100)) {
		if last != nil && last.Code != Busy {
			t.Fatalf("produce: %v %q", last.Code, last.Message)
		}
		r.run(10 * time.Millisecond)
	}
	r.mustHold(0, spare.ID, 0, []*produced{last})
}
