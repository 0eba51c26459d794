package admin

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/engine/stage"
)

// fields are those of a message of Protocol Buffers, by their numbers.
type fields map[uint64][]any // uint64, float64 or []byte

// read reads a message.
func read(t *testing.T, b []byte) fields {
	t.Helper()
	all := fields{}
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatalf("no number at % x", b)
		}
		b = b[n:]
		return v
	}
	for len(b) > 0 {
		key := next()
		var v any
		switch key & 7 {
		case wireVarint:
			v = next()
		case wireDouble:
			v, b = math.Float64frombits(binary.LittleEndian.Uint64(b)), b[8:]
		case wireBytes:
			n := next()
			v, b = b[:n], b[n:]
		default:
			t.Fatalf("field of kind %d", key&7)
		}
		all[key>>3] = append(all[key>>3], v)
	}
	return all
}

// signed reads a number whose sign is in the lowest bit.
func signed(v any) int64 { u := v.(uint64); return int64(u>>1) ^ -int64(u&1) }

// buckets are a native histogram's, by their indexes.
func (f fields) buckets(t *testing.T) map[int]int64 {
	t.Helper()
	all, at, deltas, n := map[int]int64{}, 0, f[13], int64(0)
	for _, s := range f[12] {
		span := read(t, s.([]byte))
		at += int(signed(span[1][0]))
		for range span[2][0].(uint64) {
			n += signed(deltas[0])
			deltas = deltas[1:]
			all[at] = n
			at++
		}
	}
	if len(deltas) > 0 {
		t.Errorf("%d deltas are of no span", len(deltas))
	}
	return all
}

func TestNativeBucketsHoldTheirTimes(t *testing.T) {
	for i := 1; i < stage.Buckets; i++ {
		seconds, at := float64(stage.Upper(i))/1e9, float64(nativeOf[i])/8
		if seconds > math.Exp2(at)*(1+1e-12) || seconds <= math.Exp2(at-0.125)*(1-1e-12) {
			t.Fatalf("%v s are in the bucket up to %v s", seconds, math.Exp2(at))
		}
		if nativeOf[i] < nativeOf[i-1] && i > 1 {
			t.Fatalf("bucket %d is before the one of less", i)
		}
	}
}

func TestANativeHistogramHasAllSamples(t *testing.T) {
	var c stage.Clock
	for at, n := range map[int64]int{0: 3, 1: 1, 1_000_000: 5, 1_010_000: 2, 2_000_000_000: 7, 1_073_741_824: 1} {
		for range n {
			c.Add(stage.Device, at)
		}
	}
	var s stage.Snapshot
	c.Copy(&s)
	f := read(t, nativeHistogram(&s[stage.Device]))
	got := f.buckets(t)
	sum := int64(f[7][0].(uint64))
	for _, n := range got {
		sum += n
	}
	// 1 ms is 2^(-79.7/8) s, 2 s are 2^(8/8).
	if f[1][0] != uint64(19) || sum != 19 || got[-239] != 1 || got[-79] != 7 || got[8]+got[9] != 7 || signed(f[5][0]) != nativeSchema {
		t.Errorf("%v of %v samples, buckets %v", sum, f[1][0], got)
	}
	if n := len(f[3]); n != len(bounds) || read(t, f[3][n-1].([]byte))[1][0] != uint64(19) {
		t.Errorf("%d classic buckets", n)
	}
	empty := read(t, nativeHistogram(&stage.Histogram{}))
	if b := empty.buckets(t); len(b) != 0 || len(empty[12]) != 1 || empty[1][0] != uint64(0) {
		t.Errorf("of nothing: %v", empty)
	}
}

func TestWhoeverWantsNativeHistogramsGetsThem(t *testing.T) {
	const native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/plain": false, native: true, native + ";q=0.6,text/plain;version=0.0.4;q=0.3": true,
		native + ";q=0.2,text/plain;q=0.5": false, native + ";q=0": false, "application/vnd.google.protobuf;encoding=text": false,
		"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1": false,
	} {
		if wantsNative(accept) != want {
			t.Errorf("%q: %v", accept, !want)
		}
	}
}

func TestBothFormsTellTheSame(t *testing.T) {
	r := newRig(t)
	r.start()
	r.produce("orders", 2, "a message")
	text := r.scrape(PathMetrics)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.front.Addr()+PathMetrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", strings.ReplaceAll(nativeType, " ", ""))
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.Header.Get("Content-Type") != nativeType {
		t.Fatalf("%v, content type %q", err, res.Header.Get("Content-Type"))
	}
	kinds := map[uint64]string{0: counter, 1: gauge, 4: histogram}
	for len(body) > 0 {
		size, n := binary.Uvarint(body)
		f := read(t, body[n:n+int(size)])
		body = body[n+int(size):]
		name := string(f[1][0].([]byte))
		if kind := kinds[f[3][0].(uint64)]; text.kinds[name] != kind || len(f[2]) != 1 || len(f[4]) == 0 {
			t.Errorf("%s is a %s, as text a %s, with %d samples", name, kind, text.kinds[name], len(f[4]))
		}
		delete(text.kinds, name)
		for _, m := range f[4] {
			if bytes.Contains(m.([]byte), []byte("orders")) && name == "mqd_log_end_offset" {
				sample := read(t, m.([]byte))
				label := read(t, sample[1][0].([]byte))
				if string(label[1][0].([]byte)) != "topic" || read(t, sample[2][0].([]byte))[1] == nil {
					t.Errorf("%v", sample)
				}
			}
		}
	}
	if len(text.kinds) > 0 {
		t.Errorf("only as text: %v", text.kinds)
	}
}
