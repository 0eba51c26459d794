package broker

import "github.com/mqd-broker/mqd/broker/group"

// maxGroupAnswers bounds what the answers about groups hold that have been made and not
// yet been taken by whoever asked, of the whole node, in bytes. A short request may have
// a long answer, such as a member's list of ten thousand partitions, and nothing else
// bounds how many of them are asked for at a time.
const maxGroupAnswers = 64 << 20

// lists reports whether the answer may be long.
func (r *Group) lists() bool {
	switch r.Kind {
	case GroupJoin, GroupHeartbeat, GroupOffsets, GroupDescribe:
		return true
	}
	return false
}

// crowded refuses a request whose answer may be long while as much is held as may be. It
// is asked before anything changes, so that a join that is refused has made no member.
func (c *coordinator) crowded(r *Group) bool {
	if !r.lists() || c.b.node.answers.Load() < maxGroupAnswers {
		return false
	}
	r.Code, r.Message = Busy, "too many long answers about groups are waiting to be sent"
	return true
}

// hold counts what an answer holds until the one who asked has taken it.
func (r *Group) hold(n int) {
	r.held += int64(n)
	r.origin.node.answers.Add(int64(n))
}

// letGo ends that.
func (r *Group) letGo() {
	r.origin.node.answers.Add(-r.held)
	r.held = 0
}

// describe fills in the description of a group, unless it would be longer than any
// answer can be.
func (c *coordinator) describe(r *Group, now int64) {
	n := c.state.DescribedSize(r.Name) + 2*c.classic.DescribedSize(string(r.Name))
	if n > maxGroupAnswers {
		r.Outcome = group.Limit
		return
	}
	r.Description, r.Outcome = c.state.Describe(now, r.Name)
	c.describeClassic(r, now)
	r.hold(n)
}

// offsets fills in what is committed for the partitions that are asked about. One may be
// named any number of times, so that the metadata are counted first.
func (c *coordinator) offsets(r *Group, now int64) {
	if len(r.Entries) == 0 {
		c.describe(r, now)
		return
	}
	n := 0
	for i := range r.Entries {
		o, _ := c.state.Committed(r.Name, r.Entries[i].Partition)
		n += len(o.Metadata)
	}
	if n > maxGroupAnswers {
		r.Outcome = group.Limit
		return
	}
	r.hold(n)
	for i := range r.Entries {
		e := &r.Entries[i]
		o, ok := c.state.Committed(r.Name, e.Partition)
		e.Code, e.Next, e.Epoch, e.Metadata, e.Committed = group.OK, -1, -1, e.Metadata[:0], -1
		if ok {
			e.Next, e.Epoch, e.Committed = o.Next, o.Epoch, o.Next
			e.Metadata = append(e.Metadata, o.Metadata...)
		}
	}
}

// assigned copies what a member may read.
func (r *Group) assigned(a group.Assignment) {
	r.Generation, r.Grants = a.Generation, append(r.Grants[:0], a.List...)
	r.hold(len(a.List) * group.GrantSize)
}
