package pace

import "math/rand/v2"

// Arrivals are the intended times of the groups of one connection, one after
// another, in nanoseconds after the start. They depend on nothing but the load.
type Arrivals struct {
	schedule Schedule
	next     int64 // group of the whole schedule
	step     int64 // connections
	at       int64 // when the next group is due

	// Of Poisson arrivals: random gaps of the given mean. Connections that draw
	// independently make a Poisson process together.
	random *rand.Rand
	mean   float64
	exact  float64
}

// New makes those of connection conn of so many.
func New(s Schedule, conn, conns int, seed uint64) *Arrivals {
	a := &Arrivals{schedule: s, next: int64(conn), step: int64(conns)}
	if s.Poisson {
		a.random = rand.New(rand.NewPCG(seed, uint64(conn)))
		a.mean = 1e9 * float64(s.Batch) * float64(conns) / float64(s.Rate)
		a.gap()
		return a
	}
	a.at = s.At(a.next)
	return a
}

// Due is when the next group is to be sent.
func (a *Arrivals) Due() int64 { return a.at }

// Advance goes on to the group after the next.
func (a *Arrivals) Advance() {
	if a.random != nil {
		a.gap()
		return
	}
	a.next += a.step
	a.at = a.schedule.At(a.next)
}

func (a *Arrivals) gap() {
	a.exact += a.random.ExpFloat64() * a.mean
	a.at = int64(a.exact)
}
