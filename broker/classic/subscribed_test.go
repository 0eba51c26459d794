package classic

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"
)

// subscribing is what a consumer of these topics says of itself.
func subscribing(topics ...string) string {
	b := binary.BigEndian.AppendUint16(nil, 3)
	b = binary.BigEndian.AppendUint32(b, uint32(len(topics)))
	for _, t := range topics {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(t))), t...)
	}
	return string(b) + "\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff" // no user data, nothing owned, no generation, no rack
}

func TestTheTopicsOfConsumersAreKnown(t *testing.T) {
	for name, x := range map[string]struct {
		kind string
		said [][]string // of the protocols of each member
		want string
	}{
		"nobody":                {"consumer", nil, ""},
		"one":                   {"consumer", [][]string{{subscribing("a", "b")}}, "a b"},
		"two":                   {"consumer", [][]string{{subscribing("a")}, {subscribing("c", "a")}}, "a c"},
		"two ways":              {"consumer", [][]string{{subscribing("a"), subscribing("b")}}, "a b"},
		"nothing":               {"consumer", [][]string{{subscribing()}}, ""},
		"others":                {"connect", [][]string{{subscribing("a")}}, "?"},
		"what cannot be read":   {"consumer", [][]string{{subscribing("a")}, {"said"}}, "?"},
		"what is cut off":       {"consumer", [][]string{{subscribing("abc")[:9]}}, "?"},
		"silence":               {"consumer", [][]string{{""}}, "?"},
		"a version below all":   {"consumer", [][]string{{"\xff\xff\x00\x00\x00\x00"}}, "?"},
		"more than can be":      {"consumer", [][]string{{"\x00\x00\x7f\xff\xff\xff"}}, "?"},
		"a number that is less": {"consumer", [][]string{{"\x00\x00\xff\xff\xff\xff"}}, "?"},
	} {
		s := New(Limits{Delay: -1})
		for i, protocols := range x.said {
			c := &Call{Kind: Join, Group: "g", ID: string(rune('a' + i)), Type: x.kind, Session: 30e9, Rebalance: 30e9}
			for k, said := range protocols {
				c.Protocols = append(c.Protocols, Protocol{Name: string(rune('p' + k)), Data: []byte(said)})
			}
			s.Take(0, c)
		}
		topics, known := s.Subscribed("g")
		got := strings.Join(slices.Sorted(maps.Keys(topics)), " ")
		if !known {
			got = "?"
		}
		if got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}
