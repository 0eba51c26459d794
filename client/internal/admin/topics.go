package admin

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/mqd-broker/mqd/client/internal/settings"
	"github.com/mqd-broker/mqd/net/wire"
)

// configClass is the setting that has a field of its own in [TopicSpec].
const configClass = "durability"

// TopicSpec is a topic to create.
type TopicSpec struct {
	// Name has 1 to 249 of the characters a-z A-Z 0-9 . _ -.
	Name string
	// Partitions is 1 or greater; 0 takes the broker's default.
	Partitions int
	// Class is the durability class; 0 takes the broker's default, flushed.
	Class wire.Class
	// Configs are further settings, such as segment.bytes.
	Configs map[string]string
}

// TopicInfo is a topic in a list.
type TopicInfo struct {
	Name       string
	ID         wire.TopicID
	Class      wire.Class
	Partitions int
}

// TopicDescription is everything about a topic.
type TopicDescription struct {
	TopicInfo
	Configs    []ConfigEntry
	Partitions []PartitionInfo
}

// ConfigEntry is a setting in force and where it comes from.
type ConfigEntry = wire.DescribedConfig

// PartitionInfo is one partition of a described topic: its shard, offsets, bytes
// on disk, and the acknowledged bytes that a power cut could still take.
type PartitionInfo = wire.PartitionDescription

// CreateTopic creates a topic and returns when that is durable.
func (g Admin) CreateTopic(ctx context.Context, spec TopicSpec) (wire.TopicID, error) {
	if err := g.checkTopic(spec.Name); err != nil {
		return wire.TopicID{}, err
	}
	if spec.Partitions < 0 || spec.Partitions > math.MaxInt32 {
		return wire.TopicID{}, g.invalid("%d partitions, expected %d to %d", spec.Partitions, 0, math.MaxInt32)
	}
	req := wire.TopicCreateRequest{Name: spec.Name, Partitions: uint32(spec.Partitions)}
	var err error
	if req.Configs, err = settings.List(spec.Configs); err != nil {
		return wire.TopicID{}, g.invalid("%v", err)
	}
	if spec.Class != 0 {
		if _, twice := spec.Configs[configClass]; twice {
			return wire.TopicID{}, g.invalid("%s is given twice", configClass)
		}
		req.Configs = append(req.Configs, wire.Config{Key: configClass, Value: spec.Class.String()})
	}
	r, err := call(ctx, g, wire.OpTopicCreate, spec.Name, true, func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicCreateRequest(dst, corr, req)
	}, wire.DecodeTopicCreateResponse)
	if err == nil {
		err = g.refused(wire.OpTopicCreate, spec.Name, r.Code, r.Message)
	}
	if err != nil {
		return wire.TopicID{}, err
	}
	return r.ID, nil
}

// AlterTopic changes settings of a topic. Settings that are not named stay; an
// empty value goes back to the broker's default. A stronger class (the setting
// durability) is in force when the call returns.
func (g Admin) AlterTopic(ctx context.Context, name string, configs map[string]string) error {
	list, err := settings.List(configs)
	if err != nil {
		return g.invalid("%v", err)
	}
	return g.changeTopic(ctx, wire.OpTopicAlter, name, func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicAlterRequest(dst, corr, wire.TopicAlterRequest{Name: name, Configs: list})
	})
}

// AddPartitions has a topic have so many partitions, which are not fewer than it has, and
// returns when they can be used. What is stored stays where it is. Records with a key that
// are appended afterwards may go to another partition than those before: whoever needs a
// key's records in order lets consumers come to the end first. Producers and consumers
// that are open find the new partitions by themselves, within a minute.
func (g Admin) AddPartitions(ctx context.Context, name string, partitions int) error {
	if partitions < 1 || partitions > math.MaxInt32 {
		return g.invalid("%d partitions, expected %d to %d", partitions, 1, math.MaxInt32)
	}
	return g.changeTopic(ctx, wire.OpTopicGrow, name, func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicGrowRequest(dst, corr, wire.TopicGrowRequest{Name: name, Partitions: uint32(partitions)})
	})
}

// DeleteTopic deletes a topic and its records.
func (g Admin) DeleteTopic(ctx context.Context, name string) error {
	return g.changeTopic(ctx, wire.OpTopicDelete, name, func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicDeleteRequest(dst, corr, wire.TopicDeleteRequest{Name: name})
	})
}

// changeTopic makes a call that answers with a code and a message.
func (g Admin) changeTopic(ctx context.Context, op wire.Op, name string, build func([]byte, uint32) []byte) error {
	if err := g.checkTopic(name); err != nil {
		return err
	}
	r, err := call(ctx, g, op, name, true, build, wire.DecodeTopicResult)
	if err != nil {
		return err
	}
	return g.refused(op, name, r.Code, r.Message)
}

// ListTopics returns all topics in order of name.
func (g Admin) ListTopics(ctx context.Context) ([]TopicInfo, error) {
	found, err := g.topics(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]TopicInfo, 0, len(found))
	for i := range found {
		t := &found[i]
		if t.Code != wire.CodeNone {
			return nil, g.caller.Fail(wire.OpMetadata, t.Name, -1, t.Code, nil)
		}
		infos = append(infos, TopicInfo{Name: t.Name, ID: t.ID, Class: t.Class, Partitions: len(t.PartitionShards)})
	}
	return infos, nil
}

// DescribeTopic returns everything about a topic.
func (g Admin) DescribeTopic(ctx context.Context, name string) (TopicDescription, error) {
	if err := g.checkTopic(name); err != nil {
		return TopicDescription{}, err
	}
	r, err := call(ctx, g, wire.OpTopicDescribe, name, false, func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicDescribeRequest(dst, corr, wire.TopicDescribeRequest{Name: name})
	}, wire.DecodeTopicDescribeResponse)
	if err == nil {
		err = g.refused(wire.OpTopicDescribe, name, r.Code, r.Message)
	}
	if err != nil {
		return TopicDescription{}, err
	}
	return TopicDescription{
		TopicInfo:  TopicInfo{Name: name, ID: r.ID, Class: r.Class, Partitions: len(r.Partitions)},
		Configs:    r.Configs,
		Partitions: r.Partitions,
	}, nil
}

// checkTopic refuses names that no topic can have.
func (g Admin) checkTopic(name string) error {
	if err := wire.CheckTopicName(name); err != nil {
		return g.invalid("%s", strings.TrimPrefix(err.Error(), "wire: "))
	}
	return nil
}

func (g Admin) invalid(format string, args ...any) error {
	return g.caller.Invalid(fmt.Sprintf(format, args...))
}
