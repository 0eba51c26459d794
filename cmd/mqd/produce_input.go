package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
)

// anyPartition leaves the choice of the partition to the key.
const anyPartition = -1

// message is a record to send, and the partition that it asks for.
type message struct {
	client.Record
	partition int32
}

// messageReader reads messages until io.EOF. What it returns is valid until the
// next call.
type messageReader interface {
	next() (message, error)
}

// maxLine bounds a line of the input, in bytes. The broker's limits are smaller;
// base64 makes lines of JSON longer than their messages.
const maxLine = 64 << 20

// lineScanner cuts an input into lines at newlines and nowhere else.
type lineScanner struct {
	r    *bufio.Reader
	long []byte // a line that does not fit into the buffer
	n    int    // number of the line, from 1
}

func newLineScanner(r io.Reader) lineScanner {
	return lineScanner{r: bufio.NewReaderSize(r, 256<<10)}
}

// next returns a line without its newline. The last line may have none.
func (s *lineScanner) next() ([]byte, error) {
	s.n++
	s.long = s.long[:0]
	for {
		part, err := s.r.ReadSlice('\n')
		switch {
		case err == nil:
			part = part[:len(part)-1]
		case errors.Is(err, bufio.ErrBufferFull):
			if len(s.long)+len(part) > maxLine {
				return nil, fmt.Errorf("line %d is longer than %s", s.n, settings.FormatSize(maxLine))
			}
			s.long = append(s.long, part...)
			continue
		case !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("line %d: %w", s.n, err)
		case len(part) == 0 && len(s.long) == 0:
			return nil, io.EOF
		}
		if len(s.long) == 0 {
			return part, nil
		}
		s.long = append(s.long, part...)
		return s.long, nil
	}
}

// lineReader makes a message of each line.
type lineReader struct {
	lines     lineScanner
	separator []byte
}

func newLineReader(r io.Reader, separator []byte) *lineReader {
	return &lineReader{newLineScanner(r), separator}
}

func (r *lineReader) next() (message, error) {
	line, err := r.lines.next()
	m := message{partition: anyPartition}
	if err != nil {
		return m, err
	}
	m.Value = line
	if len(r.separator) > 0 {
		if key, value, found := bytes.Cut(line, r.separator); found {
			m.Key, m.Value = key, value
		}
	}
	return m, nil
}

// jsonMessage is a line of JSON as it is read.
type jsonMessage struct {
	Partition   *int32      `json:"partition"`
	Offset      *int64      `json:"offset"`
	Timestamp   *int64      `json:"timestamp"`
	Key         *string     `json:"key"`
	KeyBase64   []byte      `json:"key_base64"`
	Value       *string     `json:"value"`
	ValueBase64 []byte      `json:"value_base64"`
	Headers     jsonHeaders `json:"headers"`
}

// jsonHeaders are headers in order. An object {"key": "value"} will do as well as
// a list of objects with key and value.
type jsonHeaders []client.Header

// jsonHeader is an element of a list of headers.
type jsonHeader struct {
	Key         *string `json:"key"`
	KeyBase64   []byte  `json:"key_base64"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"value_base64"`
}

// UnmarshalJSON reads either form.
func (h *jsonHeaders) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		var list []jsonHeader
		if err := unmarshalStrict(text, &list); err != nil {
			return err
		}
		for _, e := range list {
			key, err := either("key", e.Key, e.KeyBase64)
			if err != nil {
				return err
			}
			value, err := either("value", e.Value, e.ValueBase64)
			if err != nil {
				return err
			}
			*h = append(*h, client.Header{Key: string(key), Value: value})
		}
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var value *string
		if err := dec.Decode(&value); err != nil {
			return err
		}
		header := client.Header{Key: key.(string)} // the keys of an object are strings
		if value != nil {
			header.Value = []byte(*value)
		}
		*h = append(*h, header)
	}
	return nil
}

// either is the text or the bytes of a field that is given at most once.
func either(name string, text *string, raw []byte) ([]byte, error) {
	switch {
	case text != nil && raw != nil:
		return nil, fmt.Errorf("both %s and %s_base64", name, name)
	case text != nil:
		return []byte(*text), nil
	}
	return raw, nil
}

// unmarshalStrict refuses fields that there are not, and anything behind the end.
func unmarshalStrict(text []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// plainJSONError leaves out the names that this program gives to what it reads.
func plainJSONError(err error) error {
	bad := (*json.UnmarshalTypeError)(nil)
	if !errors.As(err, &bad) {
		return err
	}
	where, expected := bad.Field, "a string"
	switch bad.Type.Kind() {
	case reflect.Int32, reflect.Int64:
		expected = "a whole number of " + strconv.Itoa(bad.Type.Bits()) + " bits"
	case reflect.Struct:
		expected = "an object"
	}
	if where == "" {
		return fmt.Errorf("found %s, expected %s", bad.Value, expected)
	}
	return fmt.Errorf("%s: found %s, expected %s", where, bad.Value, expected)
}

// jsonReader makes a message of each line of JSON. Empty lines are passed over.
type jsonReader struct{ lines lineScanner }

func newJSONReader(r io.Reader) *jsonReader { return &jsonReader{newLineScanner(r)} }

func (r *jsonReader) next() (message, error) {
	for {
		line, err := r.lines.next()
		if err != nil {
			return message{}, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		m, err := parseMessage(line)
		if err != nil {
			return m, fmt.Errorf("line %d: %w", r.lines.n, err)
		}
		return m, nil
	}
}

func parseMessage(line []byte) (message, error) {
	m := message{partition: anyPartition}
	if !utf8.Valid(line) {
		return m, errors.New("not UTF-8; give such bytes as key_base64 or value_base64")
	}
	var j jsonMessage
	err := unmarshalStrict(line, &j)
	if err != nil {
		return m, plainJSONError(err)
	}
	if m.Key, err = either("key", j.Key, j.KeyBase64); err != nil {
		return m, err
	}
	if m.Value, err = either("value", j.Value, j.ValueBase64); err != nil {
		return m, err
	}
	m.Headers = j.Headers
	if j.Partition != nil {
		if m.partition = *j.Partition; m.partition < 0 {
			return m, fmt.Errorf("partition %d", m.partition)
		}
	}
	if j.Timestamp != nil && *j.Timestamp >= 0 {
		m.Time = time.UnixMilli(*j.Timestamp)
	}
	return m, nil
}

// chosenPartition is a partitioner that each message can overrule.
type chosenPartition struct {
	next   int32 // of the message that is appended next
	spread int32 // messages without a key or a wish
}

// spreadRun is how many messages without a key go to one partition before the
// next one has its turn: a full batch of the client's default size.
const spreadRun = 64

func (c *chosenPartition) partition(key []byte, n int32) int32 {
	switch {
	case c.next >= 0:
		return c.next
	case key != nil:
		return batch.Partition(key, n)
	}
	c.spread = (c.spread + 1) % (spreadRun * n)
	return c.spread / spreadRun
}
