package batch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// Codec is the compression of a batch's records, as in the low three bits of its
// attributes.
type Codec uint8

// The codecs that exist.
const (
	CodecNone   Codec = 0
	CodecGzip   Codec = 1
	CodecSnappy Codec = 2
	CodecLz4    Codec = 3
	CodecZstd   Codec = 4
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns the name that Kafka's configuration uses.
func (c Codec) String() string {
	if int(c) < len(codecNames) {
		return codecNames[c]
	}
	return fmt.Sprintf("codec(%d)", uint8(c))
}

// ParseCodec returns the codec called name: none, gzip, snappy, lz4 or zstd. Any
// other name is [ErrCodec].
func ParseCodec(name string) (Codec, error) {
	if i := slices.Index(codecNames[:], name); i >= 0 {
		return Codec(i), nil
	}
	return CodecNone, fmt.Errorf("batch: %w: %q is none of %q", ErrCodec, name, codecNames)
}

// Compress appends src, compressed with c, to dst. Snappy gets the framing of
// the Java library and lz4 the frame format, as Kafka's Java client writes them;
// the checksums of the formats are left out where they may be, because the
// batch's CRC covers the same bytes. The levels are the libraries' defaults.
// CodecNone copies. A codec that does not exist is the caller's bug and panics.
func Compress(dst []byte, c Codec, src []byte) []byte {
	switch c {
	case CodecNone:
		return append(dst, src...)
	case CodecGzip:
		return compressGzip(dst, src)
	case CodecSnappy:
		return compressSnappy(dst, src)
	case CodecLz4:
		return compressLz4(dst, src)
	case CodecZstd:
		e := zstdEncoders.Get().(*zstd.Encoder)
		defer zstdEncoders.Put(e)
		return e.EncodeAll(src, dst)
	default:
		invariant.Violated("batch: compression with an unknown codec")
		return nil
	}
}

// Decompress appends the uncompressed records of a batch with header h, whose
// records as sent are body, to dst. With CodecNone it copies.
//
// The result has at most limit bytes, and dst grows to no more than about that:
// output is bounded while it is produced, and no length that the input claims is
// believed before. Input that would give more is [ErrTooLarge], broken input
// [ErrCompression]. Where a codec cannot tell the two apart, because its input
// broke off at the limit, it is ErrTooLarge. On failure the result is dst as it
// was.
func Decompress(dst []byte, h Header, body []byte, limit int) ([]byte, error) {
	c := h.Attributes.Codec()
	if limit < 0 || limit > MaxSize {
		invariant.Violated("batch: decompression limit outside a batch's sizes")
	}
	if least := int64(h.Count) * MinRecordSize; least > int64(limit) {
		return dst, fail(ErrTooLarge, "record count", AtCount, int64(limit), least)
	}
	var out []byte
	var err error
	switch c {
	case CodecNone:
		if len(body) > limit {
			err = errLimit
			break
		}
		out = append(dst, body...)
	case CodecGzip:
		out, err = decompressGzip(dst, body, limit)
	case CodecSnappy:
		out, err = decompressSnappy(dst, body, limit)
	case CodecLz4:
		out, err = decompressLz4(dst, body, limit)
	case CodecZstd:
		out, err = decompressZstd(dst, body, limit)
	default:
		return dst, fail(ErrCodec, "attributes", AtAttributes, int64(CodecZstd), int64(c))
	}
	if err == nil {
		return out, nil
	}
	if errors.Is(err, errLimit) {
		return dst, fail(ErrTooLarge, "decompressed records", AtRecords, int64(limit), int64(limit)+1)
	}
	return dst, &Error{Kind: ErrCompression, Field: c.String() + " records", At: AtRecords, Record: -1, Cause: err}
}

// errLimit is how a codec's function says that the limit is reached.
var errLimit = errors.New("output limit reached")

// Go's gzip and zstd states are large and are kept for reuse; those of snappy
// and lz4 decompression need none.
var (
	gzipWriters  = sync.Pool{New: func() any { return &gzipWriter{z: gzip.NewWriter(io.Discard)} }}
	gzipReaders  = sync.Pool{New: func() any { return new(gzipReader) }}
	zstdEncoders = sync.Pool{New: func() any { return newZstdEncoder() }}
	zstdDecoders = sync.Pool{New: func() any { return newZstdDecoder() }}
)

// gzipWriter appends what its compressor writes to out.
type gzipWriter struct {
	z   *gzip.Writer
	out []byte
}

func (w *gzipWriter) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

func compressGzip(dst, src []byte) []byte {
	w := gzipWriters.Get().(*gzipWriter)
	defer gzipWriters.Put(w)
	w.out = dst
	w.z.Reset(w)
	_, err := w.z.Write(src)
	if err == nil {
		err = w.z.Close()
	}
	if err != nil {
		invariant.Violated("batch: gzip failed to write to memory")
	}
	out := w.out
	w.out = nil
	return out
}

type gzipReader struct {
	z   gzip.Reader
	src bytes.Reader
}

func decompressGzip(dst, src []byte, limit int) ([]byte, error) {
	r := gzipReaders.Get().(*gzipReader)
	defer func() {
		r.src.Reset(nil)
		gzipReaders.Put(r)
	}()
	r.src.Reset(src)
	if err := r.z.Reset(&r.src); err != nil {
		return nil, err
	}
	end := len(dst) + limit
	for {
		if len(dst) == end {
			return dst, expectEnd(&r.z)
		}
		if len(dst) == cap(dst) {
			// Double, beginning with a usual ratio.
			more := min(max(len(dst), 4*len(src), 512), end-len(dst))
			dst = slices.Grow(dst, more)
		}
		n, err := r.z.Read(dst[len(dst):min(cap(dst), end)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// expectEnd reads from r, which has given all it may.
func expectEnd(r io.Reader) error {
	var one [1]byte
	for {
		n, err := r.Read(one[:])
		switch {
		case n > 0:
			return errLimit
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

const (
	// zstdWindow is the window that the encoder uses; batches are rarely larger.
	zstdWindow = 128 << 10

	// zstdMaxWindow is the largest window that is accepted, what zstd itself
	// accepts by default. It costs nothing here: the output is the window.
	zstdMaxWindow = 128 << 20
)

func newZstdEncoder() *zstd.Encoder {
	e, err := zstd.NewWriter(nil,
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(zstdWindow),
		zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false),
		zstd.WithZeroFrames(true))
	if err != nil {
		invariant.Violated("batch: zstd encoder options are valid")
	}
	return e
}

func newZstdDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdMaxWindow),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		invariant.Violated("batch: zstd decoder options are valid")
	}
	return d
}

// decompressZstd decodes straight into dst, whose capacity is the decoder's
// limit. If that was too little and limit allows more, it is doubled and the
// frame decoded again, which at most doubles the work.
func decompressZstd(dst, src []byte, limit int) ([]byte, error) {
	if len(src) == 0 {
		return nil, io.ErrUnexpectedEOF // the library takes it for no frames
	}
	d := zstdDecoders.Get().(*zstd.Decoder)
	defer zstdDecoders.Put(d)
	room := min(max(cap(dst)-len(dst), zstdGuess(src)), limit)
	for {
		dst = slices.Grow(dst, room)
		out, err := d.DecodeAll(src, dst[:len(dst):len(dst)+room])
		switch {
		case err == nil && len(out) > len(dst)+room:
			return nil, errLimit
		case err == nil:
			return out, nil
		case !errors.Is(err, zstd.ErrDecoderSizeExceeded):
			if errors.Is(err, zstd.ErrWindowSizeExceeded) {
				return nil, errLimit
			}
			return nil, err
		case room == limit:
			return nil, errLimit
		}
		room = min(2*room, limit)
	}
}

// zstdGuess returns how much room to try first, more than none: what the frame
// claims if that is believable, else a usual ratio.
func zstdGuess(src []byte) int {
	var h zstd.Header
	if h.Decode(src) == nil && h.HasFCS && h.FrameContentSize <= uint64(64*len(src)) {
		return max(int(h.FrameContentSize), 1) // another frame may follow one of none
	}
	return max(4*len(src), 512)
}
