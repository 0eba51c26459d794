package wire

import (
	"encoding/binary"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// Config is one setting of a topic.
type Config struct{ Key, Value string }

// ConfigSource says where a setting's value comes from.
type ConfigSource uint8

const (
	// SourceDefault is the broker's built-in value.
	SourceDefault ConfigSource = 0
	// SourceBroker is set in the broker's configuration.
	SourceBroker ConfigSource = 1
	// SourceTopic is set on the topic itself.
	SourceTopic ConfigSource = 2
)

// DescribedConfig is a setting as it is in force.
type DescribedConfig struct {
	Key, Value string
	Source     ConfigSource
}

// TopicCreateRequest creates a topic. It is answered when the creation is
// durable.
type TopicCreateRequest struct {
	Name string
	// Partitions is 1 or greater; 0 is the broker's default.
	Partitions uint32
	Configs    []Config
}

// TopicCreateResponse carries the new topic's id, zero with an error.
type TopicCreateResponse struct {
	Code    Code
	ID      TopicID
	Message string
}

// TopicAlterRequest changes settings of a topic; settings not named stay. An
// empty value takes the topic's own value away.
type TopicAlterRequest struct {
	Name    string
	Configs []Config
}

// TopicGrowRequest has a topic have Partitions partitions, which are not fewer than it
// has.
type TopicGrowRequest struct {
	Name       string
	Partitions uint32
}

// TopicDeleteRequest deletes a topic and its records.
type TopicDeleteRequest struct{ Name string }

// TopicResult answers alter, grow and delete.
type TopicResult struct {
	Code    Code
	Message string
}

// TopicDescribeRequest asks for everything about a topic.
type TopicDescribeRequest struct{ Name string }

// TopicDescribeResponse is empty but for Code and Message with an error.
type TopicDescribeResponse struct {
	Code       Code
	Message    string
	ID         TopicID
	Class      Class
	Configs    []DescribedConfig
	Partitions []PartitionDescription
}

// PartitionDescription is one partition of a described topic.
type PartitionDescription struct {
	Shard uint32
	// LogStart, Durable and End are as in [FetchResponse].
	LogStart, Durable, End int64
	// BytesOnDisk counts the partition's segments and indexes.
	BytesOnDisk int64
	// ExposedBytes are acknowledged and not flushed yet: what a power cut would
	// take. 0 for class flushed.
	ExposedBytes int64
	// Epoch is the partition's leader epoch.
	Epoch uint32
}

const (
	configMin          = 2 + 2
	describedConfigMin = 2 + 2 + 1
	partitionSize      = 4 + 5*8 + 4
	maxCount16         = 1<<16 - 1
)

// appendCount16 appends a count of at most most elements.
func appendCount16(dst []byte, n, most int) []byte {
	if n > most {
		invariant.Violated("wire: a list to encode fits its count field")
	}
	return binary.BigEndian.AppendUint16(dst, uint16(n))
}

func appendConfigs(dst []byte, cs []Config) []byte {
	dst = appendCount16(dst, len(cs), maxCount16)
	for _, c := range cs {
		dst = appendString(dst, c.Key)
		dst = appendString(dst, c.Value)
	}
	return dst
}

func (c *cursor) configs() []Config {
	n := c.count(uint64(c.u16()), configMin)
	if n == 0 {
		return nil
	}
	cs := make([]Config, n)
	for i := range cs {
		cs[i] = Config{Key: c.string(), Value: c.string()}
	}
	return cs
}

// AppendTopicCreateRequest appends the whole frame.
func AppendTopicCreateRequest(dst []byte, corr uint32, r TopicCreateRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpTopicCreate, 0, corr, 0)
	dst = appendString(dst, r.Name)
	dst = binary.BigEndian.AppendUint32(dst, r.Partitions)
	dst = appendConfigs(dst, r.Configs)
	return endFrame(dst, start)
}

// DecodeTopicCreateRequest decodes a body. The error is [ErrMalformed]; the
// name is not checked, see [CheckTopicName].
func DecodeTopicCreateRequest(body []byte) (TopicCreateRequest, error) {
	c := cursor{msg: "topic create request", body: body}
	r := TopicCreateRequest{Name: c.string(), Partitions: c.u32(), Configs: c.configs()}
	return r, c.end()
}

// AppendTopicCreateResponse appends the whole frame.
func AppendTopicCreateResponse(dst []byte, corr uint32, r TopicCreateResponse) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpTopicCreate, FlagResponse, corr, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = append(dst, r.ID[:]...)
	dst = appendText(dst, r.Message)
	return endFrame(dst, start)
}

// DecodeTopicCreateResponse decodes a body. The error is [ErrMalformed].
func DecodeTopicCreateResponse(body []byte) (TopicCreateResponse, error) {
	c := cursor{msg: "topic create response", body: body}
	r := TopicCreateResponse{Code: Code(c.u16()), ID: c.id(), Message: c.text()}
	return r, c.end()
}

// AppendTopicAlterRequest appends the whole frame.
func AppendTopicAlterRequest(dst []byte, corr uint32, r TopicAlterRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpTopicAlter, 0, corr, 0)
	dst = appendString(dst, r.Name)
	dst = appendConfigs(dst, r.Configs)
	return endFrame(dst, start)
}

