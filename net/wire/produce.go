package wire

import "encoding/binary"

// ProduceRequestFixed is the size of a produce request's body before the
// batch.
const ProduceRequestFixed = 16 + 4 + 1 + 1 + 1 + 1

// Offsets in the fixed part of a produce request.
const (
	produceIDAt        = 0
	producePartitionAt = 16
	produceMinClassAt  = 20
	produceEncodingAt  = 21
	produceAckAt       = 22
	produceZeroAt      = 23
)

var _ [0]struct{} = [produceZeroAt + 1 - ProduceRequestFixed]struct{}{}

// ProduceRequest appends one batch to one partition. There is one batch in a
// frame; a producer that has more sends more frames without waiting.
type ProduceRequest struct {
	Topic     TopicID
	Partition int32
	// MinClass refuses a topic of a weaker class; [ClassUnspecified] takes any.
	MinClass Class
	// Encoding is the form of Batch.
	Encoding Encoding
	// Ack says whether a response is wanted.
	Ack AckMode
	// Batch is the rest of the frame. It aliases the decoded input.
	Batch []byte
}

// AppendProduceRequest appends the whole frame.
func AppendProduceRequest(dst []byte, corr uint32, r *ProduceRequest) []byte {
	dst = AppendProduceRequestHeader(dst, corr, r, len(r.Batch))
	return append(dst, r.Batch...)
}

// AppendProduceRequestHeader appends the frame up to the batch, for a batch of
// batchSize bytes that the caller sends behind it from its own memory.
func AppendProduceRequestHeader(dst []byte, corr uint32, r *ProduceRequest, batchSize int) []byte {
	dst = appendHeader(dst, OpProduce, 0, corr, ProduceRequestFixed+batchSize)
	dst = append(dst, r.Topic[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Partition))
	return append(dst, byte(r.MinClass), byte(r.Encoding), byte(r.Ack), 0)
}

// DecodeProduceRequest decodes a body. The error is [ErrMalformed].
func DecodeProduceRequest(body []byte) (ProduceRequest, error) {
	r, err := DecodeProduceRequestFixed(body)
	if err == nil {
		r.Batch = body[ProduceRequestFixed:]
	}
	return r, err
}

// DecodeProduceRequestFixed decodes the first [ProduceRequestFixed] bytes of a
// body and leaves Batch empty, for a batch that lies elsewhere, such as spread
// over several receive buffers. The error is [ErrMalformed].
func DecodeProduceRequestFixed(b []byte) (ProduceRequest, error) {
	const msg = "produce request"
	if len(b) < ProduceRequestFixed {
		return ProduceRequest{}, malformed(msg, "bytes", int64(len(b)), ProduceRequestFixed)
	}
	r := ProduceRequest{
		Topic:     TopicID(b[produceIDAt : produceIDAt+16]),
		Partition: int32(binary.BigEndian.Uint32(b[producePartitionAt:])),
		MinClass:  Class(b[produceMinClassAt]),
		Encoding:  Encoding(b[produceEncodingAt]),
		Ack:       AckMode(b[produceAckAt]),
	}
	switch {
	case r.Partition < 0:
		return r, malformed(msg, "partition", int64(r.Partition), 0)
	case r.MinClass > ClassFlushed:
		return r, malformed(msg, "class", int64(r.MinClass), int64(ClassFlushed))
	case r.Encoding > EncodingPlain:
		return r, malformed(msg, "encoding", int64(r.Encoding), int64(EncodingPlain))
	case r.Ack > AckNone:
		return r, malformed(msg, "ack mode", int64(r.Ack), int64(AckNone))
	case b[produceZeroAt] != 0:
		return r, malformed(msg, "reserved byte", int64(b[produceZeroAt]), 0)
	}
	return r, nil
}

// ProduceResponse acknowledges one batch or says why not.
type ProduceResponse struct {
	Code Code
	// Class is the durability class that the batch has reached; 0 with an
	// error.
	Class Class
	// BaseOffset is the offset of the batch's first record, -1 with an error.
	BaseOffset int64
	// AppendTime is the broker's time of the append in nanoseconds since 1970,
	// -1 with an error.
	AppendTime int64

	// The rest is on the wire only with a code other than [CodeNone].

	// ValidLow and ValidHigh are a range that the request missed (sequences,
	// or bytes for [CodeBatchTooLarge]: 0 and the limit); else -1.
	ValidLow, ValidHigh int64
	// Message is for people.
	Message string
}

// produceResponseFixed is the body of a successful produce response.
const produceResponseFixed = 2 + 1 + 1 + 8 + 8

// ProduceResponseSize is the whole frame of a successful produce response.
const ProduceResponseSize = HeaderSize + produceResponseFixed

// AppendProduceResponse appends the whole frame.
func AppendProduceResponse(dst []byte, corr uint32, r *ProduceResponse) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpProduce, FlagResponse, corr, produceResponseFixed)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = append(dst, byte(r.Class), 0)
	dst = appendI64(dst, r.BaseOffset)
	dst = appendI64(dst, r.AppendTime)
	if r.Code == CodeNone {
		return dst
	}
	dst = appendI64(dst, r.ValidLow)
	dst = appendI64(dst, r.ValidHigh)
	dst = appendText(dst, r.Message)
	return endFrame(dst, start)
}

// DecodeProduceResponse decodes a body. The error is [ErrMalformed].
func DecodeProduceResponse(body []byte) (ProduceResponse, error) {
	c := cursor{msg: "produce response", body: body}
	r := ProduceResponse{Code: Code(c.u16()), Class: c.class()}
	if z := c.u8(); z != 0 {
		c.fail("reserved byte", int64(z), 0)
	}
	r.BaseOffset, r.AppendTime = c.i64(), c.i64()
	if r.Code != CodeNone {
		r.ValidLow, r.ValidHigh, r.Message = c.i64(), c.i64(), c.text()
	}
	return r, c.end()
}
