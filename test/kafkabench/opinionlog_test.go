package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/mqd-broker/mqd/batch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// base is the time of the records, with one second between them.
const base = 1_700_000_000_000

// producer is who has made a batch; id -1 is nobody.
type producer struct {
	id    int64
	epoch int16
	seq   int32
}

var nobody = producer{id: -1, epoch: -1, seq: -1}

// records are a batch of n.
func (p producer) records(n int, transactional bool) []byte {
	b := batch.NewBuilder(nil, batch.MaxSize)
	if p.id >= 0 {
		b.SetProducer(p.id, p.epoch, p.seq)
	}
	if transactional {
		b.SetTransactional()
	}
	for i := range n {
		if err := b.Append(&batch.Record{Timestamp: base + int64(i)*1000, Key: []byte("k"), Value: fmt.Appendf(nil, "value %d", i)}); err != nil {
			panic(err)
		}
	}
	return slices.Clone(b.Finish(batch.CodecNone))
}

func (a *asker) produce(topic string, partition int32, acks int16, records []byte) string {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, ok := send[*kmsg.ProduceResponse](a, req)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return noAnswer
	}
	r := resp.Topics[0].Partitions[0]
	return fmt.Sprintf("%s %d", code(r.ErrorCode), r.BaseOffset)
}

// produced sends what change makes of a good batch of two records.
func produced(change func([]byte) []byte) func(*asker) string {
	return func(a *asker) string { return a.produce(a.create(), 0, -1, change(nobody.records(2, false))) }
}

// summed puts the right checksum into a batch.
func summed(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func (a *asker) producerID() producer {
	resp, ok := send[*kmsg.InitProducerIDResponse](a, newInit("", -1, -1))
	if !ok || resp.ErrorCode != 0 {
		panic("InitProducerId")
	}
	return producer{id: resp.ProducerID, epoch: resp.ProducerEpoch}
}

func newInit(transaction string, id int64, epoch int16) *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	if transaction != "-" && transaction != "" {
		req.TransactionalID = &transaction
	}
	req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = 60_000, id, epoch
	return req
}

func (a *asker) initialized(id int64, epoch int16) string {
	resp, ok := send[*kmsg.InitProducerIDResponse](a, newInit("", id, epoch))
	if !ok {
		return noAnswer
	}
	return code(resp.ErrorCode)
}

// sequences sends batches of two records with sequence numbers, and a change of the epoch
// before the last.
func sequences(epoch int16, numbers ...int32) func(*asker) string {
	return func(a *asker) string {
		topic, p := a.create(), a.producerID()
		p.epoch = max(0, -epoch)
		var all []string
		for i, n := range numbers {
			if i == len(numbers)-1 {
				p.epoch += epoch
			}
			p.seq = n
			all = append(all, a.produce(topic, 0, -1, p.records(2, false)))
		}
		return strings.Join(all, ", ")
	}
}

