package placement

import (
	"slices"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/engine/shard"
)

// cpus are 0 to n-1.
func cpus(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// cores gives n CPUs cores as kernels number them: siblings are half of n apart.
func cores(n, threads int) map[int]int {
	m := map[int]int{}
	for cpu := range n {
		m[cpu] = cpu % (n / threads)
	}
	return m
}

func TestShardsArePlaced(t *testing.T) {
	one := func(cpu int) []int { return []int{cpu} }
	for name, c := range map[string]struct {
		args     []string // name, text
		m        Machine
		shards   int
		cpus     []int
		idle     shard.IdleMode
		maxProcs int
		warnings int
	}{
		"two CPUs, the second has the interrupts": {
			m: Machine{Allowed: cpus(2), Core: cores(2, 1), Interrupt: 1}, shards: 1, cpus: one(1), maxProcs: 3},
		"two CPUs, the first has the interrupts": {
			m: Machine{Allowed: cpus(2), Core: cores(2, 1), Interrupt: 0}, shards: 1, cpus: one(0), maxProcs: 3},
		"two CPUs, nothing known": {
			m: Machine{Allowed: cpus(2), Interrupt: -1}, shards: 1, cpus: one(1), maxProcs: 3},
		"one CPU": {
			m: Machine{Allowed: cpus(1), Interrupt: 0}, shards: 1, maxProcs: 2},
		"eight CPUs leave the lowest": {
			m: Machine{Allowed: cpus(8), Core: cores(8, 1), Interrupt: -1}, shards: 7, cpus: []int{1, 2, 3, 4, 5, 6, 7}, maxProcs: 9},
		"eight CPUs begin at the interrupts": {
			m: Machine{Allowed: cpus(8), Core: cores(8, 1), Interrupt: 5}, shards: 7, cpus: []int{5, 1, 2, 3, 4, 6, 7}, maxProcs: 9},
		"four cores of two threads": {
			m: Machine{Allowed: cpus(8), Core: cores(8, 2), Interrupt: -1}, shards: 3, cpus: []int{4, 5, 6}, maxProcs: 9},
		"the sibling of the interrupts' CPU is no core of its own": {
			args: []string{"shard.count", "4"},
			m:    Machine{Allowed: cpus(8), Core: cores(8, 2), Interrupt: 2}, shards: 4, cpus: []int{2, 4, 5, 7}, maxProcs: 9},
		"siblings come last": {
			args: []string{"shard.count", "6"},
			m:    Machine{Allowed: cpus(8), Core: cores(8, 2), Interrupt: 2}, shards: 6, cpus: []int{2, 4, 5, 7, 0, 1}, maxProcs: 9},
		"an affinity mask is respected": {
			m: Machine{Allowed: []int{3, 9, 12}, Interrupt: 0}, shards: 2, cpus: []int{9, 12}, maxProcs: 4},
		"CPUs in the order that the operator gives": {
			args: []string{"shard.cpus", "5,1-2"},
			m:    Machine{Allowed: cpus(8), Interrupt: 2}, shards: 3, cpus: []int{5, 1, 2}, maxProcs: 9},
		"more shards than CPUs run, unpinned and blocking": {
			args: []string{"shard.count", "3"},
			m:    Machine{Allowed: cpus(2), Interrupt: 1}, shards: 3, idle: shard.IdleBlock, maxProcs: 4, warnings: 1},
		"more shards than CPUs, and polling is the operator's wish": {
			args: []string{"shard.count", "3", "shard.idle", "busy", "shard.pin", "on"},
			m:    Machine{Allowed: cpus(2), Interrupt: 1}, shards: 3, idle: shard.IdleBusy, maxProcs: 4, warnings: 3},
		"as many shards as CPUs are not pinned": {
			args: []string{"shard.count", "2"},
			m:    Machine{Allowed: cpus(2), Interrupt: 1}, shards: 2, maxProcs: 3},
		"unless the operator says so": {
			args: []string{"shard.count", "2", "shard.pin", "on"},
			m:    Machine{Allowed: cpus(2), Interrupt: 1}, shards: 2, cpus: []int{1, 0}, maxProcs: 3},
		"pinning can be turned off": {
			args: []string{"shard.pin", "off", "shard.idle", "block"},
			m:    Machine{Allowed: cpus(8), Interrupt: 1}, shards: 7, idle: shard.IdleBlock, maxProcs: 9},
		"a system that pins nothing": {
			m: Machine{Allowed: cpus(8), Interrupt: -1, Unpinned: true}, shards: 7, maxProcs: 9},
		"a system that pins nothing says so when it is asked to": {
			args: []string{"shard.pin", "on"},
			m:    Machine{Allowed: cpus(8), Interrupt: -1, Unpinned: true}, shards: 7, maxProcs: 9, warnings: 1},
		"a small container blocks": {
			m: Machine{Allowed: cpus(8), Interrupt: 1, Quota: 2}, shards: 1, idle: shard.IdleBlock, maxProcs: 3},
	} {
		p, err := Place(configure(t, c.args...), c.m)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.Shards != c.shards || !slices.Equal(p.CPUs, c.cpus) || p.Idle != c.idle || p.MaxProcs != c.maxProcs || len(p.Warnings) != c.warnings {
			t.Errorf("%s: %+v\nwant %+v", name, p, c)
		}
	}
}

func TestACPUThatIsNotAllowedIsNamed(t *testing.T) {
	_, err := Place(configure(t, "shard.cpus", "1,7"), Machine{Allowed: cpus(4), Interrupt: -1})
	if err == nil || !strings.Contains(err.Error(), "CPU 7") {
		t.Error(err)
	}
}

// configure is a configuration of pairs of names and texts.
func configure(t *testing.T, pairs ...string) *settings.Config {
	t.Helper()
	l := settings.Layer{}
	for i := 0; i < len(pairs); i += 2 {
		l[pairs[i]] = settings.Entry{Text: pairs[i+1], Where: "flag"}
	}
	c, err := settings.Merge(l)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
