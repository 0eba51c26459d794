package inspect

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Item is one thing in a file: what it is, and its fields in order.
type Item struct {
	Type   string
	Fields []Field
	depth  int // below what it is a part of
}

// Field is a property of an item: a number, a text, or true or false.
type Field struct {
	Name  string
	Value any
}

func (it *Item) add(name string, v any) *Item {
	it.Fields = append(it.Fields, Field{name, v})
	return it
}

func (it *Item) num(name string, n int64) *Item   { return it.add(name, n) }
func (it *Item) text(name, text string) *Item     { return it.add(name, text) }
func (it *Item) flag(name string, set bool) *Item { return it.add(name, set) }

// count adds a number that is never negative.
func (it *Item) count(name string, n uint64) *Item { return it.add(name, n) }

// id adds bytes in hexadecimal.
func (it *Item) id(name string, b []byte) *Item { return it.add(name, hex.EncodeToString(b)) }

// nanos adds a time that is given in nanoseconds since 1970, 0 for none.
func (it *Item) nanos(name string, n int64) *Item {
	if n == 0 {
		return it.text(name, "none")
	}
	return it.text(name, time.Unix(0, n).UTC().Format(time.RFC3339Nano))
}

// String is the item in words: its parts stand further to the right.
func (it *Item) String() string {
	var b strings.Builder
	b.WriteString(strings.Repeat("  ", it.depth))
	b.WriteString(it.Type)
	for i, f := range it.Fields {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s %v", sep, strings.ReplaceAll(f.Name, "_", " "), f.Value)
	}
	return b.String()
}

// MarshalJSON is the item as an object, with its type as the first field.
func (it *Item) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range append([]Field{{"type", it.Type}}, it.Fields...) {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(f.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.Value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
