package wire

import "encoding/binary"

// TopicTrimRequest deletes the records of a partition that are below an offset.
type TopicTrimRequest struct {
	Topic     TopicID
	Partition int32
	// Offset is where the log is to begin, at most the durable offset, or [TimeEnd] for
	// that. Where the log begins above it already nothing changes.
	Offset int64
}

// TopicTrimResponse says where the log begins now, which is durable.
type TopicTrimResponse struct {
	Code Code
	// LogStart is -1 with an error.
	LogStart int64
	Message  string
}

// AppendTopicTrimRequest appends the whole frame.
func AppendTopicTrimRequest(dst []byte, corr uint32, r TopicTrimRequest) []byte {
	dst = appendHeader(dst, OpTopicTrim, 0, corr, 16+4+8)
	dst = append(dst, r.Topic[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Partition))
	return appendI64(dst, r.Offset)
}

// DecodeTopicTrimRequest decodes a body. The error is [ErrMalformed].
func DecodeTopicTrimRequest(body []byte) (TopicTrimRequest, error) {
	c := cursor{msg: "topic trim request", body: body}
	r := TopicTrimRequest{Topic: c.id(), Partition: int32(c.u32()), Offset: c.i64()}
	if r.Partition < 0 {
		c.fail("partition", int64(r.Partition), 0)
	}
	if r.Offset < TimeEnd {
		c.fail("offset", r.Offset, TimeEnd)
	}
	return r, c.end()
}

// AppendTopicTrimResponse appends the whole frame.
func AppendTopicTrimResponse(dst []byte, corr uint32, r TopicTrimResponse) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpTopicTrim, FlagResponse, corr, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = appendI64(dst, r.LogStart)
	dst = appendText(dst, r.Message)
	return endFrame(dst, start)
}

// DecodeTopicTrimResponse decodes a body. The error is [ErrMalformed].
func DecodeTopicTrimResponse(body []byte) (TopicTrimResponse, error) {
	c := cursor{msg: "topic trim response", body: body}
	r := TopicTrimResponse{Code: Code(c.u16()), LogStart: c.i64(), Message: c.text()}
	return r, c.end()
}
