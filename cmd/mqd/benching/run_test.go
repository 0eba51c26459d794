package benching

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/net/wire"
)

func TestListsOfBenchRunAreCombined(t *testing.T) {
	f := &runFlags{
		classes: []string{"memory", "flushed"}, client: []string{"poll", "block"}, partitions: []int{1, 64},
		batch: []int{16}, depths: []int{4}, rates: []int64{0}, spread: "one", read: "after", repeat: 1,
	}
	loads, err := f.loads()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range loads {
		if l.BatchMessages != 16 || l.Depth != 4 || l.Spread != bench.One || l.Reading != bench.After || l.Warmup >= 0 {
			t.Errorf("%+v", l)
		}
		got = append(got, l.Class.String()+" "+l.Client.String()+" "+strings.Repeat("|", l.Partitions/64))
	}
	want := []string{
		"memory poll ", "memory block ", "memory poll |", "memory block |",
		"flushed poll ", "flushed block ", "flushed poll |", "flushed block |",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if loads[0].Class != wire.ClassMemory {
		t.Errorf("class %v", loads[0].Class)
	}
}

func TestBurstsAreReadFromTheCommandLine(t *testing.T) {
	got, err := parseBurst("50000/50ms/1s")
	if want := (bench.Burst{Messages: 50000, Length: 50 * time.Millisecond, Period: time.Second}); err != nil || got != want {
		t.Errorf("%+v, error %v", got, err)
	}
	for _, bad := range []string{"50000", "a/1s/1s", "1/x/1s", "1/1s/x", "1/1s/1s/1s"} {
		if _, err := parseBurst(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
