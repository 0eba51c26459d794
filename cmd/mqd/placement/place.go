package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/internal/quantity"
	"github.com/mqd-broker/mqd/node"
)

// Machine is what the placement of shards needs to know of the machine.
type Machine struct {
	// Allowed are the CPUs that this process may run on, ascending.
	Allowed []int
	// Core is the physical core of a CPU; CPUs that share one share execution
	// units. A CPU that is missing has a core of its own.
	Core map[int]int
	// Interrupt is the CPU that handles most interrupts of the data directory's
	// device, -1 where none stands out.
	Interrupt int
	// Quota is how many CPUs' time a control group allows, rounded up; 0 for no
	// limit below the number of CPUs.
	Quota int
	// Unpinned says that the system ties no thread to a CPU.
	Unpinned bool
}

// Placement is where the shards run.
type Placement struct {
	Shards   int
	CPUs     []int // one for each shard; none: not pinned
	Idle     shard.IdleMode
	MaxProcs int // for the Go scheduler
	Warnings []string
}

// Place decides how many shards there are, where they run and what they do when
// they are idle.
//
// The CPU that handles the data device's interrupts comes first: a durable write
// that completes there wakes its shard without a detour over another CPU (about
// 35 us). Then come CPUs on physical cores of their own, the lowest, which the
// system likes for its own work, last; then the rest. What no shard is pinned to
// is left for the Go scheduler, kernel workers and clients.
func Place(c *settings.Config, m Machine) (Placement, error) {
	usable := slices.Clone(m.Allowed)
	if len(c.CPUs) > 0 {
		for _, cpu := range c.CPUs {
			if !slices.Contains(m.Allowed, cpu) {
				return Placement{}, fmt.Errorf("shard.cpus: CPU %d is not among those that this process may run on: %v", cpu, m.Allowed)
			}
		}
		usable = c.CPUs
	} else {
		m.order(usable)
	}
	p := Placement{Shards: c.Shards}
	if p.Shards == 0 {
		p.Shards = m.defaultShards(c, usable)
	}
	p.Idle = idleModes[c.Idle]
	procs := len(m.Allowed)
	if m.Quota > 0 {
		procs = m.Quota
	}
	p.MaxProcs = max(procs, p.Shards) + 1
	tight := p.Shards >= procs
	switch {
	case c.Pin == settings.PinOff:
	case m.Unpinned:
		if c.Pin == settings.PinOn {
			p.warn("this system ties no thread to a CPU; the shards are not pinned")
		}
	case p.Shards > len(usable):
		if c.Pin == settings.PinOn {
			p.warn("%d shards cannot be pinned to %s; they are not pinned", p.Shards, quantity.Of(len(usable), "CPU", "CPUs"))
		}
	case c.Pin == settings.PinOn || !tight && m.Quota == 0:
		p.CPUs = usable[:p.Shards]
	}
	if p.Shards > procs {
		p.warn("%d shards on %s: they share CPUs, so expect latency of milliseconds", p.Shards, quantity.Of(procs, "CPU", "CPUs"))
	}
	// A loop that polls takes the time of others when there is not a CPU each.
	if p.Shards > procs || m.Quota > 0 {
		if !c.IsSet(settings.Idle) {
			p.Idle = shard.IdleBlock
		} else if p.Idle != shard.IdleBlock {
			p.warn("shards share CPUs and poll when idle (--idle=%s); --idle=block would leave more for the others", c.Idle)
		}
	}
	return p, nil
}

// idleModes are the words of the setting shard.idle.
var idleModes = map[string]shard.IdleMode{
	settings.IdleAdaptive: shard.IdleAdaptive,
	settings.IdleBusy:     shard.IdleBusy,
	settings.IdleBlock:    shard.IdleBlock,
}

func (p *Placement) warn(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

// defaultShards is one for each physical core but one, which is for everything
// else; where an operator has named the CPUs for shards, it is one for each.
func (m Machine) defaultShards(c *settings.Config, usable []int) int {
	n := len(usable)
	if len(c.CPUs) == 0 {
		cores := map[int]bool{}
		for _, cpu := range usable {
			cores[m.core(cpu)] = true
		}
		n = len(cores) - 1
	}
	if m.Quota > 0 {
		n = min(n, m.Quota-1)
	}
	return min(max(n, 1), node.MaxShards)
}

// core is the physical core of a CPU.
func (m Machine) core(cpu int) int {
	if core, known := m.Core[cpu]; known {
		return core
	}
	return -1 - cpu
}

// order sorts CPUs by how well a shard runs there, best first.
func (m Machine) order(cpus []int) {
	const (
		interrupt = iota // of the data device
		ownCore
		lowest
		sibling
	)
	rank, taken := map[int]int{}, map[int]bool{}
	if slices.Contains(cpus, m.Interrupt) {
		rank[m.Interrupt], taken[m.core(m.Interrupt)] = interrupt, true
	}
	slices.Sort(cpus)
	// From the top, so that of the lowest CPU's core another one is taken.
	for _, cpu := range slices.Backward(cpus) {
		switch core := m.core(cpu); {
		case cpu == m.Interrupt:
		case taken[core]:
			rank[cpu] = sibling
		default:
			rank[cpu], taken[core] = ownCore, true
		}
	}
	if first := cpus[0]; rank[first] == ownCore {
		rank[first] = lowest
	}
	slices.SortStableFunc(cpus, func(a, b int) int { return cmp.Compare(rank[a], rank[b]) })
}
