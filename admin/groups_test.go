package admin

import (
	"context"
	"testing"

	"github.com/mqd-broker/mqd/client"
)

// Groups are told of with their lag, and where nothing is known nothing is told.
func TestGroupsAreServed(t *testing.T) {
	r := newRig(t)
	r.start()
	var none groupsJSON
	if r.decode(PathGroups, &none); len(none.Groups) != 0 || none.LeftOut != 0 {
		t.Fatalf("before there is a group: %+v", none)
	}
	r.produce("t", 2, "one")
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	c := r.dial()
	moves, err := c.Admin().PlanReset(ctx, "g", "t", client.ToStart())
	if err == nil {
		err = c.Admin().ResetOffsets(ctx, "g", moves)
	}
	if err != nil {
		t.Fatal(err)
	}
	co, err := c.Consumer(client.Group("h"), client.Topics("t"), client.From(client.Start()), client.WithAutoCommit(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	b, err := co.Poll(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	b.Release()
	var all groupsJSON
	r.decode(PathGroups, &all)
	if len(all.Groups) != 2 || all.LeftOut != 0 {
		t.Fatalf("%+v", all)
	}
	g, h := all.Groups[0], all.Groups[1]
	if g.Name != "g" || g.State != "empty" || g.Members != 0 || len(g.Partitions) != 2 || h.Name != "h" || h.State != "stable" || h.Members != 1 || len(h.Partitions) != 1 {
		t.Fatalf("%+v", all)
	}
	for i, want := range []struct {
		p         groupPartJSON
		committed int64
		end, lag  int64
	}{{g.Partitions[0], 0, 1, 1}, {g.Partitions[1], 0, 0, 0}, {h.Partitions[0], 1, 1, 0}} {
		p := want.p
		if p.Topic != "t" || p.Committed != want.committed || p.Start == nil || *p.Start != 0 || p.End == nil || *p.End != want.end ||
			p.Lag == nil || *p.Lag != want.lag || p.LagSeconds == nil || *p.LagSeconds != 0 {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
	m := r.scrape(PathMetrics)
	for series, want := range map[string]float64{
		`mqd_group_members{group="h"}`: 1, `mqd_group_members{group="g"}`: 0, `mqd_group_state{group="g",state="empty"}`: 1,
		`mqd_group_state{group="h",state="empty"}`: 0, `mqd_group_lag_records{group="g",topic="t",partition="0"}`: 1,
		`mqd_group_lag_records{group="h",topic="t",partition="0"}`: 0, `mqd_group_lag_seconds{group="g",topic="t",partition="0"}`: 0,
		"mqd_groups_left_out": 0,
	} {
		if got, ok := m.values[series]; !ok || got != want {
			t.Errorf("%s is %v (%v), expected %v", series, got, ok, want)
		}
	}
	if got := m.values[`mqd_group_generation{group="h"}`]; got != float64(h.Generation) || got < 1 {
		t.Errorf("generation %v, expected %d", got, h.Generation)
	}
	for series := range r.scrape(PathPublicMetrics).values {
		if len(series) > 9 && series[:9] == "mqd_group" {
			t.Errorf("%s is public", series)
		}
	}
}

// More than the limit is left out, and counted.
func TestGroupsBeyondTheLimitAreLeftOut(t *testing.T) {
	r := newRig(t)
	r.start()
	r.produce("t", 4, "one")
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	c := r.dial()
	for _, name := range []string{"a", "b", "c"} {
		moves, err := c.Admin().PlanReset(ctx, name, "t", client.ToStart())
		if err == nil {
			err = c.Admin().ResetOffsets(ctx, name, moves)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n := r.service.Condition().Node
	list, out := n.GroupFigures(ctx, 11)
	if len(list) != 2 || out != 5 || list[1].Name != "b" || len(list[1].Partitions) != 4 {
		t.Fatalf("%d groups, %d left out: %+v", len(list), out, list)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if list, _ := n.GroupFigures(gone, 100); len(list) > 3 {
		t.Fatalf("%d groups told to nobody", len(list))
	}
}
