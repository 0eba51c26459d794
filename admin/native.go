package admin

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/mqd-broker/mqd/engine/stage"
)

// nativeType is Prometheus' binary format: messages MetricFamily of io.prometheus.client, each
// behind its length. It alone has native histograms, and scrapers that want those ask for it.
const nativeType = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

const (
	// nativeSchema is the resolution of native histograms: 2^3 buckets for each doubling, so
	// that one is 9 % wide. The buckets that they are made of have 3 %.
	nativeSchema = 3
	// nativeZero is the width of the bucket for zero, in seconds: less than a nanosecond.
	nativeZero = 5e-10
)

// wantsNative reports whether a scraper that accepts so would rather have the binary format
// than text.
func wantsNative(accept string) bool {
	native, text := 0.0, 0.0
	for part := range strings.SplitSeq(accept, ",") {
		kind, params, _ := strings.Cut(part, ";")
		q, form := 1.0, ""
		for p := range strings.SplitSeq(params, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(p), "=")
			switch key {
			case "q":
				if n, err := strconv.ParseFloat(value, 64); err == nil {
					q = n
				}
			case "encoding":
				form = value
			}
		}
		switch kind = strings.TrimSpace(kind); {
		case kind == "application/vnd.google.protobuf" && form == "delimited":
			native = max(native, q)
		case kind == "text/plain":
			text = max(text, q)
		}
	}
	return native > 0 && native >= text
}

// message is one of Protocol Buffers that is being written.
type message []byte

// Kinds of fields on the wire.
const (
	wireVarint, wireDouble, wireBytes = 0, 1, 2
)

func (m *message) key(field, wire uint64) { *m = binary.AppendUvarint(*m, field<<3|wire) }

func (m *message) uint(field, v uint64) {
	m.key(field, wireVarint)
	*m = binary.AppendUvarint(*m, v)
}

// sint writes a number whose sign goes to the lowest bit.
func (m *message) sint(field uint64, v int64) {
	m.uint(field, uint64(v)<<1^uint64(v>>63))
}

func (m *message) double(field uint64, v float64) {
	m.key(field, wireDouble)
	*m = binary.LittleEndian.AppendUint64(*m, math.Float64bits(v))
}

func (m *message) bytes(field uint64, b []byte) {
	m.key(field, wireBytes)
	*m = append(binary.AppendUvarint(*m, uint64(len(b))), b...)
}

func (m *message) text(field uint64, s string) { m.bytes(field, []byte(s)) }

// Types of metrics.
var nativeKinds = map[string]uint64{counter: 0, gauge: 1, histogram: 4}

// native writes a family in the binary format; one without samples is left out.
func (f *family) native(out *bytes.Buffer, v *view) {
	var all message
	all.text(1, f.name)
	all.text(2, f.help)
	all.uint(3, nativeKinds[f.kind])
	some := false
	metric := func(field uint64, value message, labels []string) {
		some = true
		var m message
		for i, name := range f.labels {
			var pair message
			pair.text(1, name)
			pair.text(2, labels[i])
			m.bytes(1, pair)
		}
		m.bytes(field, value)
		all.bytes(4, m)
	}
	if f.distribute != nil {
		f.distribute(v, func(h *stage.Histogram, labels ...string) { metric(7, nativeHistogram(h), labels) })
	} else {
		f.collect(v, func(value float64, labels ...string) {
			var m message
			m.double(1, value)
			field := uint64(2) // of a gauge
			if f.kind == counter {
				field = 3
			}
			metric(field, m, labels)
		})
	}
	if some {
		out.Write(binary.AppendUvarint(out.AvailableBuffer(), uint64(len(all))))
		out.Write(all)
	}
}

// nativeIndex is the native bucket of a time in nanoseconds, more than 0: the upper bound of
// bucket i is 2^(i/8) seconds.
func nativeIndex(nanos int64) int {
	return int(math.Ceil(math.Log2(float64(nanos)/1e9) * (1 << nativeSchema)))
}

// nativeOf are the native buckets of the buckets that times are counted in. The first one is
// of the time 0 alone, which has a bucket of its own.
var nativeOf = func() (all [stage.Buckets]int) {
	for i := 1; i < len(all); i++ {
		all[i] = nativeIndex(stage.Upper(i))
	}
	return all
}()

// nativeHistogram writes a histogram with native buckets, and with those of the text format
// for whoever does not know native ones.
func nativeHistogram(h *stage.Histogram) message {
	var m message
	m.uint(1, h.Total)
	m.double(2, float64(h.Sum)/1e9)
	for _, b := range bounds {
		var bucket message
		bucket.uint(1, h.Below(b))
		bucket.double(2, nanos(b))
		m.bytes(3, bucket)
	}
	m.sint(5, nativeSchema)
	m.double(6, nativeZero)
	m.uint(7, h.Counts[0])
	var spans, deltas message
	last, length, before := 0, uint64(0), int64(0)
	span := func(offset int64) {
		var s message
		s.sint(1, offset)
		s.uint(2, length)
		spans.bytes(12, s)
	}
	offset := int64(0)
	for i := 1; i < len(h.Counts); {
		at, n := nativeOf[i], int64(0)
		for ; i < len(h.Counts) && nativeOf[i] == at; i++ {
			n += int64(h.Counts[i])
		}
		if n == 0 {
			continue
		}
		switch {
		case length == 0:
			offset = int64(at) // the first span is from bucket 0
		case at > last+1:
			span(offset)
			offset, length = int64(at-last-1), 0
		}
		deltas.sint(13, n-before)
		last, before = at, n
		length++
	}
	span(offset) // without samples it says that there are native buckets all the same
	return append(append(m, spans...), deltas...)
}
