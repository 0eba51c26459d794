package sim

import "iter"

// coroutine does one piece of work after another, each in steps: the work runs while
// its user waits in resume, and its user while it waits in park. It keeps its stack
// from work to work.
type coroutine struct {
	work  func()
	next  func() (over, alive bool)
	yield func(over bool) bool
	stop  func()
}

func newCoroutine() *coroutine {
	c := &coroutine{}
	c.next, c.stop = iter.Pull(func(yield func(over bool) bool) {
		c.yield = yield
		for going := true; going; going = yield(true) {
			c.work()
			c.work = nil
		}
	})
	return c
}

// resume lets the work begin, or go on, until it parks or is over, which it reports.
func (c *coroutine) resume() (over bool) {
	over, _ = c.next()
	return over
}

// park is called by the work; it returns when the work is to go on.
func (c *coroutine) park() { c.yield(false) }

// employ gives work to a coroutine, which does nothing before it is resumed.
func (m *Memory) employ(work func()) *coroutine {
	n := len(m.idle)
	if n == 0 {
		c := newCoroutine()
		c.work = work
		return c
	}
	c := m.idle[n-1]
	m.idle = m.idle[:n-1]
	c.work = work
	return c
}

// dismiss takes a coroutine whose work is over.
func (m *Memory) dismiss(c *coroutine) {
	if m.shared {
		m.idle = append(m.idle, c)
	} else {
		c.stop()
	}
}
