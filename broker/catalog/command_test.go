package catalog

import (
	"errors"
	"testing"
)

func TestATruncatedRecordIsDamaged(t *testing.T) {
	for name, c := range goldenCommands {
		record := c.Append(nil)
		for n := range record {
			if _, err := Decode(record[:n]); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s cut to %d of %d bytes: %v", name, n, len(record), err)
			}
		}
		if _, err := Decode(append(record, 0)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s with a byte behind it: %v", name, err)
		}
	}
}

func TestWhatAnOlderProgramDoesNotKnow(t *testing.T) {
	alter := goldenCommands["alter"]
	edit := func(at int, v byte) []byte {
		b := alter.Append(nil)
		b[at] = v
		return b
	}
	for name, c := range map[string]struct {
		record []byte
		want   error
	}{
		"a kind":             {edit(atKind, 16), ErrUnsupported},
		"a version":          {edit(atVersion, 2), ErrUnsupported},
		"a setting":          {edit(atBody+16+2+3*changeSize+1, byte(lastKey)+1), ErrUnsupported},
		"kind 0":             {edit(atKind, 0), ErrDamaged},
		"version 0":          {edit(atVersion, 0), ErrDamaged},
		"a flag":             {edit(atFlags+1, 2), ErrDamaged},
		"a needless skip":    {edit(atFlags+1, flagSkip), ErrDamaged},
		"an action":          {edit(atBody+16+2+2, 3), ErrDamaged},
		"settings in a mess": {edit(atBody+16+2+1, byte(KeyMaxMessageBytes)), ErrDamaged},
		"an odd value":       {edit(atBody+16+2+3, 1), ErrDamaged},
	} {
		if _, err := Decode(c.record); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	later := append([]byte{99, 7, 0, flagSkip}, "anything"...)
	if c, err := Decode(later); err != nil || c.Kind != 0 {
		t.Errorf("a record that may be passed over: %+v, %v", c, err)
	}
}

func TestARecordSaysWhereItIsDamaged(t *testing.T) {
	create := goldenCommands["create-defaults"]
	b := create.Append(nil)
	b[atBody+16+3] = 0 // partitions
	_, err := Decode(b)
	var fe *FormatError
	if !errors.As(err, &fe) || fe.Field != "partitions" || fe.At != atBody+16 || fe.Found != 0 {
		t.Errorf("got %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range goldenCommands {
		f.Add(c.Append(nil))
	}
	f.Add([]byte{99, 7, 0, flagSkip})
	f.Fuzz(func(t *testing.T, record []byte) {
		c, err := Decode(record)
		switch {
		case err != nil:
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("an error of no kind: %v", err)
			}
		case c.Kind != 0:
			if again := c.Append(nil); string(again) != string(record) {
				t.Fatalf("%x is read as %+v, which is written %x", record, c, again)
			}
		}
	})
}
