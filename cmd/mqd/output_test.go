package main

import (
	"bytes"
	"fmt"
	"io"
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