var produceQuestions = []question{
	{"Produce: unknown topic", func(a *asker) string { return a.produce("nosuch", 0, -1, nobody.records(1, false)) }},
	{"Produce: a bad name", func(a *asker) string { return a.produce("a b", 0, -1, nobody.records(1, false)) }},
	{"Produce: unknown partition", func(a *asker) string { return a.produce(a.create(), 2, -1, nobody.records(1, false)) }},
	{"Produce: partition -1", func(a *asker) string { return a.produce(a.create(), -1, -1, nobody.records(1, false)) }},
	{"Produce: null", produced(func([]byte) []byte { return nil })},
	{"Produce: nothing", produced(func([]byte) []byte { return []byte{} })},
	{"Produce: a wrong checksum", produced(func(b []byte) []byte { b[len(b)-1] ^= 1; return b })},
	{"Produce: cut in the header", produced(func(b []byte) []byte { return b[:30] })},
	{"Produce: cut in the records", produced(func(b []byte) []byte { return b[:len(b)-3] })},
	{"Produce: two batches", produced(func(b []byte) []byte { return append(b, slices.Clone(b)...) })},
	{"Produce: bytes behind the batch", produced(func(b []byte) []byte { return append(b, 1, 2, 3) })},
	{"Produce: magic 1", produced(func(b []byte) []byte { b[16] = 1; return b })},
	{"Produce: magic 3", produced(func(b []byte) []byte { b[16] = 3; return b })},
	{"Produce: a base offset other than 0", produced(func(b []byte) []byte { b[7] = 9; return b })},
	{"Produce: fewer records than offsets", produced(func(b []byte) []byte { b[26] = 7; return summed(b) })},
	{"Produce: a batch of the broker's own", produced(func(b []byte) []byte { b[22] |= 0x20; return summed(b) })},
	{"Produce: an unknown codec", produced(func(b []byte) []byte { b[22] |= 7; return summed(b) })},
	{"Produce: too large", func(a *asker) string {
		return a.produce(a.create("max.message.bytes", "5000"), 0, -1, nobody.records(600, false))
	}},
	{"Produce: without keys to a compacted topic", func(a *asker) string {
		b := batch.NewBuilder(nil, batch.MaxSize)
		if err := b.Append(&batch.Record{Timestamp: base, Value: []byte("v")}); err != nil {
			panic(err)
		}
		return a.produce(a.create("cleanup.policy", "compact"), 0, -1, b.Finish(batch.CodecNone))
	}},
	{"Produce: in a transaction that is none", func(a *asker) string {
		topic, p := a.create(), a.producerID()
		return a.produce(topic, 0, -1, p.records(1, true))
	}},
	{"Produce: a sequence without a gap", sequences(0, 0, 2, 4)},
	{"Produce: a sequence with a gap", sequences(0, 0, 3)},
	{"Produce: a batch twice", sequences(0, 0, 2, 0)},
	{"Produce: a batch of long ago again", sequences(0, 0, 2, 4, 6, 8, 10, 0)},
	{"Produce: a first sequence that is not 0", sequences(0, 5)},
	{"Produce: a sequence that overlaps", sequences(0, 0, 2, 1)},
	{"Produce: a newer epoch from 0", sequences(1, 0, 0)},
	{"Produce: a newer epoch from 2", sequences(1, 0, 2)},
	{"Produce: an older epoch", sequences(-1, 0, 2)},
	{"InitProducerId: for nobody", func(a *asker) string { return a.initialized(-1, -1) }},
	{"InitProducerId: again", func(a *asker) string { return a.initialized(4000, 3) }},
	{"InitProducerId: an id without an epoch", func(a *asker) string { return a.initialized(4000, -1) }},
}

func (a *asker) fetch(topic string, partition int32, offset int64, most int32, epoch int32) string {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.ReplicaID = 100, 1, most, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = partition, offset, most, epoch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, ok := send[*kmsg.FetchResponse](a, req)
	if !ok {
		return noAnswer
	}
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 {
		return code(resp.ErrorCode) + " for everything"
	}
	r := resp.Topics[0].Partitions[0]
	return fmt.Sprintf("%s, %d batches, end %d, start %d", code(r.ErrorCode), batchesIn(r.RecordBatches), r.HighWatermark, r.LogStartOffset)
}

// batchesIn counts the whole ones.
func batchesIn(b []byte) (n int) {
	for len(b) >= 12 {
		size := 12 + int(binary.BigEndian.Uint32(b[8:]))
		if size > len(b) {
			break
		}
		b, n = b[size:], n+1
	}
	return n
}

// filled makes a topic whose partition 0 has three batches of two records, and hands it on.
func filled(ask func(a *asker, topic string) string) func(*asker) string {
	return func(a *asker) string {
		topic := a.create()
		for range 3 {
			if got := a.produce(topic, 0, -1, nobody.records(2, false)); !strings.HasPrefix(got, "NONE") {
				panic(got)
			}
		}
		return ask(a, topic)
	}
}

func fetched(offset int64, most int32, epoch int32) func(*asker) string {
	return filled(func(a *asker, topic string) string { return a.fetch(topic, 0, offset, most, epoch) })
}

func (a *asker) offsets(topic string, partition int32, at int64) string {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, at, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, ok := send[*kmsg.ListOffsetsResponse](a, req)
	if !ok || len(resp.Topics) != 1 {
		return noAnswer
	}
	r := resp.Topics[0].Partitions[0]
	text := fmt.Sprintf("%s %d", code(r.ErrorCode), r.Offset)
	if r.Timestamp != -1 {
		text += fmt.Sprintf(" at %d", r.Timestamp-base)
	}
	return text
}

func listed(at int64) func(*asker) string {
	return filled(func(a *asker, topic string) string { return a.offsets(topic, 0, at) })
}

func (a *asker) deleteRecords(topic string, partition int32, to int64) string {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	t.Partitions = []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: to}}
	req.Topics = append(req.Topics, t)
	resp, ok := send[*kmsg.DeleteRecordsResponse](a, req)
	if !ok || len(resp.Topics) != 1 {
		return noAnswer
	}
	r := resp.Topics[0].Partitions[0]
	return fmt.Sprintf("%s %d", code(r.ErrorCode), r.LowWatermark)
}

