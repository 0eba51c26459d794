package opinion

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/batch"
)

// known is what answers have told: the ids differ from broker to broker.
type known struct {
	member     string
	generation int32
	producer   int64
}

// step is a request, sent to both.
type step struct {
	name    string
	version int16
	make    func(k *known) kmsg.Request
	learn   func(k *known, a kmsg.Response)
}

// records is a batch of two records.
func records(producer int64, sequence int32) []byte {
	b := batch.NewBuilder(nil, 1<<16)
	if producer >= 0 {
		b.SetProducer(producer, 0, sequence)
	}
	for i := range int64(2) {
		if err := b.Append(&batch.Record{Timestamp: 1_700_000_000_000 + i, Key: []byte("k"), Value: []byte("v")}); err != nil {
			panic(err)
		}
	}
	return b.Finish(batch.CodecNone)
}

func produce(topic string, partition int32, acks int16, data func(k *known) []byte) func(k *known) kmsg.Request {
	return func(k *known) kmsg.Request {
		q := kmsg.NewPtrProduceRequest()
		q.Acks, q.TimeoutMillis = acks, 5000
		q.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: data(k)}}}}
		return q
	}
}

func plain(*known) []byte { return records(-1, 0) }

func numbered(sequence int32) func(k *known) []byte {
	return func(k *known) []byte { return records(k.producer, sequence) }
}

func spoilt(*known) []byte {
	b := records(-1, 0)
	b[len(b)-1] ^= 1
	return b
}

func fetch(topic string, partition int32, offset int64) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrFetchRequest()
		q.ReplicaID, q.SessionEpoch, q.MaxBytes, q.MinBytes, q.MaxWaitMillis = -1, -1, 1<<20, 0, 1
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
		q.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
		return q
	}
}

func offsets(topic string, partition int32, time int64) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrListOffsetsRequest()
		q.ReplicaID = -1
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = partition, time
		q.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		return q
	}
}

