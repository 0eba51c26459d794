package wire

import "encoding/binary"

// FetchRequestSize is the body of a fetch request.
const FetchRequestSize = 16 + 4 + 8 + 4 + 4 + 4 + 4 + 1 + 1

// Offsets in a fetch request.
const (
	fetchIDAt         = 0
	fetchPartitionAt  = 16
	fetchOffsetAt     = 20
	fetchMaxWaitAt    = 28
	fetchMinBytesAt   = 32
	fetchMaxBytesAt   = 36
	fetchMaxRecordsAt = 40
	fetchEncodingAt   = 44
	fetchFlagsAt      = 45
)

var _ [0]struct{} = [fetchFlagsAt + 1 - FetchRequestSize]struct{}{}

// FetchRequest reads from one partition. It is a long poll: the broker answers
// when MinBytes can be read, when MaxWait has passed, or with an error.
type FetchRequest struct {
	Topic     TopicID
	Partition int32
	// Offset is the first offset wanted, 0 or greater. The batches returned
	// may begin earlier: they are whole.
	Offset int64
	// MaxWait in milliseconds; 0 answers at once.
	MaxWait uint32
	// MinBytes is how much makes the answer worth sending; 0 and 1 are the
	// same except that 0 does not wait.
	MinBytes uint32
	// MaxBytes and MaxRecords bound the answer; 0 is the broker's default. A
	// batch at Offset is returned whatever its size.
	MaxBytes, MaxRecords uint32
	// Encoding is the form wanted.
	Encoding Encoding
}

// AppendFetchRequest appends the whole frame.
func AppendFetchRequest(dst []byte, corr uint32, r *FetchRequest) []byte {
	dst = appendHeader(dst, OpFetch, 0, corr, FetchRequestSize)
	dst = append(dst, r.Topic[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Partition))
	dst = appendI64(dst, r.Offset)
	dst = binary.BigEndian.AppendUint32(dst, r.MaxWait)
	dst = binary.BigEndian.AppendUint32(dst, r.MinBytes)
	dst = binary.BigEndian.AppendUint32(dst, r.MaxBytes)
	dst = binary.BigEndian.AppendUint32(dst, r.MaxRecords)
	return append(dst, byte(r.Encoding), 0)
}

// DecodeFetchRequest decodes a body. The error is [ErrMalformed].
func DecodeFetchRequest(b []byte) (FetchRequest, error) {
	const msg = "fetch request"
	if len(b) != FetchRequestSize {
		return FetchRequest{}, malformed(msg, "bytes", int64(len(b)), FetchRequestSize)
	}
	r := FetchRequest{
		Topic:      TopicID(b[fetchIDAt : fetchIDAt+16]),
		Partition:  int32(binary.BigEndian.Uint32(b[fetchPartitionAt:])),
		Offset:     int64(binary.BigEndian.Uint64(b[fetchOffsetAt:])),
		MaxWait:    binary.BigEndian.Uint32(b[fetchMaxWaitAt:]),
		MinBytes:   binary.BigEndian.Uint32(b[fetchMinBytesAt:]),
		MaxBytes:   binary.BigEndian.Uint32(b[fetchMaxBytesAt:]),
		MaxRecords: binary.BigEndian.Uint32(b[fetchMaxRecordsAt:]),
		Encoding:   Encoding(b[fetchEncodingAt]),
	}
	switch {
	case r.Partition < 0:
		return r, malformed(msg, "partition", int64(r.Partition), 0)
	case r.Offset < 0:
		return r, malformed(msg, "offset", r.Offset, 0)
	case r.Encoding > EncodingPlain:
		return r, malformed(msg, "encoding", int64(r.Encoding), int64(EncodingPlain))
	case b[fetchFlagsAt] != 0:
		return r, malformed(msg, "flags", int64(b[fetchFlagsAt]), 0)
	}
	return r, nil
}

// FetchResponseFixed is the size of a fetch response's body before the
// batches.
const FetchResponseFixed = 2 + 1 + 1 + 5*8 + 4

// Offsets in the fixed part of a fetch response.
const (
	fetchedCodeAt       = 0
	fetchedClassAt      = 2
	fetchedEncodingAt   = 3
	fetchedLogStartAt   = 4
	fetchedDurableAt    = 12
	fetchedEndAt        = 20
	fetchedNewestAt     = 28
	fetchedNextOffsetAt = 36
	fetchedBytesAt      = 44
)

