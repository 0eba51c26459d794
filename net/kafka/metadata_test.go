package kafka_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/net/kafka"
)

func TestApiVersionsIsTheTable(t *testing.T) {
	r := newRig(t, rigOptions{seed: 20})
	c := r.dial()
	for v := int16(0); v <= 4; v++ {
		q := kmsg.NewPtrApiVersionsRequest()
		q.ClientSoftwareName, q.ClientSoftwareVersion = "test-client", "1.0"
		var a kmsg.ApiVersionsResponse
		c.take(v, c.ask(v, q), &a)
		if a.ErrorCode != 0 || len(a.ApiKeys) != len(kafka.APIs()) {
			t.Fatalf("version %d: %+v", v, a)
		}
		for i, api := range kafka.APIs() {
			if k := a.ApiKeys[i]; k.ApiKey != api.Key || k.MinVersion != api.Min || k.MaxVersion != api.Max {
				t.Errorf("version %d: %+v, expected %+v", v, k, api)
			}
		}
	}
	q := kmsg.NewPtrApiVersionsRequest()
	q.ClientSoftwareName, q.ClientSoftwareVersion = "-no", "1"
	var a kmsg.ApiVersionsResponse
	if c.take(3, c.ask(3, q), &a); a.ErrorCode != 42 {
		t.Errorf("a name that begins with a dash: %+v", a)
	}
	r.home()
}

// The answer to a version that is too high has the form of version 0 (KIP-511).
func TestAnApiVersionsThatIsTooHighLearnsTheHighest(t *testing.T) {
	r := newRig(t, rigOptions{seed: 21})
	c := r.dial()
	q := kmsg.NewPtrApiVersionsRequest()
	q.ClientSoftwareName, q.ClientSoftwareVersion = "test", "1"
	f := frame(4, 1, q)
	f[7] = 9 // the version
	c.write(f)
	var a kmsg.ApiVersionsResponse
	c.take(0, 1, &a)
	if a.ErrorCode != 35 || len(a.ApiKeys) != 1 || a.ApiKeys[0].ApiKey != 18 || a.ApiKeys[0].MaxVersion != 4 {
		t.Errorf("%+v", a)
	}
	c.corr = 1
	c.take(3, c.ask(3, q), &a) // and the connection goes on
	r.home()
}

func TestEveryVersionIsOneThatTheCodecKnows(t *testing.T) {
	for _, api := range kafka.APIs() {
		q := kmsg.RequestForKey(api.Key)
		if q == nil || q.MaxVersion() < api.Max || !strings.EqualFold(kmsg.NameForKey(api.Key), api.Name) {
			t.Errorf("%+v: the codec has %q up to version %d", api, kmsg.NameForKey(api.Key), q.MaxVersion())
		}
		for v := api.Min; v <= api.Max; v++ {
			if q.SetVersion(v); q.IsFlexible() != (v >= api.Flexible) {
				t.Errorf("%s version %d: flexible %v", api.Name, v, q.IsFlexible())
			}
		}
	}
}

// metadata asks for topics by name.
func (c *client) metadata(version int16, create bool, names ...string) kmsg.MetadataResponse {
	c.r.t.Helper()
	q := kmsg.NewPtrMetadataRequest()
	q.AllowAutoTopicCreation = create
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		q.Topics = append(q.Topics, t)
	}
	var a kmsg.MetadataResponse
	c.take(version, c.ask(version, q), &a)
	return a
}

func TestMetadataNamesTheAdvertisedAddressAndEveryTopic(t *testing.T) {
	r := newRig(t, rigOptions{seed: 22, shards: 2})
	r.create("one", 1)
	r.create("three", 3)
	c := r.dial()
	for v := int16(0); v <= 12; v++ {
		a := c.metadata(v, false)
		if len(a.Brokers) != 1 || a.Brokers[0].Host != "broker.test" || a.Brokers[0].Port != 9092 || a.Brokers[0].NodeID != 1 {
			t.Fatalf("version %d: %+v", v, a.Brokers)
		}
		if len(a.Topics) != 2 || *a.Topics[1].Topic != "three" || len(a.Topics[1].Partitions) != 3 {
			t.Fatalf("version %d: %+v", v, a.Topics)
		}
		p := a.Topics[1].Partitions[2]
		if p.Partition != 2 || p.Leader != 1 || p.ErrorCode != 0 || len(p.Replicas) != 1 || len(p.ISR) != 1 {
			t.Errorf("version %d: %+v", v, p)
		}
		id := r.shards[0].broker.Image().ByName("three").ID
		if v >= 10 && a.Topics[1].TopicID != id {
			t.Errorf("version %d: id %x", v, a.Topics[1].TopicID)
		}
		a = c.metadata(v, false, "three", "none", "..")
		if len(a.Topics) != 3 || a.Topics[0].ErrorCode != 0 || a.Topics[1].ErrorCode != 3 || a.Topics[2].ErrorCode != 17 {
			t.Errorf("version %d: %+v", v, a.Topics)
		}
	}
	q := kmsg.NewPtrMetadataRequest()
	known, unknown := kmsg.NewMetadataRequestTopic(), kmsg.NewMetadataRequestTopic()
	known.TopicID, unknown.TopicID = r.shards[0].broker.Image().ByName("one").ID, [16]byte{1}
	q.Topics = append(q.Topics, known, unknown)
	var a kmsg.MetadataResponse
	if c.take(12, c.ask(12, q), &a); *a.Topics[0].Topic != "one" || a.Topics[1].ErrorCode != 100 {
		t.Errorf("by id: %+v", a.Topics)
	}
	q.Topics = []kmsg.MetadataRequestTopic{}
	if c.take(12, c.ask(12, q), &a); len(a.Topics) != 0 {
		t.Errorf("no topics: %+v", a.Topics)
	}
	r.home()
}

