package broker

import (
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/engine"
)

// GroupsTopic is the internal topic in which groups live, GroupsName its name.
var GroupsTopic = TopicID{15: 2}

// GroupsName is the name of the internal topic in which groups live.
const GroupsName = catalog.InternalPrefix + "groups"

// groupBatchBytes bounds a batch of the internal topic, beside [Options.MaxBatch].
const groupBatchBytes = 512 << 10

// GroupKind says what a [Group] asks for.
type GroupKind uint8

const (
	// GroupCommit commits Entries for member Member, or for nobody.
	GroupCommit GroupKind = iota + 1
	// GroupOffsets fills in what is committed for the partitions of Entries, or
	// describes all offsets where there are none.
	GroupOffsets
	// GroupJoin makes a member by Join, whose Group and ID are filled in.
	GroupJoin
	// GroupHeartbeat tells that Member works by the list of Generation. The answer comes
	// when that is not its list any more, or after Wait.
	GroupHeartbeat
	// GroupLeave ends the membership of Member.
	GroupLeave
	// GroupAssign gives the partitions of Entries to Instance, or to nobody.
	GroupAssign
	// GroupReset commits Entries on the order of an administrator.
	GroupReset
	// GroupForget takes what is committed for the partitions of Entries away.
	GroupForget
	// GroupDelete deletes a group without members.
	GroupDelete
	// GroupDescribe describes a group.
	GroupDescribe
	// GroupList lists all groups.
	GroupList
	// GroupClassic carries out Call, of which Group, ID and Owner are filled in. A commit
	// that may be made commits Entries, wherever they lie: below what is committed, too.
	GroupClassic
)

// Group is a request about one consumer group, or for the list of all. The caller owns
// and pools it; it belongs to the broker from [Shard.Group] until GroupDone. A commit
// that a group has made before for the same partitions allocates nothing.
type Group struct {
	// Request.

	Kind GroupKind
	// Name is the group's.
	Name []byte
	// Member and Generation are those of the member that asks; after a join, of the one
	// that was made.
	Member     group.MemberID
	Generation int32
	// Entries are the partitions that it is about, with the outcome of each.
	Entries []group.Entry
	// Join is of GroupJoin.
	Join group.Join
	// Call is of GroupClassic; its code says more than Outcome where that is OK.
	Call classic.Call
	// Instance is of GroupAssign.
	Instance string
	// Wait is how long the answer to a heartbeat may be held back, in nanoseconds, at
	// most [MaxHeartbeatWait].
	Wait  int64
	Owner GroupOwner

	// Result.

	Code Code
	// Outcome is what the group says; OK where Code is not.
	Outcome group.Code
	// Message says more for people; mostly empty.
	Message string
	// Grants are what the member may read, by partition; of GroupJoin and
	// GroupHeartbeat. Generation is that of the list.
	Grants []group.Grant
	// Description is of GroupDescribe, and of GroupOffsets without Entries.
	Description group.Description
	// Classic are the members of the described group that came by Call, if it has such;
	// they are in Description, too.
	Classic classic.Description
	// Listed are all groups, in no order; of GroupList.
	Listed []group.Summary
	// ListedClassic are those of them whose members came by Call.
	ListedClassic []classic.Summary

	groupState
}

// GroupOwner is told of the outcome, on the loop of the shard that was asked, possibly
// inside [Shard.Group].
type GroupOwner interface {
	GroupDone(r *Group)
}

// groupState is the broker's part of a Group.
type groupState struct {
	origin *Shard
	number uint32   // partition of the internal topic
	visits shardSet // shards that have something to say before the group has
	until  int64    // loop time until which a heartbeat waits
	member *group.Member
	held   int64 // bytes of the answer that the node counts
	wait   waiter
}

// Group asks for something about a group. r.Owner hears of the outcome once.
func (b *Shard) Group(r *Group) {
	r.Code, r.Outcome, r.Message, r.Grants, r.Listed = OK, group.OK, "", r.Grants[:0], r.Listed[:0]
	r.Classic, r.ListedClassic = classic.Description{}, nil
	r.origin, r.member = b, nil
	b.inFlight++
	if b.node.quiesced.Load() {
		r.Code = ShuttingDown
		b.groupDone(r)
		return
	}
	t := b.Image().ByID(GroupsTopic)
	switch {
	case t != nil:
		b.routeGroup(r, t)
	case r.makes():
		b.groupless.push(&r.wait)
		r.wait.msg.body = r
		b.makeGroups()
	default:
		r.nobody()
		b.groupDone(r)
	}
}

// makes reports whether the request can make a group.
func (r *Group) makes() bool {
	switch r.Kind {
	case GroupCommit, GroupJoin, GroupAssign, GroupReset:
		return true
	case GroupClassic:
		return r.Call.Kind == classic.Join || r.Call.Kind == classic.Commit && r.Call.Generation < 0
	}
	return false
}

