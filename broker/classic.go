package broker

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
)

// Members that divide the work among themselves stand beside the groups: a coordinator has
// a state of their own for them, of which the groups keep the last stable generation. Their
// calls are answered when it is their time: joins and syncs when what is kept is durable, and
// commits as everybody's.

// callClassic carries out the call of a request.
func (c *coordinator) callClassic(r *Group) {
	k := &r.Call
	k.Owner, k.Group = r, string(r.Name)
	if k.Kind == classic.Join {
		if r.Outcome = c.state.MayOccupy(r.Name); r.Outcome != group.OK {
			c.b.answerGroup(r)
			return
		}
		if k.ID = ""; k.Member == "" {
			k.ID = c.newID(k.Client)
		}
	}
	c.classic.Take(c.b.loop.Now(), k)
	if k.Kind == classic.Commit && k.Generation >= 0 && k.Code == classic.UnknownMember && !c.state.Known(r.Name) {
		k.Code = classic.IllegalGeneration // of a group that nobody has heard of
	}
	c.tellClassic()
}

// readers tells of a partition whether a member reads its topic, as far as they say so; nil
// where they do not.
func (c *coordinator) readers(name string) func(p group.Partition) bool {
	topics, known := c.classic.Subscribed(name)
	if !known {
		return nil
	}
	return func(p group.Partition) bool {
		t := c.b.Image().ByID(p.Topic)
		return t != nil && topics[t.Name]
	}
}

// newID makes the id of a member, which begins with the id of its client.
func (c *coordinator) newID(client string) string {
	var id group.MemberID
	binary.BigEndian.PutUint64(id[:8], c.b.drv.Rand())
	binary.BigEndian.PutUint64(id[8:], c.b.drv.Rand())
	return client + "-" + hex.EncodeToString(id[:])
}

// numberOf is the random part of a member's id.
func numberOf(id string) (n group.MemberID) {
	_, _ = hex.Decode(n[:], []byte(id[max(0, len(id)-2*len(n)):]))
	return n
}

// tellClassic answers what has been answered, and tells the groups how many of their
// members are kept here. A commit that may be made is made, and answered by the log. What
// members are told of a generation, and of who has whose place, waits for the log too: a
// start would take it back, and let those go on whom it has fenced.
func (c *coordinator) tellClassic() {
	now := c.b.loop.Now()
	c.classic.Changed(func(name string, members int) { c.state.Occupy(now, []byte(name), members) })
	c.classic.Keep(func(name string, kept []byte) { c.state.Keep([]byte(name), kept) })
	for _, k := range c.classic.Answered() {
		r := k.Owner.(*Group)
		r.wait.msg.body = r
		c.told.push(&r.wait)
	}
	// An answer may bring the next call with it, inside this one.
	for !c.told.empty() {
		r := c.told.pop().msg.body.(*Group)
		ok := r.Call.Code == classic.OK
		switch kind := r.Call.Kind; {
		case ok && kind == classic.Commit:
			c.commitClassic(r)
		case ok && (kind == classic.Join || kind == classic.Sync):
			c.answerLater(r)
		default:
			c.b.answerGroup(r)
		}
	}
}

// commitClassic commits for a member that may.
func (c *coordinator) commitClassic(r *Group) {
	c.commit = group.Commit{Group: r.Name, Anywhere: true, Other: r.Call.Generation >= 0, Entries: r.Entries}
	r.Outcome = c.state.Commit(c.b.loop.Now(), c.wall(), &c.commit)
	c.commit = group.Commit{}
	c.answerLater(r)
}

// turnClassic lets time act on the members, and returns when it will next, -1 for never.
func (c *coordinator) turnClassic() int64 {
	if now := c.b.loop.Now(); c.classic.Next() >= 0 && now >= c.classic.Next() {
		c.classic.Tick(now)
		c.tellClassic()
	}
	return c.classic.Next()
}

// occupy tells a state that was read of the members. The first one tells who they are,
// which a start has forgotten; later ones may have what was kept before an append was
// refused.
func (c *coordinator) occupy() {
	now, first := c.b.loop.Now(), !c.restored
	c.restored = true
	var old []string
	c.state.EachKept(func(name string, kept []byte) {
		if first && c.state.MayOccupy([]byte(name)) == group.OK {
			if err := c.classic.Restore(now, name, kept); err != nil {
				c.b.node.opts.Events.GroupsDamaged(c.number, err)
			}
		}
		if !c.classic.Has(name) {
			old = append(old, name)
		}
	})
	for _, name := range old {
		c.state.Keep([]byte(name), nil)
	}
	c.classic.Each(func(name string, members int) { c.state.Occupy(now, []byte(name), members) })
	c.classic.KeepAll()
	c.tellClassic()
}

// closeClassic ends all memberships, because the node ends or the coordinator cannot go
// on.
func (c *coordinator) closeClassic() {
	c.classic.Close()
	for _, k := range c.classic.Answered() {
		c.b.answerGroup(k.Owner.(*Group))
	}
}

// describeClassic adds the members to the description of a group, both as they are and as
// those who know nothing of them can show them.
func (c *coordinator) describeClassic(r *Group, now int64) {
	d, ok := c.classic.Describe(now, string(r.Name))
	if !ok {
		return
	}
	r.Classic = d
	r.Description.Generation = d.Generation
	for i := range d.Members {
		m := &d.Members[i]
		r.Description.Members = append(r.Description.Members, group.MemberInfo{
			ID: numberOf(m.ID), Instance: m.Instance, Client: m.Client, Session: m.Session, Silent: m.Silent, Generation: d.Generation,
		})
	}
}
