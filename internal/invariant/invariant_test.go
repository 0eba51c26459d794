package invariant

import (
	"strings"
	"testing"
)

func TestViolatedPanicsWithTheNameOfTheInvariant(t *testing.T) {
	defer func() {
		v, ok := recover().(Violation)
		if !ok {
			t.Fatal("Violated did not panic with a Violation")
		}
		if v.Name != "ring: head passed tail" || !strings.Contains(v.Error(), v.Name) {
			t.Fatalf("the violation does not name its invariant: %q", v.Error())
		}
	}()
	Violated("ring: head passed tail")
}
