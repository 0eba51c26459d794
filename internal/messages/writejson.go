package messages

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/mqd-broker/mqd/client"
)

// appendView appends a message that was read as a JSON object.
func appendView(dst []byte, partition int32, v *client.RecordView) []byte {
	var headers []client.Header
	if v.HeaderCount() > 0 {
		headers = v.Clone().Headers
	}
	return appendMessage(dst, partition, v.Offset, v.Time, v.Key, v.Value, headers)
}

// appendMessage appends a message as a JSON object.
func appendMessage(dst []byte, partition int32, offset int64, at time.Time, key, value []byte, headers []client.Header) []byte {
	dst = append(dst, `{"partition":`...)
	dst = strconv.AppendInt(dst, int64(partition), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, offset, 10)
	dst = append(dst, `,"timestamp":`...)
	if at.IsZero() {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, at.UnixMilli(), 10)
	}
	dst = append(dst, ',')
	dst = appendField(dst, "key", key)
	dst = append(dst, ',')
	dst = appendField(dst, "value", value)
	dst = append(dst, `,"headers":[`...)
	for i, h := range headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendField(append(dst, '{'), "key", []byte(h.Key)), ',')
		dst = append(appendField(dst, "value", h.Value), '}')
	}
	return append(dst, "]}"...)
}

// appendField appends "name":"text", or "name_base64":"..." for what is not text.
func appendField(dst []byte, name string, b []byte) []byte {
	dst = append(append(dst, '"'), name...)
	switch {
	case b == nil:
		return append(dst, `":null`...)
	case utf8.Valid(b):
		return appendString(append(dst, `":`...), b)
	}
	dst = append(dst, `_base64":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, b), '"')
}

// appendString appends text as a JSON string.
func appendString(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, text[from:]...), '"')
}