var _ [0]struct{} = [fetchedBytesAt + 4 - FetchResponseFixed]struct{}{}

// FetchResponse carries whole batches, or none when the wait ended first. With
// a code other than [CodeNone] it carries none; the offsets are those of the
// partition, or -1 where it is not known.
type FetchResponse struct {
	Code Code
	// Class is the topic's durability class, 0 where the topic is not known.
	Class Class
	// Encoding is the form of Batches.
	Encoding Encoding
	// LogStart is the first offset that is stored. Together with Durable it is
	// the valid range of an [CodeOffsetOutOfRange].
	LogStart int64
	// Durable is the end of what consumers may read.
	Durable int64
	// End is the offset that the next record gets.
	End int64
	// NewestAppendTime is the broker's time of the newest append in
	// nanoseconds since 1970; -1 for an empty partition.
	NewestAppendTime int64
	// NextOffset is where to fetch next. It passes over recorded gaps, and with
	// [CodeCorrupt] over the damage.
	NextOffset int64
	// Batches is the rest of the frame. It aliases the decoded input.
	Batches []byte
}

// AppendFetchResponse appends the whole frame.
func AppendFetchResponse(dst []byte, corr uint32, r *FetchResponse) []byte {
	dst = AppendFetchResponseHeader(dst, corr, r, len(r.Batches))
	return append(dst, r.Batches...)
}

// FetchResponseHeaderSize is what [AppendFetchResponseHeader] appends.
const FetchResponseHeaderSize = HeaderSize + FetchResponseFixed

// AppendFetchResponseHeader appends the frame up to the batches, for
// payloadSize bytes of them that the caller sends behind it from where they
// lie. r.Batches is not looked at.
func AppendFetchResponseHeader(dst []byte, corr uint32, r *FetchResponse, payloadSize int) []byte {
	dst = appendHeader(dst, OpFetch, FlagResponse, corr, FetchResponseFixed+payloadSize)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = append(dst, byte(r.Class), byte(r.Encoding))
	dst = appendI64(dst, r.LogStart)
	dst = appendI64(dst, r.Durable)
	dst = appendI64(dst, r.End)
	dst = appendI64(dst, r.NewestAppendTime)
	dst = appendI64(dst, r.NextOffset)
	return binary.BigEndian.AppendUint32(dst, uint32(payloadSize))
}

// DecodeFetchResponse decodes a body. The error is [ErrMalformed].
func DecodeFetchResponse(b []byte) (FetchResponse, error) {
	const msg = "fetch response"
	if len(b) < FetchResponseFixed {
		return FetchResponse{}, malformed(msg, "bytes", int64(len(b)), FetchResponseFixed)
	}
	r := FetchResponse{
		Code:             Code(binary.BigEndian.Uint16(b[fetchedCodeAt:])),
		Class:            Class(b[fetchedClassAt]),
		Encoding:         Encoding(b[fetchedEncodingAt]),
		LogStart:         int64(binary.BigEndian.Uint64(b[fetchedLogStartAt:])),
		Durable:          int64(binary.BigEndian.Uint64(b[fetchedDurableAt:])),
		End:              int64(binary.BigEndian.Uint64(b[fetchedEndAt:])),
		NewestAppendTime: int64(binary.BigEndian.Uint64(b[fetchedNewestAt:])),
		NextOffset:       int64(binary.BigEndian.Uint64(b[fetchedNextOffsetAt:])),
		Batches:          b[FetchResponseFixed:],
	}
	size := binary.BigEndian.Uint32(b[fetchedBytesAt:])
	switch {
	case int64(size) != int64(len(r.Batches)):
		return r, malformed(msg, "bytes of batches", int64(len(r.Batches)), int64(size))
	case r.Class > ClassFlushed:
		return r, malformed(msg, "class", int64(r.Class), int64(ClassFlushed))
	case r.Encoding > EncodingPlain:
		return r, malformed(msg, "encoding", int64(r.Encoding), int64(EncodingPlain))
	case r.Code != CodeNone && size != 0:
		return r, malformed(msg, "bytes with an error code", int64(size), 0)
	}
	return r, nil
}
