package wire

import "encoding/binary"

// LagRequest asks how far a reader is behind in a partition.
type LagRequest struct {
	Topic     TopicID
	Partition int32
	// Offset is that of the next record to read, not negative.
	Offset int64
}

// LagResponse says how far. With an error everything is -1.
type LagResponse struct {
	Code Code
	// Start and End are the first stored offset and the durable one.
	Start, End int64
	// Lag is the number of offsets from the one asked for, or from Start if that is higher,
	// to End, but for recorded gaps.
	Lag int64
	// Bytes is the size of the stored batches from the one that holds the first of them to
	// End; LagTime is how much older in nanoseconds it is than the newest append. Both are 0
	// without a lag, -1 where they are not known.
	Bytes, LagTime int64
}

// AppendLagRequest appends the whole frame.
func AppendLagRequest(dst []byte, corr uint32, r LagRequest) []byte {
	dst = appendHeader(dst, OpLag, 0, corr, 16+4+8)
	dst = append(dst, r.Topic[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Partition))
	return appendI64(dst, r.Offset)
}

// DecodeLagRequest decodes a body. The error is [ErrMalformed].
func DecodeLagRequest(body []byte) (LagRequest, error) {
	c := cursor{msg: "lag request", body: body}
	r := LagRequest{Topic: c.id(), Partition: int32(c.u32()), Offset: c.i64()}
	if r.Partition < 0 {
		c.fail("partition", int64(r.Partition), 0)
	}
	if r.Offset < 0 {
		c.fail("offset", r.Offset, 0)
	}
	return r, c.end()
}

// AppendLagResponse appends the whole frame.
func AppendLagResponse(dst []byte, corr uint32, r LagResponse) []byte {
	dst = appendHeader(dst, OpLag, FlagResponse, corr, 2+5*8)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	for _, n := range [...]int64{r.Start, r.End, r.Lag, r.Bytes, r.LagTime} {
		dst = appendI64(dst, n)
	}
	return dst
}

// DecodeLagResponse decodes a body. The error is [ErrMalformed].
func DecodeLagResponse(body []byte) (LagResponse, error) {
	c := cursor{msg: "lag response", body: body}
	r := LagResponse{Code: Code(c.u16()), Start: c.i64(), End: c.i64(), Lag: c.i64(), Bytes: c.i64(), LagTime: c.i64()}
	return r, c.end()
}
