// Package dialect is how the load generator's requests and their answers look on a
// connection: in the native protocol, or in Kafka's. What comes before and behind is the
// same code for both, so that what differs between two measurements is the broker's door.
package dialect

import "github.com/mqd-broker/mqd/net/wire"

// Dialect encodes what the load generator asks for and decodes what it gets. Its messages
// are those of the native protocol; what Kafka's has no room for is left out.
type Dialect interface {
	// HeadSize is the number of bytes before the body of an answer.
	HeadSize() int
	// Head reads the head of an answer of at most limit bytes from the beginning of b,
	// which may have more than [Dialect.HeadSize] bytes.
	Head(b []byte, limit uint32) (wire.Header, error)
	// AppendProduce appends a produce request up to its batch, which has size bytes and
	// ends the request. How much it appends does not depend on size.
	AppendProduce(dst []byte, corr uint32, r *wire.ProduceRequest, size int) []byte
	// Produced decodes the body of the answer to a produce request.
	Produced(body []byte) (wire.ProduceResponse, error)
	// AppendFetch appends a fetch request.
	AppendFetch(dst []byte, corr uint32, r *wire.FetchRequest) []byte
	// Fetched decodes the body of the answer to a fetch request.
	Fetched(body []byte) (wire.FetchResponse, error)
}

// Native is the native protocol.
type Native struct{}

// HeadSize implements [Dialect].
func (Native) HeadSize() int { return wire.HeaderSize }

// Head implements [Dialect].
func (Native) Head(b []byte, limit uint32) (wire.Header, error) { return wire.ParseHeader(b, limit) }

// AppendProduce implements [Dialect].
func (Native) AppendProduce(dst []byte, corr uint32, r *wire.ProduceRequest, size int) []byte {
	return wire.AppendProduceRequestHeader(dst, corr, r, size)
}

// Produced implements [Dialect].
func (Native) Produced(body []byte) (wire.ProduceResponse, error) {
	return wire.DecodeProduceResponse(body)
}

// AppendFetch implements [Dialect].
func (Native) AppendFetch(dst []byte, corr uint32, r *wire.FetchRequest) []byte {
	return wire.AppendFetchRequest(dst, corr, r)
}

// Fetched implements [Dialect].
func (Native) Fetched(body []byte) (wire.FetchResponse, error) { return wire.DecodeFetchResponse(body) }