func TestTopicsAreCreatedWhenBothSidesWantIt(t *testing.T) {
	for _, x := range []struct {
		on      broker.AutoCreate
		version int16
		allow   bool
		created bool
	}{
		{broker.AutoCreateOff, 12, true, false}, {broker.AutoCreateOff, 1, false, false},
		{broker.AutoCreateOn, 12, true, true}, {broker.AutoCreateOn, 12, false, false},
		{broker.AutoCreateOn, 4, false, false}, {broker.AutoCreateOn, 3, false, true},
	} {
		r := newRig(t, rigOptions{seed: 23, broker: broker.Options{AutoCreate: x.on, Partitions: 2}})
		c := r.dial()
		a := c.metadata(x.version, x.allow, "new", "__own", "new")
		if got := a.Topics[0].ErrorCode == 0 && len(a.Topics[0].Partitions) == 2; got != x.created || a.Topics[1].ErrorCode == 0 {
			t.Errorf("%+v: %+v", x, a.Topics)
		}
		if x.created { // a produce right after it is taken
			if p := c.produced(9, c.ask(9, produceOf("new", 1, records(0, "first"))))[0]; p.ErrorCode != 0 {
				t.Errorf("%+v: %+v", x, p)
			}
		}
		r.home()
	}
}

// Answers too long for the loop are made by helpers, and a connection whose peer goes
// away meanwhile leaves nothing.
func TestLongAnswersAreMadeElsewhere(t *testing.T) {
	r := newRig(t, rigOptions{seed: 24})
	r.create("wide", 5000)
	c, gone := r.dial(), r.dial()
	gone.ask(12, kmsg.NewPtrMetadataRequest())
	r.turn()
	gone.close()
	if a := c.metadata(9, false, "wide"); len(a.Topics[0].Partitions) != 5000 {
		t.Errorf("%d partitions", len(a.Topics[0].Partitions))
	}
	r.home()
}

func TestProducerIDsAreGivenOutOnce(t *testing.T) {
	r := newRig(t, rigOptions{seed: 25, shards: 2})
	c := r.dial()
	seen := map[int64]bool{}
	for v := int16(0); v <= 4; v++ {
		q := kmsg.NewPtrInitProducerIDRequest()
		q.ProducerID, q.ProducerEpoch = -1, -1
		var a kmsg.InitProducerIDResponse
		if c.take(v, c.ask(v, q), &a); a.ErrorCode != 0 || a.ProducerEpoch != 0 || seen[a.ProducerID] {
			t.Errorf("version %d: %+v", v, a)
		}
		seen[a.ProducerID] = true
		q.TransactionalID = kmsg.StringPtr("payments")
		if c.take(v, c.ask(v, q), &a); a.ErrorCode != 35 || a.ProducerID != -1 {
			t.Errorf("version %d, a transaction: %+v", v, a)
		}
	}
	r.home()
}

func TestARepeatedBatchIsAnsweredAndNotWrittenAgain(t *testing.T) {
	r := newRig(t, rigOptions{seed: 26})
	r.create("events", 1)
	c := r.dial()
	b := func(epoch int16, sequence int32) []byte {
		return idempotent(records(0, "v"), 77, epoch, sequence)
	}
	for i, x := range []struct {
		epoch    int16
		sequence int32
		code     int16
		offset   int64
	}{
		{0, 10, 0, 0}, // a producer that nobody knows may begin anywhere
		{0, 11, 0, 1}, {0, 12, 0, 2}, {0, 11, 0, 1}, {0, 10, 0, 0}, {0, 14, 45, -1}, {0, 13, 0, 3},
		{1, 0, 0, 4}, {0, 14, 47, -1}, {1, 1, 0, 5},
	} {
		p := c.produced(9, c.ask(9, produceOf("events", 1, b(x.epoch, x.sequence))))[0]
		if p.ErrorCode != x.code || p.BaseOffset != x.offset {
			t.Errorf("step %d, %+v: %+v", i, x, p)
		}
	}
	r.home()
}

