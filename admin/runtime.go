package admin

import "runtime/metrics"

// goRuntime is what Go's runtime tells of itself. Reading it stops nothing.
type goRuntime struct{ goroutines, heap, memory, cycles float64 }

func readRuntime() *goRuntime {
	samples := []metrics.Sample{
		{Name: "/sched/goroutines:goroutines"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(samples)
	get := func(i int) float64 { return float64(samples[i].Value.Uint64()) }
	return &goRuntime{goroutines: get(0), heap: get(1), memory: get(2), cycles: get(3)}
}
