package batch

import "testing"

func TestErrorsSayWhatWasExpected(t *testing.T) {
	for want, err := range map[string]error{
		"batch: batch size at byte 8: too large: expected at most 2048, found 5070":            fail(ErrTooLarge, "batch size", AtLength, 2048, 5070),
		"batch: record 3: record size at byte 70: too large: expected at most 939, found 1000": failRecord(ErrTooLarge, 3, "record size", 70, 939, 1000),
		"batch: magic at byte 16: unsupported message format: expected 2, found 1":             fail(ErrMagic, "magic", AtMagic, 2, 1),
		"batch: checksum at byte 17: checksum mismatch: expected 0x0000000a, found 0x0000000b": fail(ErrCorrupt, "checksum", AtCRC, 10, 11),
	} {
		if got := err.Error(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