// DecodeTopicAlterRequest decodes a body. The error is [ErrMalformed].
func DecodeTopicAlterRequest(body []byte) (TopicAlterRequest, error) {
	c := cursor{msg: "topic alter request", body: body}
	r := TopicAlterRequest{Name: c.string(), Configs: c.configs()}
	return r, c.end()
}

// AppendTopicGrowRequest appends the whole frame.
func AppendTopicGrowRequest(dst []byte, corr uint32, r TopicGrowRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpTopicGrow, 0, corr, 0)
	dst = appendString(dst, r.Name)
	dst = binary.BigEndian.AppendUint32(dst, r.Partitions)
	return endFrame(dst, start)
}

// DecodeTopicGrowRequest decodes a body. The error is [ErrMalformed].
func DecodeTopicGrowRequest(body []byte) (TopicGrowRequest, error) {
	c := cursor{msg: "topic grow request", body: body}
	r := TopicGrowRequest{Name: c.string(), Partitions: c.u32()}
	return r, c.end()
}

// AppendTopicDeleteRequest appends the whole frame.
func AppendTopicDeleteRequest(dst []byte, corr uint32, r TopicDeleteRequest) []byte {
	return appendNameRequest(dst, OpTopicDelete, corr, r.Name)
}

// DecodeTopicDeleteRequest decodes a body. The error is [ErrMalformed].
func DecodeTopicDeleteRequest(body []byte) (TopicDeleteRequest, error) {
	c := cursor{msg: "topic delete request", body: body}
	r := TopicDeleteRequest{Name: c.string()}
	return r, c.end()
}

// AppendTopicResult appends the whole frame; op is [OpTopicAlter], [OpTopicGrow] or
// [OpTopicDelete].
func AppendTopicResult(dst []byte, op Op, corr uint32, r TopicResult) []byte {
	start := len(dst)
	dst = appendHeader(dst, op, FlagResponse, corr, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = appendText(dst, r.Message)
	return endFrame(dst, start)
}

// DecodeTopicResult decodes a body. The error is [ErrMalformed].
func DecodeTopicResult(body []byte) (TopicResult, error) {
	c := cursor{msg: "topic result", body: body}
	r := TopicResult{Code: Code(c.u16()), Message: c.text()}
	return r, c.end()
}

// AppendTopicDescribeRequest appends the whole frame.
func AppendTopicDescribeRequest(dst []byte, corr uint32, r TopicDescribeRequest) []byte {
	return appendNameRequest(dst, OpTopicDescribe, corr, r.Name)
}

// DecodeTopicDescribeRequest decodes a body. The error is [ErrMalformed].
func DecodeTopicDescribeRequest(body []byte) (TopicDescribeRequest, error) {
	c := cursor{msg: "topic describe request", body: body}
	r := TopicDescribeRequest{Name: c.string()}
	return r, c.end()
}

func appendNameRequest(dst []byte, op Op, corr uint32, name string) []byte {
	start := len(dst)
	dst = appendHeader(dst, op, 0, corr, 0)
	dst = appendString(dst, name)
	return endFrame(dst, start)
}

// AppendTopicDescribeResponse appends the whole frame.
func AppendTopicDescribeResponse(dst []byte, corr uint32, r *TopicDescribeResponse) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpTopicDescribe, FlagResponse, corr, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = appendText(dst, r.Message)
	dst = append(dst, r.ID[:]...)
	dst = append(dst, byte(r.Class))
	dst = appendCount16(dst, len(r.Configs), maxCount16)
	for i := range r.Configs {
		dst = appendString(dst, r.Configs[i].Key)
		dst = appendString(dst, r.Configs[i].Value)
		dst = append(dst, byte(r.Configs[i].Source))
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(r.Partitions)))
	for i := range r.Partitions {
		p := &r.Partitions[i]
		dst = binary.BigEndian.AppendUint32(dst, p.Shard)
		for _, v := range [...]int64{p.LogStart, p.Durable, p.End, p.BytesOnDisk, p.ExposedBytes} {
			dst = appendI64(dst, v)
		}
		dst = binary.BigEndian.AppendUint32(dst, p.Epoch)
	}
	return endFrame(dst, start)
}

// DecodeTopicDescribeResponse decodes a body. The error is [ErrMalformed].
func DecodeTopicDescribeResponse(body []byte) (TopicDescribeResponse, error) {
	c := cursor{msg: "topic describe response", body: body}
	r := TopicDescribeResponse{Code: Code(c.u16()), Message: c.text(), ID: c.id(), Class: c.class()}
	if n := c.count(uint64(c.u16()), describedConfigMin); n > 0 {
		r.Configs = make([]DescribedConfig, n)
	}
	for i := range r.Configs {
		d := DescribedConfig{Key: c.string(), Value: c.string(), Source: ConfigSource(c.u8())}
		if d.Source > SourceTopic {
			c.fail("configuration source", int64(d.Source), int64(SourceTopic))
		}
		r.Configs[i] = d
	}
	if n := c.count(uint64(c.u32()), partitionSize); n > 0 {
		r.Partitions = make([]PartitionDescription, n)
	}
	for i := range r.Partitions {
		r.Partitions[i] = PartitionDescription{
			Shard: c.u32(), LogStart: c.i64(), Durable: c.i64(), End: c.i64(),
			BytesOnDisk: c.i64(), ExposedBytes: c.i64(), Epoch: c.u32(),
		}
	}
	return r, c.end()
}
