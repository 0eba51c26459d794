package groups

import (
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"unicode"

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

// Clients call themselves, their instances, topics and groups what they want.
func TestNamesOfClientsMakeNoRowsAndGiveNoOrders(t *testing.T) {
	const foul = "x\tforged\ncells\r\x1b]0;title\x07\x1b[2J\u009b2J\u202e\u2028\xff"
	d := client.GroupDescription{Name: foul, Mode: wire.GroupManual}
	d.Members = slices.Grow(d.Members, 1)[:1]
	d.Members[0].Instance, d.Members[0].Client, d.Members[0].Topics = foul, foul, []string{foul}
	d.Table = slices.Grow(d.Table, 1)[:1]
	d.Table[0].Topic, d.Table[0].Instance = foul, foul
	d.Partitions = slices.Grow(d.Partitions, 1)[:1]
	d.Partitions[0].Topic, d.Partitions[0].Instance = foul, foul
	var text strings.Builder
	reportOf(&d).write(&text)
	const rows = 12 // three of the group, two and an empty line of each table
	if got := strings.Count(text.String(), "\n"); got != rows {
		t.Errorf("%d rows, expected %d:\n%q", got, rows, text.String())
	}
	for _, r := range text.String() {
		if r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
			t.Errorf("%U is shown", r)
		}
	}
	if got := dash("pump-7 größe 温"); got != "pump-7 größe 温" {
		t.Errorf("a name is shown as %q", got)
	}
}
