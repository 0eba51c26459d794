package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Choice is where shards should run.
type Choice struct {
	// Shards are CPUs for shards, one on a core, the best one first.
	Shards []int `json:"shard_cpus"`
	// Others are CPUs for everything else: Go's scheduler and collector, kernel workers,
	// interrupts.
	Others []int `json:"other_cpus"`
	// Reasons say why.
	Reasons []string `json:"reasons"`
}

// Choose takes CPUs for shards: one thread of each core, on the NUMA node of the drive
// that holds the data, but for the first core there, which is left for everything else.
// When CPUs have been isolated, shards go there and nowhere else. The same cores' other
// threads stay empty: two loops that poll on one core slow each other down.
func Choose(m *Machine) Choice {
	node := m.home()
	var candidates []CPU
	for _, c := range m.CPUs {
		if (node == NoNode || c.Node == node) && (len(m.Isolated) == 0 || slices.Contains(m.Isolated, c.Number)) {
			candidates = append(candidates, c)
		}
	}
	var ch Choice
	if node != NoNode && len(m.Nodes) > 1 {
		ch.say("NUMA node %d has the drive that holds the data", node)
	}
	if len(candidates) == 0 && len(m.Isolated) > 0 {
		ch.say("the isolated CPUs %s are on another node than the drive", List(m.Isolated))
		for _, c := range m.CPUs {
			if slices.Contains(m.Isolated, c.Number) {
				candidates = append(candidates, c)
			}
		}
	}
	ch.Shards = onePerCore(candidates)
	switch {
	case len(m.Isolated) > 0:
		ch.say("the scheduler leaves CPUs %s alone", List(m.Isolated))
	case len(ch.Shards) > 1:
		ch.say("CPU %d's core stays free for everything else", ch.Shards[0])
		ch.Shards = ch.Shards[1:]
	}
	if threads := len(m.CPUs); m.Cores() < threads {
		ch.say("one thread of each core: %d CPUs are %d cores", threads, m.Cores())
	}
	for _, c := range m.CPUs {
		if !slices.Contains(ch.Shards, c.Number) {
			ch.Others = append(ch.Others, c.Number)
		}
	}
	for _, n := range m.NICs {
		if n.Up && n.Node != NoNode && node != NoNode && n.Node != node && len(m.Nodes) > 1 {
			ch.say("%s is on node %d: its packets cross to node %d; a card in a slot of that node would save that", n.Name, n.Node, node)
		}
	}
	return ch
}

func (c *Choice) say(format string, args ...any) {
	c.Reasons = append(c.Reasons, fmt.Sprintf(format, args...))
}

// home is the node of the data's drive.
func (m *Machine) home() int {
	for _, d := range m.DataDrives() {
		if d.Node != NoNode {
			return d.Node
		}
	}
	return NoNode
}

// onePerCore keeps the first thread of each core.
func onePerCore(cpus []CPU) []int {
	slices.SortFunc(cpus, func(a, b CPU) int { return cmp.Compare(a.Number, b.Number) })
	taken := map[[2]int]bool{}
	var all []int
	for _, c := range cpus {
		if core := [2]int{c.Package, c.Core}; !taken[core] {
			taken[core] = true
			all = append(all, c.Number)
		}
	}
	return all
}

// List writes numbers as the kernel and --cpus do: "0-3,8".
func List(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
