package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/broker/lag"
	"github.com/mqd-broker/mqd/engine/shard"
)

// GroupState says in a word how a consumer group is.
type GroupState uint8

const (
	// GroupEmpty has no members.
	GroupEmpty GroupState = iota
	// GroupStable has members, and each has what it is to read.
	GroupStable
	// GroupMoving has a member that has still to give partitions up.
	GroupMoving
	// GroupWaiting has partitions that wait for an instance which is away.
	GroupWaiting
	groupStates // their number
)

var groupStateNames = [groupStates]string{"empty", "stable", "moving", "waiting"}

// String is the state's name.
func (s GroupState) String() string { return groupStateNames[s] }

// GroupStates are all states.
func GroupStates() []GroupState {
	return []GroupState{GroupEmpty, GroupStable, GroupMoving, GroupWaiting}
}

// GroupFigures are those of a consumer group.
type GroupFigures struct {
	Name       string
	Mode       string
	State      GroupState
	Generation int32
	Members    int
	// Partitions are those for which something is committed, by topic and number.
	Partitions []GroupPartition
}

// GroupPartition is what a group has committed for a partition, and how far it is behind.
type GroupPartition struct {
	Topic string // its name
	lag.Row
}

// GroupFigures describes consumer groups in the order of their names, with up to limit
// groups and partitions of all together. It returns how many groups and partitions were
// left out: for the limit, or because shards have not told of them when ctx or the node
// ends. Of each partition a page of the log may have to be read.
func (n *Node) GroupFigures(ctx context.Context, limit int) (all []GroupFigures, leftOut int) {
	list := &groupQuestion{s: n.shards[0], done: make(chan struct{})}
	list.r.Kind = broker.GroupList
	if !n.ask(ctx, list) || list.r.Code != broker.OK {
		return nil, 0
	}
	listed := list.r.Listed
	slices.SortFunc(listed, func(a, b group.Summary) int { return strings.Compare(a.Name, b.Name) })
	told := true
	for i := range listed {
		g := &listed[i]
		if cost := 1 + g.Offsets; !told || cost > limit {
			leftOut += cost
			continue
		}
		f, err := n.groupFigures(ctx, g.Name)
		switch told = err != errNotTold; err {
		case nil:
			limit -= 1 + len(f.Partitions)
			all = append(all, f)
		case errNoGroup: // it has been deleted meanwhile
		default:
			leftOut += 1 + g.Offsets
		}
	}
	return all, leftOut
}

// Why a group is not described.
var (
	errNotTold = errors.New("no answer in time")
	errNoGroup = errors.New("no such group")
	errRefused = errors.New("refused")
)

// groupFigures are those of one group.
func (n *Node) groupFigures(ctx context.Context, name string) (GroupFigures, error) {
	q := &groupQuestion{s: n.shards[0], done: make(chan struct{})}
	q.r.Kind, q.r.Name = broker.GroupDescribe, []byte(name)
	switch {
	case !n.ask(ctx, q):
		return GroupFigures{}, errNotTold
	case q.r.Outcome == group.Unknown:
		return GroupFigures{}, errNoGroup
	case q.r.Code != broker.OK || q.r.Outcome != group.OK:
		return GroupFigures{}, errRefused
	}
	d := &q.r.Description
	f := GroupFigures{Name: name, Mode: d.Mode.String(), State: stateOf(d), Generation: d.Generation, Members: len(d.Members)}
	look := &lagQuestion{s: n.shards[0], done: make(chan struct{})}
	image := n.broker.Image()
	for i := range d.Offsets {
		o := &d.Offsets[i]
		if t := image.ByID(o.Topic); t != nil {
			look.rows = append(look.rows, lag.Row{Topic: o.Topic, Partition: o.Number, Next: o.Next})
			f.Partitions = append(f.Partitions, GroupPartition{Topic: t.Name})
		}
	}
	if len(look.rows) == 0 {
		return f, nil
	}
	if !n.post(look.s, look) || !n.answered(ctx, look.done) {
		look.over.Store(true)
		return f, errNotTold
	}
	for i := range f.Partitions {
		f.Partitions[i].Row = look.rows[i]
	}
	slices.SortStableFunc(f.Partitions, func(a, b GroupPartition) int { return strings.Compare(a.Topic, b.Topic) })
	return f, nil
}

func stateOf(d *group.Description) GroupState {
	if len(d.Members) == 0 {
		return GroupEmpty
	}
	for i := range d.Members {
		if len(d.Members[i].Leaving) > 0 {
			return GroupMoving
		}
	}
	for i := range d.Table {
		if d.Table[i].Away {
			return GroupWaiting
		}
	}
	return GroupStable
}

// ask has a question about groups answered, and reports whether it was.
func (n *Node) ask(ctx context.Context, q *groupQuestion) bool {
	return n.post(q.s, q) && n.answered(ctx, q.done)
}

// groupQuestion has a shard's broker asked about groups.
type groupQuestion struct {
	s    *member
	r    broker.Group
	done chan struct{}
}

// RunOn implements shard.Task.
func (q *groupQuestion) RunOn(*shard.Loop) {
	q.r.Owner = q
	q.s.broker.Group(&q.r)
}

// GroupDone implements broker.GroupOwner.
func (q *groupQuestion) GroupDone(*broker.Group) { close(q.done) }

// lagQuestion has a shard's broker asked how far a group is behind.
type lagQuestion struct {
	s     *member
	rows  []lag.Row
	look  lag.Look
	timer shard.Timer
	over  atomic.Bool // nobody waits for the answer
	done  chan struct{}
}

// RunOn implements shard.Task.
func (q *lagQuestion) RunOn(*shard.Loop) {
	q.timer.Owner = q
	q.look.Begin(q.s.broker, q.rows, q)
}

// Pause implements lag.Host.
func (q *lagQuestion) Pause(*lag.Look) { q.s.loop.Arm(&q.timer, q.s.loop.Now()) }

// Fire goes on.
func (q *lagQuestion) Fire(*shard.Timer, int64) { q.look.Go() }

// Over implements lag.Host.
func (q *lagQuestion) Over() bool { return q.over.Load() }

// Looked implements lag.Host. Rows that could not be filled in say so.
func (q *lagQuestion) Looked(broker.Code) { close(q.done) }
