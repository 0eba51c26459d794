package history

import "testing"

// Each case is what was sent and heard, and what is wrong about it.
func TestCommits(t *testing.T) {
	for _, x := range []struct {
		name string
		want Kind
		do   func(c *Commits)
	}{
		{"a later commit may be lower", 0, func(c *Commits) { c.Sent(5); c.Acked(5); c.Sent(3); c.Acked(3); c.Read(c.Mark(), 3) }},
		{"one that was acknowledged is gone", Lost, func(c *Commits) { c.Sent(5); c.Acked(5); c.Read(c.Mark(), -1) }},
		{"the one before it is back", WentBack, func(c *Commits) { c.Sent(5); c.Acked(5); c.Sent(6); c.Acked(6); c.Read(c.Mark(), 5) }},
		{"asked before it was acknowledged", 0, func(c *Commits) { c.Sent(5); m := c.Mark(); c.Acked(5); c.Read(m, -1) }},
		{"two at once may take effect in any order", 0, func(c *Commits) { c.Sent(5); c.Sent(6); c.Acked(6); c.Acked(5); c.Read(c.Mark(), 6) }},
		{"one without an outcome may take effect late", 0, func(c *Commits) { c.Sent(5); c.Sent(6); c.Acked(6); c.Read(c.Mark(), 5) }},
		{"but not behind its life", WentBack, func(c *Commits) { c.Sent(5); c.Ended(); c.Sent(6); c.Acked(6); c.Read(c.Mark(), 5) }},
		{"nor twice", WentBack, func(c *Commits) { c.Sent(5); c.Read(c.Mark(), 5); c.Sent(6); c.Acked(6); c.Read(c.Mark(), 5) }},
		{"what was read stays", Lost, func(c *Commits) { c.Sent(5); c.Read(c.Mark(), 5); c.Read(c.Mark(), -1) }},
		{"nobody has sent it", Invented, func(c *Commits) { c.Sent(5); c.Read(c.Mark(), 4) }},
		{"it was refused", Invented, func(c *Commits) { c.Sent(5); c.Refused(5); c.Read(c.Mark(), 5) }},
		{"it was read and then refused", Invented, func(c *Commits) { c.Sent(5); c.Read(c.Mark(), 5); c.Refused(5) }},
		{"many", WentBack, func(c *Commits) {
			for v := range int64(1000) {
				c.Sent(v)
				c.Acked(v)
			}
			c.Read(c.Mark(), 990)
		}},
		{"it stays while many are refused", 0, func(c *Commits) {
			c.Sent(0)
			c.Acked(0)
			for v := range int64(1000) {
				c.Sent(1 + v)
				c.Refused(1 + v)
				c.Read(c.Mark(), 0)
			}
		}},
		{"and is missed when they are gone", Lost, func(c *Commits) {
			c.Sent(0)
			c.Acked(0)
			for v := range int64(1000) {
				c.Sent(1 + v)
				c.Refused(1 + v)
				c.Read(c.Mark(), 0)
			}
			c.Read(c.Mark(), -1)
		}},
	} {
		c := &Commits{}
		x.do(c)
		switch v := c.Violations(); {
		case x.want == 0 && len(v) > 0:
			t.Errorf("%s: %v", x.name, v)
		case x.want != 0 && (len(v) != 1 || v[0].Kind != x.want):
			t.Errorf("%s: %v, expected %v", x.name, v, x.want)
		}
	}
}