func cut(to int64) func(*asker) string {
	return filled(func(a *asker, topic string) string { return a.deleteRecords(topic, 0, to) })
}

func (a *asker) epochEnd(topic string, partition, current, of int32) string {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = topic
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = partition, current, of
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, ok := send[*kmsg.OffsetForLeaderEpochResponse](a, req)
	if !ok || len(resp.Topics) != 1 {
		return noAnswer
	}
	r := resp.Topics[0].Partitions[0]
	return fmt.Sprintf("%s, end %d", code(r.ErrorCode), r.EndOffset)
}

var readQuestions = []question{
	{"Fetch: unknown topic", func(a *asker) string { return a.fetch("nosuch", 0, 0, 1<<20, -1) }},
	{"Fetch: unknown partition", func(a *asker) string { return a.fetch(a.create(), 2, 0, 1<<20, -1) }},
	{"Fetch: everything", fetched(0, 1<<20, -1)},
	{"Fetch: at the end", fetched(6, 1<<20, -1)},
	{"Fetch: behind the end", fetched(7, 1<<20, -1)},
	{"Fetch: in the middle of a batch", fetched(3, 1<<20, -1)},
	{"Fetch: at -1", fetched(-1, 1<<20, -1)},
	{"Fetch: at most 0 bytes", fetched(0, 0, -1)},
	{"Fetch: at most 1 byte", fetched(0, 1, -1)},
	{"Fetch: at most -1 bytes", fetched(0, -1, -1)},
	{"Fetch: from a leader that is still to come", fetched(0, 1<<20, 1<<30)},
	{"Fetch: before what was deleted", filled(func(a *asker, topic string) string {
		return a.deleteRecords(topic, 0, 3) + ", then " + a.fetch(topic, 0, 2, 1<<20, -1) + ", then " + a.fetch(topic, 0, 3, 1<<20, -1)
	})},
	{"ListOffsets: unknown topic", func(a *asker) string { return a.offsets("nosuch", 0, -1) }},
	{"ListOffsets: unknown partition", func(a *asker) string { return a.offsets(a.create(), 2, -1) }},
	{"ListOffsets: the end", listed(-1)},
	{"ListOffsets: the start", listed(-2)},
	{"ListOffsets: the greatest time", listed(-3)},
	{"ListOffsets: the greatest time of nothing", func(a *asker) string { return a.offsets(a.create(), 0, -3) }},
	{"ListOffsets: -4", listed(-4)},
	{"ListOffsets: -5", listed(-5)},
	{"ListOffsets: -9", listed(-9)},
	{"ListOffsets: time 0", listed(0)},
	{"ListOffsets: the time of a record", listed(base + 1000)},
	{"ListOffsets: a time between records", listed(base + 500)},
	{"ListOffsets: a time behind all", listed(base + 1001)},
	{"ListOffsets: a time in what is empty", func(a *asker) string { return a.offsets(a.create(), 0, base) }},
	{"DeleteRecords: unknown topic", func(a *asker) string { return a.deleteRecords("nosuch", 0, 1) }},
	{"DeleteRecords: unknown partition", func(a *asker) string { return a.deleteRecords(a.create(), 2, 1) }},
	{"DeleteRecords: in the middle of a batch", cut(3)},
	{"DeleteRecords: all", cut(-1)},
	{"DeleteRecords: behind the end", cut(7)},
	{"DeleteRecords: to -2", cut(-2)},
	{"DeleteRecords: to where it was before", filled(func(a *asker, topic string) string {
		return a.deleteRecords(topic, 0, 4) + ", then " + a.deleteRecords(topic, 0, 2)
	})},
	{"DeleteRecords: of a compacted topic", func(a *asker) string { return a.deleteRecords(a.create("cleanup.policy", "compact"), 0, 0) }},
	{"OffsetForLeaderEpoch: unknown topic", func(a *asker) string { return a.epochEnd("nosuch", 0, -1, 0) }},
	{"OffsetForLeaderEpoch: unknown partition", func(a *asker) string { return a.epochEnd(a.create(), 2, -1, 0) }},
	{"OffsetForLeaderEpoch: an epoch to come", filled(func(a *asker, topic string) string { return a.epochEnd(topic, 0, -1, 1<<30) })},
	{"OffsetForLeaderEpoch: of a leader to come", filled(func(a *asker, topic string) string { return a.epochEnd(topic, 0, 1<<30, 0) })},
	{"OffsetForLeaderEpoch: -1", filled(func(a *asker, topic string) string { return a.epochEnd(topic, 0, -1, -1) })},
}
