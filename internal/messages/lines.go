package messages

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/internal/quantity"
)

// AnyPartition leaves the choice of the partition to the key.
const AnyPartition = -1

// Message is a record to send, and the partition that it asks for.
type Message struct {
	client.Record
	Partition int32
}

// Reader reads messages until io.EOF. What it returns is valid until the
// next call.
type Reader interface {
	Next() (Message, error)
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
				return nil, fmt.Errorf("line %d is longer than %s", s.n, quantity.Bytes(maxLine))
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

// LineReader makes a message of each line.
type LineReader struct {
	lines     lineScanner
	separator []byte
}

// NewLineReader reads lines. With a separator, what is before the first one is the
// key.
func NewLineReader(r io.Reader, separator []byte) *LineReader {
	return &LineReader{newLineScanner(r), separator}
}

// Next returns the next line.
func (r *LineReader) Next() (Message, error) {
	line, err := r.lines.next()
	m := Message{Partition: AnyPartition}
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
