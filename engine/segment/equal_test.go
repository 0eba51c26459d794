package segment

import (
	"reflect"
	"testing"
)

// equal fails t unless got is deeply equal to want.
func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}
