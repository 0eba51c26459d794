package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mqd-broker/mqd/client"
)

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
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the line ends before its JSON object does")
	}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return fmt.Errorf("no JSON object: %w", err)
	}
	if field, is := strings.CutPrefix(err.Error(), "json: unknown field "); is { // it has no type of its own
		return fmt.Errorf("unknown field %s", field)
	}
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

// JSONReader makes a message of each line of JSON. Empty lines are passed over.
type JSONReader struct{ lines lineScanner }

// NewJSONReader reads lines of JSON.
func NewJSONReader(r io.Reader) *JSONReader { return &JSONReader{newLineScanner(r)} }

// Next returns the message of the next line that is not empty.
func (r *JSONReader) Next() (Message, error) {
	for {
		line, err := r.lines.next()
		if err != nil {
			return Message{}, err
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

func parseMessage(line []byte) (Message, error) {
	m := Message{Partition: AnyPartition}
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
		if m.Partition = *j.Partition; m.Partition < 0 {
			return m, fmt.Errorf("partition %d", m.Partition)
		}
	}
	if j.Timestamp != nil && *j.Timestamp >= 0 {
		m.Time = time.UnixMilli(*j.Timestamp)
	}
	return m, nil
}
