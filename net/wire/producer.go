package wire

import "encoding/binary"

// ProducerInitResponse carries an identity for an idempotent producer.
type ProducerInitResponse struct {
	Code Code
	// Producer is an id that nobody else has or ever had, Epoch its first epoch; both
	// -1 with an error. Sequence numbers begin at 0 in every partition.
	Producer int64
	Epoch    int16
	Message  string
}

// AppendProducerInitRequest appends the whole frame. It has no body.
func AppendProducerInitRequest(dst []byte, corr uint32) []byte {
	return appendHeader(dst, OpProducerInit, 0, corr, 0)
}

// DecodeProducerInitRequest checks a body. The error is [ErrMalformed].
func DecodeProducerInitRequest(body []byte) error {
	c := cursor{msg: "producer init request", body: body}
	return c.end()
}

// AppendProducerInitResponse appends the whole frame.
func AppendProducerInitResponse(dst []byte, corr uint32, r ProducerInitResponse) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpProducerInit, FlagResponse, corr, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = appendI64(dst, r.Producer)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Epoch))
	dst = appendText(dst, r.Message)
	return endFrame(dst, start)
}

// DecodeProducerInitResponse decodes a body. The error is [ErrMalformed].
func DecodeProducerInitResponse(body []byte) (ProducerInitResponse, error) {
	c := cursor{msg: "producer init response", body: body}
	r := ProducerInitResponse{Code: Code(c.u16()), Producer: c.i64(), Epoch: int16(c.u16()), Message: c.text()}
	if r.Producer < -1 || r.Producer < 0 && r.Code == CodeNone {
		c.fail("producer", r.Producer, 0)
	}
	if r.Epoch < -1 || r.Epoch < 0 && r.Code == CodeNone {
		c.fail("epoch", int64(r.Epoch), 0)
	}
	return r, c.end()
}