// logSteps are about topics and their records.
func logSteps() []step {
	return []step{
		{"create t", 5, create("t", 2, 1), nil},
		{"create t again", 5, create("t", 2, 1), nil},
		{"create with a bad name", 5, create("a/b", 1, 1), nil},
		{"create with no partitions", 5, create("none", 0, 1), nil},
		{"create with three replicas", 5, create("three", 1, 3), nil},
		{"metadata of t", 9, metadata("t"), nil},
		{"metadata of an unknown topic", 9, metadata("nowhere"), nil},
		{"produce", 7, produce("t", 0, -1, plain), nil},
		{"produce with acks 1", 7, produce("t", 0, 1, plain), nil},
		{"produce with acks 2", 7, produce("t", 0, 2, plain), nil},
		{"produce to an unknown topic", 7, produce("nowhere", 0, -1, plain), nil},
		{"produce to an unknown partition", 7, produce("t", 9, -1, plain), nil},
		{"produce a damaged batch", 7, produce("t", 0, -1, spoilt), nil},
		{"produce nothing", 7, produce("t", 0, -1, func(*known) []byte { return nil }), nil},
		{"ask for a producer id", 3, func(*known) kmsg.Request { return kmsg.NewPtrInitProducerIDRequest() },
			func(k *known, a kmsg.Response) { k.producer = a.(*kmsg.InitProducerIDResponse).ProducerID }},
		{"produce sequence 0", 7, produce("t", 1, -1, numbered(0)), nil},
		{"produce sequence 0 again", 7, produce("t", 1, -1, numbered(0)), nil},
		{"produce sequence 2", 7, produce("t", 1, -1, numbered(2)), nil},
		{"produce sequence 9", 7, produce("t", 1, -1, numbered(9)), nil},
		{"fetch", 11, fetch("t", 0, 0), nil},
		{"fetch from the end", 11, fetch("t", 0, 4), nil},
		{"fetch behind the end", 11, fetch("t", 0, 99), nil},
		{"fetch below the start", 11, fetch("t", 0, -7), nil},
		{"fetch from an unknown topic", 11, fetch("nowhere", 0, 0), nil},
		{"fetch from an unknown partition", 11, fetch("t", 9, 0), nil},
		{"the end", 7, offsets("t", 0, -1), nil},
		{"the start", 7, offsets("t", 0, -2), nil},
		{"the newest", 7, offsets("t", 0, -3), nil},
		{"a time before all", 7, offsets("t", 0, 1), nil},
		{"a time between", 7, offsets("t", 0, 1_700_000_000_001), nil},
		{"a time behind all", 7, offsets("t", 0, 1_800_000_000_000), nil},
		{"the end of an unknown topic", 7, offsets("nowhere", 0, -1), nil},
		{"the end of an unknown partition", 7, offsets("t", 9, -1), nil},
		{"end of epoch of an unknown topic", 4, epochEnd("nowhere", 0), nil},
		{"delete records", 2, deleteRecords("t", 0, 2), nil},
		{"delete records behind the end", 2, deleteRecords("t", 0, 99), nil},
		{"delete records of an unknown topic", 2, deleteRecords("nowhere", 0, 1), nil},
		{"fetch what was deleted", 11, fetch("t", 0, 0), nil},
		{"the start behind the deletion", 7, offsets("t", 0, -2), nil},
		{"more partitions", 3, partitions("t", 3), nil},
		{"as many partitions", 3, partitions("t", 3), nil},
		{"fewer partitions", 3, partitions("t", 1), nil},
		{"partitions of an unknown topic", 3, partitions("nowhere", 3), nil},
		{"read a config", 4, describe("t", "retention.ms"), nil},
		{"read a config of an unknown topic", 4, describe("nowhere", "retention.ms"), nil},
		{"set a config", 1, alter("t", "retention.ms", "86400000", kmsg.IncrementalAlterConfigOpSet), nil},
		{"read it again", 4, describe("t", "retention.ms"), nil},
		{"delete the config", 1, alter("t", "retention.ms", "", kmsg.IncrementalAlterConfigOpDelete), nil},
		{"read it when it is deleted", 4, describe("t", "retention.ms"), nil},
		{"set a config to nonsense", 1, alter("t", "retention.ms", "soon", kmsg.IncrementalAlterConfigOpSet), nil},
		{"set a config that there is not", 1, alter("t", "no.such", "1", kmsg.IncrementalAlterConfigOpSet), nil},
		{"set a config of an unknown topic", 1, alter("nowhere", "retention.ms", "1", kmsg.IncrementalAlterConfigOpSet), nil},
		{"delete an unknown topic", 5, deleteTopic("nowhere"), nil},
		{"describe the cluster", 0, func(*known) kmsg.Request { return kmsg.NewPtrDescribeClusterRequest() }, nil},
	}
}

func create(name string, partitions int32, replicas int16) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrCreateTopicsRequest()
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replicas
		q.Topics, q.TimeoutMillis = append(q.Topics, t), 5000
		return q
	}
}

func metadata(name string) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrMetadataRequest()
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		q.Topics, q.AllowAutoTopicCreation = append(q.Topics, t), false
		return q
	}
}

func epochEnd(name string, epoch int32) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrOffsetForLeaderEpochRequest()
		q.ReplicaID = -1
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.CurrentLeaderEpoch, p.LeaderEpoch = -1, epoch
		q.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: name, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
		return q
	}
}

func deleteRecords(name string, partition int32, offset int64) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrDeleteRecordsRequest()
		q.TimeoutMillis = 5000
		q.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}}}}
		return q
	}
}

func partitions(name string, n int32) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrCreatePartitionsRequest()
		q.TimeoutMillis = 5000
		q.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: n}}
		return q
	}
}

func describe(name, key string) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrDescribeConfigsRequest()
		q.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name, ConfigNames: []string{key}}}
		return q
	}
}

func alter(name, key, value string, op kmsg.IncrementalAlterConfigOp) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrIncrementalAlterConfigsRequest()
		c := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Op: op}
		if op == kmsg.IncrementalAlterConfigOpSet {
			c.Value = &value
		}
		q.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{c},
		}}
		return q
	}
}

func deleteTopic(name string) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrDeleteTopicsRequest()
		q.TopicNames, q.TimeoutMillis = []string{name}, 5000
		return q
	}
}