func TestOffsetsAreLookedUpInEveryVersion(t *testing.T) {
	r := newRig(t, rigOptions{seed: 27, shards: 2})
	r.create("events", 4)
	c := r.dial()
	c.produced(9, c.ask(9, produceOf("events", 1, records(0, "a", "b", "c")))) // at 1000, 1001, 1002
	for v := int16(0); v <= 7; v++ {
		q := kmsg.NewPtrListOffsetsRequest()
		tp := kmsg.NewListOffsetsRequestTopic()
		tp.Topic = "events"
		for _, x := range [][2]int64{{0, -1}, {0, -2}, {0, 1001}, {0, 2000}, {1, -1}, {1, 5}, {9, -1}, {0, -3}} {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = int32(x[0]), x[1]
			tp.Partitions = append(tp.Partitions, p)
		}
		unknown := kmsg.ListOffsetsRequestTopic{Topic: "unknown", Partitions: make([]kmsg.ListOffsetsRequestTopicPartition, 1000)} // a long answer
		q.Topics = append(q.Topics, tp, unknown)
		var a kmsg.ListOffsetsResponse
		before := r.failures()
		c.take(v, c.ask(v, q), &a)
		failed := uint64(0)
		for _, p := range slices.Concat(a.Topics[0].Partitions, a.Topics[1].Partitions) {
			if p.ErrorCode != 0 {
				failed++
			}
		}
		if n := r.failures() - before; n != failed || failed <= 1000 {
			t.Errorf("version %d: %d partitions of 1008 failed, %d are counted", v, failed, n)
		}
		for i, want := range [][4]int64{{0, 3, -1, 1}, {0, 0, -1, 1}, {0, 1, 1001, 1}, {0, -1, -1, -1}, {0, 0, -1, 1}, {0, -1, -1, -1}, {3, -1, -1, -1}, {35, -1, -1, -1}} {
			switch {
			case v == 0:
				want = [4]int64{35, -1, -1, -1} // it has other fields
			case v < 4:
				want[3] = -1
			case v == 7 && want[0] == 35:
				want = [4]int64{0, 2, 1002, 1}
			}
			if p := a.Topics[0].Partitions[i]; int64(p.ErrorCode) != want[0] || p.Offset != want[1] || p.Timestamp != want[2] || int64(p.LeaderEpoch) != want[3] || len(p.OldStyleOffsets) > 0 {
				t.Errorf("version %d, %d: %+v, expected %v", v, i, p, want)
			}
		}
	}
	r.home()
}

func TestASilentConnectionEnds(t *testing.T) {
	r := newRig(t, rigOptions{seed: 28, kafka: kafka.Options{IdleTimeout: 3 * time.Second}})
	c := r.dial()
	c.metadata(1, false)
	r.advance(2 * time.Second)
	if c.ended {
		t.Error("it ended before its time")
	}
	r.advance(4 * time.Second)
	if !c.ended {
		t.Error("it did not end")
	}
	r.home()
}

func TestTheBrokerCoordinatesEveryGroup(t *testing.T) {
	r := newRig(t, rigOptions{seed: 29})
	c := r.dial()
	says := []string{1: "this broker has no transactions", 2: "this broker coordinates consumer groups only"}
	for v := int16(0); v <= 4; v++ {
		for _, kind := range []int8{0, 1, 2} {
			q := kmsg.NewPtrFindCoordinatorRequest()
			q.CoordinatorKey, q.CoordinatorKeys, q.CoordinatorType = "crew", []string{"crew", "night"}, kind
			var a kmsg.FindCoordinatorResponse
			c.take(v, c.ask(v, q), &a)
			if v == 0 {
				kind = 0 // it has no kinds
			}
			if v < 4 {
				a.Coordinators = []kmsg.FindCoordinatorResponseCoordinator{{NodeID: a.NodeID, Host: a.Host, Port: a.Port, ErrorCode: a.ErrorCode, ErrorMessage: a.ErrorMessage}}
			} else if len(a.Coordinators) != 2 || a.Coordinators[1].Key != "night" {
				t.Fatalf("%+v", a)
			}
			for _, at := range a.Coordinators {
				if ok := at.ErrorCode == 0 && at.NodeID == 1 && at.Host == "broker.test" && at.Port == 9092; ok != (kind == 0) {
					t.Errorf("version %d, kind %d: %+v", v, kind, at)
				}
				if v >= 1 && kind > 0 && (at.ErrorMessage == nil || *at.ErrorMessage != says[kind]) {
					t.Errorf("version %d, kind %d: the message is %v", v, kind, at.ErrorMessage)
				}
			}
		}
	}
	r.home()
}

// Scenario 45: clients that infer a release of Apache Kafka from the versions may take the
// broker for 3.0: whatever of 3.0 is served goes as far as there, and no further than what
// later releases have.
func TestScenario45TheVersionsAreThoseOfARelease(t *testing.T) {
	highest := map[int16]int16{
		0: 9, 1: 12, 2: 7, 3: 11, 8: 8, 9: 8, 10: 4, 11: 7, 12: 4, 13: 4, 14: 5, 15: 5, 16: 4, 18: 3, 19: 7, 20: 6, 21: 2, 22: 4,
		23: 4, 32: 4, 33: 2, 37: 3, 42: 2, 44: 1, 47: 0, 60: 0,
	}
	for _, api := range kafka.APIs() {
		if least, ok := highest[api.Key]; !ok || api.Max < least || api.Min > api.Max {
			t.Errorf("%s is served in versions %d to %d, expected up to %d at least", api.Name, api.Min, api.Max, least)
		}
	}
}