// nobody answers a request where there has never been a group.
func (r *Group) nobody() {
	switch r.Kind {
	case GroupList:
	case GroupClassic:
		r.Call.Nobody()
	default:
		r.Outcome = group.Unknown
	}
}

// routeGroup sends a request on its way: to the shards that own its partitions, which
// look at its offsets, then to the one that keeps the group.
func (b *Shard) routeGroup(r *Group, t *catalog.Topic) {
	r.visits = shardSet{}
	switch r.Kind {
	case GroupCommit, GroupReset:
		for i := range r.Entries {
			e := &r.Entries[i]
			e.Code = group.OK
			r.visits = r.visits.With(b.node.ShardOf(e.Topic, e.Number))
		}
	}
	if r.number = 0; r.Kind != GroupList { // which asks all, one after the other
		r.number = group.PartitionOf(r.Name, t.Partitions)
	}
	b.forwardGroup(r)
}

// forwardGroup sends a request to where it has to go next.
func (b *Shard) forwardGroup(r *Group) {
	m := Message{kind: msgGroup, body: r}
	switch {
	case !r.visits.Empty():
		to, _ := r.visits.Next()
		b.post(to, m, &r.wait)
	default:
		b.post(b.node.ShardOf(GroupsTopic, int32(r.number)), m, &r.wait)
	}
}

// groupArrived does this shard's part of a request.
func (b *Shard) groupArrived(r *Group) {
	if to, rest := r.visits.Next(); !r.visits.Empty() {
		if to != b.id {
			violated("a group's request visits the shards that it has to")
		}
		r.visits = rest
		b.checkOffsets(r)
		b.forwardGroup(r)
		return
	}
	b.coordinator(r.number).admit(r)
}

// checkOffsets judges offsets to be committed by the logs of this shard: one behind the
// end is refused, one below the start is raised to it.
func (b *Shard) checkOffsets(r *Group) {
	for i := range r.Entries {
		e := &r.Entries[i]
		if b.node.ShardOf(e.Topic, e.Number) != b.id {
			continue
		}
		if _, code := b.node.lookup(e.Topic, e.Number); code != OK {
			e.Code = group.Invalid
			continue
		}
		var start, end int64
		if p := b.store.Partition(engine.Key{Topic: e.Topic, Partition: uint32(e.Number)}); p != nil {
			start, end = p.LogStart(), p.Durable()
		}
		switch {
		case e.Next > end:
			e.Code = group.Beyond
		case e.Next >= 0 && e.Next < start:
			e.Code, e.Next = group.Raised, start
		}
	}
}

// list adds the groups of this partition, and reports whether the next one is asked.
func (c *coordinator) list(r *Group) bool {
	r.Listed, r.ListedClassic = c.state.List(r.Listed), c.classic.List(r.ListedClassic)
	if r.number++; r.number >= c.b.Image().ByID(GroupsTopic).Partitions {
		return false
	}
	c.b.forwardGroup(r)
	return true
}

// answerGroup sends a request back to the shard that was asked.
func (b *Shard) answerGroup(r *Group) {
	b.post(r.origin.id, Message{kind: msgGroupDone, body: r}, &r.wait)
}

// groupDone tells the owner, on the shard that was asked.
func (b *Shard) groupDone(r *Group) {
	b.inFlight--
	r.member = nil
	r.letGo()
	r.Owner.GroupDone(r)
}

// makeGroups has the internal topic made, once.
func (b *Shard) makeGroups() {
	if b.making {
		return
	}
	b.making = true
	b.Admin(&Admin{Kind: CreateTopic, Name: GroupsName, Partitions: b.node.opts.GroupPartitions, Owner: (*groupsMade)(b), adminState: adminState{internal: true}})
}

// groupsMade is a shard as the owner of the creation of the internal topic.
type groupsMade Shard

// AdminDone sends on what has waited for the topic.
func (o *groupsMade) AdminDone(a *Admin) {
	b := (*Shard)(o)
	b.making = false
	t := b.Image().ByID(GroupsTopic)
	for !b.groupless.empty() {
		r := b.groupless.pop().msg.body.(*Group)
		if t != nil {
			b.routeGroup(r, t)
			continue
		}
		r.Code, r.Message = a.Code, a.Message
		b.groupDone(r)
	}
}

// groupTopics are the topics as groups see them.
type groupTopics struct{ node *Node }

// ByName implements group.Topics.
func (g groupTopics) ByName(name string) (group.TopicID, int32, bool) {
	if t := g.node.Image().ByName(name); t != nil && !t.Internal() {
		return t.ID, int32(t.Partitions), true
	}
	return group.TopicID{}, 0, false
}

// Has implements group.Topics.
func (g groupTopics) Has(p group.Partition) bool {
	t := g.node.Image().ByID(p.Topic)
	return t != nil && !t.Internal() && p.Number >= 0 && uint32(p.Number) < t.Partitions
}
