package history

import (
	"slices"
	"testing"
)

func TestOffsetsOfGroupsAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(o *Offsets)
		want []Kind
	}{
		"nothing": {func(o *Offsets) { o.Read(o.Mark(), -1) }, nil},
		"forward": {func(o *Offsets) { o.Asked(3); o.Acked(3); o.Read(o.Mark(), 3); o.Asked(7); o.Read(o.Mark(), 7) }, nil},
		"lost":    {func(o *Offsets) { o.Asked(3); o.Acked(3); o.Read(o.Mark(), -1) }, []Kind{WentBack}},
		"back":    {func(o *Offsets) { o.Asked(3); o.Acked(3); o.Asked(5); o.Acked(5); o.Read(o.Mark(), 3) }, []Kind{WentBack}},
		// One that was read is relied upon, whoever acknowledged it.
		"back after a read": {func(o *Offsets) { o.Asked(3); o.Read(o.Mark(), 3); o.Read(o.Mark(), -1) }, []Kind{WentBack}},
		"invented":          {func(o *Offsets) { o.Asked(3); o.Read(o.Mark(), 4) }, []Kind{Invented}},
		"acked by itself":   {func(o *Offsets) { o.Asked(3); o.Acked(4) }, []Kind{Invented}},
		// An answer may be older than a commit that was acknowledged after it was asked.
		"overtaken": {func(o *Offsets) { o.Asked(3); m := o.Mark(); o.Acked(3); o.Read(m, -1) }, nil},
	} {
		o := NewOffsets()
		c.tell(o)
		var got []Kind
		for _, v := range o.Violations() {
			got = append(got, v.Kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", name, o.Violations(), c.want)
		}
	}
}
