package wire

import "encoding/binary"

// Times with a meaning of their own in a list offsets request.
const (
	// TimeEnd asks for the durable offset: where a consumer that wants only
	// new records starts.
	TimeEnd int64 = -1
	// TimeStart asks for the first offset stored.
	TimeStart int64 = -2
)

// ListOffsetsRequest looks an offset up by time.
type ListOffsetsRequest struct {
	Topic     TopicID
	Partition int32
	// Time is [TimeEnd], [TimeStart] or milliseconds since 1970.
	Time int64
}

// ListOffsetsResponse is the first record at or after the time.
type ListOffsetsResponse struct {
	Code Code
	// Offset is -1 with an error; for a time after the newest record it is the
	// durable offset.
	Offset int64
	// Timestamp is that record's in milliseconds since 1970, -1 where no
	// record was looked up.
	Timestamp int64
}

// AppendListOffsetsRequest appends the whole frame.
func AppendListOffsetsRequest(dst []byte, corr uint32, r ListOffsetsRequest) []byte {
	dst = appendHeader(dst, OpListOffsets, 0, corr, 16+4+8)
	dst = append(dst, r.Topic[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Partition))
	return appendI64(dst, r.Time)
}

// DecodeListOffsetsRequest decodes a body. The error is [ErrMalformed].
func DecodeListOffsetsRequest(body []byte) (ListOffsetsRequest, error) {
	c := cursor{msg: "list offsets request", body: body}
	r := ListOffsetsRequest{Topic: c.id(), Partition: int32(c.u32()), Time: c.i64()}
	if r.Partition < 0 {
		c.fail("partition", int64(r.Partition), 0)
	}
	if r.Time < TimeStart {
		c.fail("time", r.Time, TimeStart)
	}
	return r, c.end()
}

// AppendListOffsetsResponse appends the whole frame.
func AppendListOffsetsResponse(dst []byte, corr uint32, r ListOffsetsResponse) []byte {
	dst = appendHeader(dst, OpListOffsets, FlagResponse, corr, 2+8+8)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = appendI64(dst, r.Offset)
	return appendI64(dst, r.Timestamp)
}

// DecodeListOffsetsResponse decodes a body. The error is [ErrMalformed].
func DecodeListOffsetsResponse(body []byte) (ListOffsetsResponse, error) {
	c := cursor{msg: "list offsets response", body: body}
	r := ListOffsetsResponse{Code: Code(c.u16()), Offset: c.i64(), Timestamp: c.i64()}
	return r, c.end()
}
