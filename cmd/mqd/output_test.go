package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"
)

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
