package quantity

import "testing"

func TestNumbersAreWrittenForPeople(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 1536: "1.50 KiB", 10 << 10: "10.0 KiB", 100 << 10: "100 KiB",
		1 << 20: "1.00 MiB", 5 << 30: "5.00 GiB", 1 << 62: "4.00 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 12: "12"} {
		if got := Grouped(n); got != want {
			t.Errorf("%d is %q", n, got)
		}
	}
}

func TestOneThingHasItsOwnNoun(t *testing.T) {
	for n, want := range map[int]string{0: "0 batches", 1: "1 batch", 2: "2 batches", 2000: "2,000 batches", -1: "-1 batches"} {
		if got := Of(n, "batch", "batches"); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
