package native_test

import (
	"slices"
	"testing"

	"github.com/mqd-broker/mqd/net/wire"
)

// TestAnAnswerThatNoClientTakesIsNotMade names one topic so often that the answer to
// a request of a few KiB would have 150 MB.
func TestAnAnswerThatNoClientTakesIsNotMade(t *testing.T) {
	r := newRig(t, rigOptions{seed: 65})
	c := r.dial()
	c.create("t", 50_000)
	names := slices.Repeat([]string{"t"}, 1_500)
	corr := c.do(func(corr uint32) []byte {
		return wire.AppendMetadataRequest(nil, corr, wire.MetadataRequest{Topics: names})
	})
	if e := c.refused(corr); e.Code != wire.CodeFrameTooLarge {
		t.Errorf("%+v", e)
	}
	r.until("the connection ends", c.ended)
	if m := r.dial().metadata("t"); len(m.Topics) != 1 || len(m.Topics[0].PartitionShards) != 50_000 {
		t.Errorf("%d topics", len(m.Topics))
	}
	r.home()
}
