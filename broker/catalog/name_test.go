package catalog

import (
	"errors"
	"strings"
	"testing"
)

func TestNamesThatATopicCanHave(t *testing.T) {
	for _, c := range []struct {
		name          string
		topic, byUser bool
	}{
		{"a", true, true},
		{"A.b_c-9", true, true},
		{"...", true, true},
		{"_one", true, true},
		{"__two", true, false},
		{"__", true, false},
		{strings.Repeat("x", MaxName), true, true},
		{strings.Repeat("x", MaxName+1), false, false},
		{"", false, false},
		{".", false, false},
		{"..", false, false},
		{"a b", false, false},
		{"a/b", false, false},
		{"ä", false, false},
		{"a\x00", false, false},
	} {
		if err := CheckName(c.name); (err == nil) != c.topic || err != nil && !errors.Is(err, ErrInvalidTopic) {
			t.Errorf("CheckName(%q) = %v", c.name, err)
		}
		if err := CheckUserName(c.name); (err == nil) != c.byUser || err != nil && !errors.Is(err, ErrInvalidTopic) {
			t.Errorf("CheckUserName(%q) = %v", c.name, err)
		}
	}
}

func TestPartitionsAreBoundedByNodeAndFormat(t *testing.T) {
	for _, c := range []struct {
		n, most uint32
		ok      bool
	}{
		{0, 10, false}, {1, 10, true}, {10, 10, true}, {11, 10, false},
		{MaxPartitions, 1 << 31, true}, {MaxPartitions + 1, 1 << 31, false},
	} {
		if err := CheckPartitions(c.n, c.most); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalidPartitions) {
			t.Errorf("CheckPartitions(%d, %d) = %v", c.n, c.most, err)
		}
	}
}
