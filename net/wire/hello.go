package wire

import "encoding/binary"

const (
	// HelloMagic opens a hello request, so that a client of another protocol
	// on the wrong port is told apart: the bytes "MQD1".
	HelloMagic uint32 = 'M'<<24 | 'Q'<<16 | 'D'<<8 | '1'

	// AnyShard in [HelloRequest.WantedShard] leaves the choice to the broker.
	AnyShard int32 = -1
)

// HelloRequest is the first frame of a connection.
type HelloRequest struct {
	// MinProtocol and MaxProtocol are the range the client speaks.
	MinProtocol, MaxProtocol uint16
	// WantedShard is the shard to be served by, or [AnyShard]. A wish: the
	// response says where the connection landed.
	WantedShard int32
	// Capabilities is a bit set; no bit has a meaning yet and clients send 0.
	Capabilities uint32
	// ClientID names the client in logs and lists; may be empty.
	ClientID string
	// Tenant is whom the client acts for; empty is the default tenant.
	Tenant string
	// AuthMechanism and Auth are empty without authentication. Auth aliases
	// the decoded input.
	AuthMechanism string
	Auth          []byte
}

// HelloResponse tells a client what it talks to.
type HelloResponse struct {
	// Protocol is the version chosen from the client's range.
	Protocol uint16
	// Shard serves this connection; Shards is how many there are.
	Shard, Shards uint32
	// MaxFrame is the largest frame in bytes, length field included, that the
	// broker takes from now on.
	MaxFrame uint32
	// MaxBatch is the largest batch in bytes that any topic takes.
	MaxBatch uint32
	// IdleTimeout in milliseconds: a connection without a frame in either
	// direction and without an open long poll closes after it.
	IdleTimeout uint32
	// Capabilities are the bits of the request that the broker agrees to.
	Capabilities uint32
	// NodeID is the broker's identity for life.
	NodeID [16]byte
	// ServerVersion is for people.
	ServerVersion string
}

// AppendHelloRequest appends the whole frame.
func AppendHelloRequest(dst []byte, corr uint32, r HelloRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpHello, 0, corr, 0)
	dst = binary.BigEndian.AppendUint32(dst, HelloMagic)
	dst = binary.BigEndian.AppendUint16(dst, r.MinProtocol)
	dst = binary.BigEndian.AppendUint16(dst, r.MaxProtocol)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.WantedShard))
	dst = binary.BigEndian.AppendUint32(dst, r.Capabilities)
	dst = appendString(dst, r.ClientID)
	dst = appendString(dst, r.Tenant)
	dst = appendString(dst, r.AuthMechanism)
	dst = appendString(dst, r.Auth)
	return endFrame(dst, start)
}

// DecodeHelloRequest decodes a body. The error is [ErrMalformed].
func DecodeHelloRequest(body []byte) (HelloRequest, error) {
	c := cursor{msg: "hello request", body: body}
	if m := c.u32(); m != HelloMagic {
		c.fail("magic", int64(m), int64(HelloMagic))
	}
	r := HelloRequest{
		MinProtocol:   c.u16(),
		MaxProtocol:   c.u16(),
		WantedShard:   int32(c.u32()),
		Capabilities:  c.u32(),
		ClientID:      c.string(),
		Tenant:        c.string(),
		AuthMechanism: c.string(),
		Auth:          c.bytes(),
	}
	if r.WantedShard < AnyShard {
		c.fail("wanted shard", int64(r.WantedShard), int64(AnyShard))
	}
	if r.MaxProtocol < r.MinProtocol {
		c.fail("greatest protocol", int64(r.MaxProtocol), int64(r.MinProtocol))
	}
	return r, c.end()
}

// AppendHelloResponse appends the whole frame.
func AppendHelloResponse(dst []byte, corr uint32, r HelloResponse) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpHello, FlagResponse, corr, 0)
	dst = binary.BigEndian.AppendUint16(dst, r.Protocol)
	dst = binary.BigEndian.AppendUint32(dst, r.Shard)
	dst = binary.BigEndian.AppendUint32(dst, r.Shards)
	dst = binary.BigEndian.AppendUint32(dst, r.MaxFrame)
	dst = binary.BigEndian.AppendUint32(dst, r.MaxBatch)
	dst = binary.BigEndian.AppendUint32(dst, r.IdleTimeout)
	dst = binary.BigEndian.AppendUint32(dst, r.Capabilities)
	dst = append(dst, r.NodeID[:]...)
	dst = appendString(dst, r.ServerVersion)
	return endFrame(dst, start)
}

// DecodeHelloResponse decodes a body. The error is [ErrMalformed].
func DecodeHelloResponse(body []byte) (HelloResponse, error) {
	c := cursor{msg: "hello response", body: body}
	r := HelloResponse{
		Protocol:      c.u16(),
		Shard:         c.u32(),
		Shards:        c.u32(),
		MaxFrame:      c.u32(),
		MaxBatch:      c.u32(),
		IdleTimeout:   c.u32(),
		Capabilities:  c.u32(),
		NodeID:        c.id(),
		ServerVersion: c.string(),
	}
	return r, c.end()
}

// AppendPingRequest appends the whole frame; its body is empty.
func AppendPingRequest(dst []byte, corr uint32) []byte {
	return appendHeader(dst, OpPing, 0, corr, 0)
}

// AppendPingResponse appends the whole frame; its body is empty.
func AppendPingResponse(dst []byte, corr uint32) []byte {
	return appendHeader(dst, OpPing, FlagResponse, corr, 0)
}

// DecodePing checks the empty body of a ping, both ways.
func DecodePing(body []byte) error {
	c := cursor{msg: "ping", body: body}
	return c.end()
}

// ErrorResponse is the body of a response with [FlagError]: the request could
// not be taken as what it claimed to be.
type ErrorResponse struct {
	Code Code
	// MinVersion and MaxVersion are the versions of the op that the broker
	// speaks; both 0 for an op that it does not know.
	MinVersion, MaxVersion uint8
	// Message is for people.
	Message string
}

// AppendErrorResponse appends the whole frame. op and corr are the request's.
func AppendErrorResponse(dst []byte, op Op, corr uint32, code Code, message string) []byte {
	start := len(dst)
	dst = appendHeader(dst, op, FlagResponse|FlagError, corr, 0)
	lo, hi, _ := op.Versions()
	dst = binary.BigEndian.AppendUint16(dst, uint16(code))
	dst = append(dst, lo, hi)
	dst = appendText(dst, message)
	return endFrame(dst, start)
}

// DecodeErrorResponse decodes a body. The error is [ErrMalformed].
func DecodeErrorResponse(body []byte) (ErrorResponse, error) {
	c := cursor{msg: "error response", body: body}
	r := ErrorResponse{Code: Code(c.u16()), MinVersion: c.u8(), MaxVersion: c.u8(), Message: c.text()}
	return r, c.end()
}
