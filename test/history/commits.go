package history

import "fmt"

// Commits is what is committed under one name in which every commit may take the place of any
// other, as Kafka's clients commit for a group and a partition. Each commit has a value of its
// own. A commit takes effect once, between its sending and the end that is known of it, and
// what was acknowledged or read stays until another takes its place.
type Commits struct {
	clock      int64
	list       []commit // in the order in which they were sent
	violations []Violation
}

// commit is one commit, by moments of the clock.
type commit struct {
	value    int64
	sent     int64
	applied  int64 // it has taken effect by then; never
	last     int64 // it cannot take effect any more behind that; never
	rejected bool
}

const never = 1<<63 - 1

// now is the next moment.
func (c *Commits) now() int64 {
	c.clock++
	return c.clock
}

// Sent notes that a commit of a value, which no other has, was sent.
func (c *Commits) Sent(value int64) {
	c.list = append(c.list, commit{value: value, sent: c.now(), applied: never, last: never})
}

func (c *Commits) find(value int64) *commit {
	for i := len(c.list) - 1; i >= 0; i-- {
		if c.list[i].value == value {
			return &c.list[i]
		}
	}
	return nil
}

// Acked notes that a commit was acknowledged.
func (c *Commits) Acked(value int64) { c.settle(value, false) }

// Refused notes that a commit was refused, so that it has no effect.
func (c *Commits) Refused(value int64) { c.settle(value, true) }

func (c *Commits) settle(value int64, rejected bool) {
	k := c.find(value)
	switch {
	case k == nil:
		c.violate(Misused, "an outcome of %d, which nobody has committed", value)
	case rejected && k.applied != never:
		c.violate(Invented, "%d was refused, and had been read", value)
	case rejected:
		k.rejected = true
	default:
		k.applied = min(k.applied, c.now())
		k.last = min(k.last, c.clock)
		c.forget()
	}
}

// Ended notes that commits without an outcome cannot take effect any more, because the life
// of the broker has ended.
func (c *Commits) Ended() {
	now := c.now()
	for i := range c.list {
		c.list[i].last = min(c.list[i].last, now)
	}
}

// Mark is the moment of a request that is about to be sent.
func (c *Commits) Mark() int64 { return c.now() }

// Read notes the answer to a request that was sent at a mark; -1 stands for nothing.
func (c *Commits) Read(mark, value int64) {
	k := c.find(value)
	by := c.overwriter(k, mark)
	switch {
	case k == nil && value != -1:
		c.violate(Invented, "%d is committed, and nobody has", value)
	case k != nil && k.rejected:
		c.violate(Invented, "%d is committed, and was refused", value)
	case by != nil && k == nil:
		c.violate(Lost, "nothing is committed, and %d was", by.value)
	case by != nil:
		c.violate(WentBack, "%d is committed, and %d was behind it", value, by.value)
	case k != nil:
		k.applied = min(k.applied, c.now())
		k.last = min(k.last, c.clock)
		c.forget()
	}
}

// overwriter is a commit that had taken the place of k before a mark, or of nothing.
func (c *Commits) overwriter(k *commit, mark int64) *commit {
	for i := range c.list {
		o := &c.list[i]
		if !o.rejected && o.applied < mark && (k == nil || o.sent > k.last) {
			return o
		}
	}
	return nil
}

// forget drops the commits that nobody can read any more, but for those who have asked: what
// was refused, and what another has taken the place of. That is not what is committed,
// however many have been refused since.
func (c *Commits) forget() {
	const kept = 64
	n := len(c.list) - kept
	if n <= kept {
		return
	}
	newest := int64(0) // sending of the newest that has taken effect
	for i := range c.list {
		if k := &c.list[i]; !k.rejected && k.applied != never {
			newest = k.sent
		}
	}
	rest := c.list[:0]
	for i, k := range c.list {
		if i >= n || !k.rejected && k.last > newest {
			rest = append(rest, k)
		}
	}
	c.list = rest
}

// Violations are the breaches so far.
func (c *Commits) Violations() []Violation { return c.violations }

func (c *Commits) violate(k Kind, format string, args ...any) {
	if len(c.violations) < maxViolations {
		c.violations = append(c.violations, Violation{Kind: k, Text: fmt.Sprintf(format, args...)})
	}
}
