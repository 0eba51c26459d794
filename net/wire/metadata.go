package wire

import "encoding/binary"

// allTopics is the count of names that asks for every topic.
const allTopics = 1<<16 - 1

// MetadataRequest asks which partitions topics have and which shards own them.
type MetadataRequest struct {
	// All asks for every topic; Topics is empty then.
	All bool
	// Topics are the names to look up, at most 65,534.
	Topics []string
}

// MetadataResponse answers in the order of the request, or in order of name
// for all topics.
type MetadataResponse struct {
	Shards uint32
	Topics []TopicMetadata
}

// TopicMetadata is one topic. With a code other than [CodeNone] only Name is
// set.
type TopicMetadata struct {
	Code  Code
	Name  string
	ID    TopicID
	Class Class
	// PartitionShards holds the owning shard of each partition, by number.
	PartitionShards []uint16
}

// topicMetadataMin is the smallest encoded [TopicMetadata].
const topicMetadataMin = 2 + 2 + 16 + 1 + 4

// AppendMetadataRequest appends the whole frame.
func AppendMetadataRequest(dst []byte, corr uint32, r MetadataRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpMetadata, 0, corr, 0)
	if r.All {
		dst = binary.BigEndian.AppendUint16(dst, allTopics)
		return endFrame(dst, start)
	}
	dst = appendCount16(dst, len(r.Topics), allTopics-1)
	for _, name := range r.Topics {
		dst = appendString(dst, name)
	}
	return endFrame(dst, start)
}

// DecodeMetadataRequest decodes a body. The error is [ErrMalformed].
func DecodeMetadataRequest(body []byte) (MetadataRequest, error) {
	c := cursor{msg: "metadata request", body: body}
	n := c.u16()
	if n == allTopics {
		return MetadataRequest{All: true}, c.end()
	}
	var r MetadataRequest
	if n := c.count(uint64(n), 2); n > 0 {
		r.Topics = make([]string, n)
	}
	for i := range r.Topics {
		r.Topics[i] = c.string()
	}
	return r, c.end()
}

// AppendMetadataResponse appends the whole frame.
func AppendMetadataResponse(dst []byte, corr uint32, r MetadataResponse) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpMetadata, FlagResponse, corr, 0)
	dst = binary.BigEndian.AppendUint32(dst, r.Shards)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(r.Topics)))
	for i := range r.Topics {
		t := &r.Topics[i]
		dst = binary.BigEndian.AppendUint16(dst, uint16(t.Code))
		dst = appendString(dst, t.Name)
		dst = append(dst, t.ID[:]...)
		dst = append(dst, byte(t.Class))
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(t.PartitionShards)))
		for _, s := range t.PartitionShards {
			dst = binary.BigEndian.AppendUint16(dst, s)
		}
	}
	return endFrame(dst, start)
}

// DecodeMetadataResponse decodes a body. The error is [ErrMalformed].
func DecodeMetadataResponse(body []byte) (MetadataResponse, error) {
	c := cursor{msg: "metadata response", body: body}
	r := MetadataResponse{Shards: c.u32()}
	if n := c.count(uint64(c.u32()), topicMetadataMin); n > 0 {
		r.Topics = make([]TopicMetadata, n)
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		t.Code, t.Name, t.ID, t.Class = Code(c.u16()), c.string(), c.id(), c.class()
		if n := c.count(uint64(c.u32()), 2); n > 0 {
			t.PartitionShards = make([]uint16, n)
		}
		for j := range t.PartitionShards {
			t.PartitionShards[j] = c.u16()
		}
		if c.err != nil {
			break
		}
	}
	return r, c.end()
}
