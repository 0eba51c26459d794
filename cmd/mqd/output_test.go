package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"
)

func TestNumbersAreWrittenForPeople(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 1536: "1.50 KiB", 10 << 10: "10.0 KiB", 100 << 10: "100 KiB",
		1 << 20: "1.00 MiB", 5 << 30: "5.00 GiB", 1 << 62: "4.00 EiB",
	} {
		if got := humanBytes(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 12: "12"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %q", n, got)
		}
	}
}

func TestTablesAreAlignedWithoutBlanksAtTheEnd(t *testing.T) {
	var out bytes.Buffer
	err := printTable(&out, func(w io.Writer) {
		fmt.Fprint(w, "NAME\tN\nlonger name\t1\nx\t\n")
	})
	if want := "NAME         N\nlonger name  1\nx\n"; err != nil || out.String() != want {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestFilesAndTheNullDeviceAreNoTerminals(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Create(t.TempDir() + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, w := range []io.Writer{null, file, &bytes.Buffer{}} {
		if isTerminal(w) {
			t.Errorf("%T was taken for a terminal", w)
		}
	}
}
