package messages

import (
	"bufio"
	"io"

	"github.com/mqd-broker/mqd/client"
)

// Writer writes messages in one of the forms.
type Writer struct {
	w        *bufio.Writer
	json     bool
	line     []byte
	Messages int64 // written
	Bytes    int64 // of their keys and values
}

// outputBuffer is large, so that a million messages are few system calls.
const outputBuffer = 256 << 10

// NewWriter writes values, a line each, or JSON.
func NewWriter(out io.Writer, json bool) *Writer {
	return &Writer{w: bufio.NewWriterSize(out, outputBuffer), json: json}
}

// Flush hands over what is buffered.
func (m *Writer) Flush() error { return m.w.Flush() }

// AppendJSON appends a message as a line of JSON, with its newline.
func AppendJSON(dst []byte, partition int32, offset int64, r *client.Record) []byte {
	return append(appendMessage(dst, partition, offset, r.Time, r.Key, r.Value, r.Headers), '\n')
}

// Write writes one message. It allocates nothing, but for headers in JSON.
func (m *Writer) Write(partition int32, v *client.RecordView) error {
	m.Messages++
	m.Bytes += int64(len(v.Key) + len(v.Value))
	if m.json {
		m.line = append(appendView(m.line[:0], partition, v), '\n')
		_, err := m.w.Write(m.line)
		return err
	}
	if _, err := m.w.Write(v.Value); err != nil {
		return err
	}
	return m.w.WriteByte('\n')
}
