package groups

import (
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
)

// The broker does not know which partitions members have that are Kafka clients.
func TestPartitionsOfKafkaClientsAreNotCounted(t *testing.T) {
	for mode, want := range map[wire.GroupMode]string{wire.GroupKafka: "7 - - -", wire.GroupAuto: "7 2 1 -"} {
		d := client.GroupDescription{Name: "g", Mode: mode}
		d.Members = slices.Grow(d.Members, 1)[:1]
		d.Members[0].Generation, d.Members[0].Grants, d.Members[0].Leaving = 7, 2, 1
		var text strings.Builder
		tw := tabwriter.NewWriter(&text, 0, 8, 1, ' ', 0)
		reportOf(&d).write(tw)
		if err := tw.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(text.String()), " "); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q, expected %q at its end", modeNames[mode], got, want)
		}
	}
}
