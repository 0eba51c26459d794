package bench

import (
	"fmt"

	"github.com/mqd-broker/mqd/bench/dialect"
	"github.com/mqd-broker/mqd/bench/drive"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/wire"
)

// adminBuf is the size of the send buffers of a connection for administration.
const adminBuf = 64 << 10

// dial opens a connection and, for a broker, says hello; shard is the one wanted.
// bufBytes and partBytes are as in newLink. The response of hello is zero for an
// echo server, which knows none. With a dialect the connection goes to the Kafka door.
func dial(lp *drive.Loop, target Target, talk dialect.Dialect, shard int32, bufBytes, partBytes int) (*drive.Link, wire.HelloResponse, error) {
	var hello wire.HelloResponse
	addr := target.Addr
	if talk != nil {
		addr = target.Kafka
	}
	sock, err := lp.Driver.Dial(addr)
	if err != nil {
		return nil, hello, fmt.Errorf("%w: %w", ErrConnection, err)
	}
	l, err := drive.NewLink(lp.Driver, sock, nil, bufBytes, partBytes)
	if err != nil || target.Echo {
		return l, hello, err
	}
	if talk != nil { // it knows no hello
		l.Talk = talk
		return l, hello, nil
	}
	_, body, err := l.Call(lp, func(dst []byte, corr uint32) []byte {
		return wire.AppendHelloRequest(dst, corr, wire.HelloRequest{
			MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, WantedShard: shard, ClientID: "mqd bench",
		})
	})
	if err != nil {
		return nil, hello, fmt.Errorf("hello to %s: %w", target.Addr, err)
	}
	if hello, err = wire.DecodeHelloResponse(body); err != nil {
		return nil, hello, fmt.Errorf("hello to %s: %w", target.Addr, err)
	}
	l.Limit = max(l.Limit, hello.MaxFrame)
	return l, hello, nil
}

// Connect opens a connection of the batch protocol, for whoever measures with frames of its own.
// bufBytes and partBytes are as in drive.NewLink.
func Connect(lp *drive.Loop, target Target, bufBytes, partBytes int) (*drive.Link, error) {
	l, _, err := dial(lp, target, nil, wire.AnyShard, bufBytes, partBytes)
	return l, err
}

// Topic is a topic of a run.
type Topic struct {
	Name   string       `json:"name"`
	ID     wire.TopicID `json:"id"`
	Shards []uint16     `json:"shards"` // owner of each partition
	Count  uint32       `json:"count"`  // shards of the broker
}

// createTopic makes a topic and looks up where its partitions are.
func createTopic(lp *drive.Loop, l *drive.Link, name string, partitions int, class wire.Class) (Topic, error) {
	t := Topic{Name: name}
	_, body, err := l.Call(lp, func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicCreateRequest(dst, corr, wire.TopicCreateRequest{
			Name: name, Partitions: uint32(partitions),
			Configs: []wire.Config{{Key: "durability", Value: class.String()}},
		})
	})
	if err != nil {
		return t, err
	}
	made, err := wire.DecodeTopicCreateResponse(body)
	if err != nil {
		return t, err
	}
	if made.Code != wire.CodeNone {
		return t, fmt.Errorf("%w: create topic %s: %s %s", ErrBroker, name, made.Code, made.Message)
	}
	t.ID = made.ID
	_, body, err = l.Call(lp, func(dst []byte, corr uint32) []byte {
		return wire.AppendMetadataRequest(dst, corr, wire.MetadataRequest{Topics: []string{name}})
	})
	if err != nil {
		return t, err
	}
	meta, err := wire.DecodeMetadataResponse(body)
	if err != nil {
		return t, err
	}
	if len(meta.Topics) != 1 || meta.Topics[0].Code != wire.CodeNone || len(meta.Topics[0].PartitionShards) != partitions {
		return t, fmt.Errorf("%w: metadata of topic %s: %+v, expected %d partitions", ErrBroker, name, meta.Topics, partitions)
	}
	if got := meta.Topics[0].Class; got != class {
		return t, fmt.Errorf("%w: topic %s has class %s, expected %s", ErrBroker, name, got, class)
	}
	t.Shards, t.Count = meta.Topics[0].PartitionShards, meta.Shards
	return t, nil
}

// endOf asks for the durable offset of a partition.
func endOf(lp *drive.Loop, l *drive.Link, t Topic, partition int) (int64, error) {
	_, body, err := l.Call(lp, func(dst []byte, corr uint32) []byte {
		return wire.AppendListOffsetsRequest(dst, corr, wire.ListOffsetsRequest{Topic: t.ID, Partition: int32(partition), Time: wire.TimeEnd})
	})
	if err != nil {
		return 0, err
	}
	r, err := wire.DecodeListOffsetsResponse(body)
	if err == nil && r.Code != wire.CodeNone {
		err = fmt.Errorf("%w: end of partition %d of %s: %s", ErrBroker, partition, t.Name, r.Code)
	}
	return r.Offset, err
}

func deleteTopic(lp *drive.Loop, l *drive.Link, name string) error {
	_, body, err := l.Call(lp, func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicDeleteRequest(dst, corr, wire.TopicDeleteRequest{Name: name})
	})
	if err != nil {
		return err
	}
	r, err := wire.DecodeTopicResult(body)
	if err == nil && r.Code != wire.CodeNone {
		err = fmt.Errorf("%w: delete topic %s: %s %s", ErrBroker, name, r.Code, r.Message)
	}
	return err
}

// administer runs f with a connection of its own, on a thread of its own.
func administer(p Platform, target Target, f func(lp *drive.Loop, l *drive.Link) error) error {
	o := aio.Options{Entries: 64, ArenaBytes: 4 * adminBuf, RecvBuffers: 8, RecvBufferBytes: 16 << 10, Files: 1, Helpers: 1}
	return drive.OnThread(p, NoCPU, o, func(drv aio.Driver) error {
		lp := drive.NewLoop(drv, p, Block)
		l, _, err := dial(lp, target, nil, wire.AnyShard, adminBuf, adminBuf)
		if err != nil {
			return err
		}
		if err := f(lp, l); err != nil {
			return err
		}
		return l.Close(lp)
	})
}
