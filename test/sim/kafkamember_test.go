package sim

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The codes of Kafka's groups that members meet.
const (
	loadingGroup       = 14
	groupNotAvailable  = 15
	notCoordinator     = 16
	unknownTopic       = 3
	illegalGeneration  = 22
	unknownMember      = 25
	rebalanceUnderWay  = 27
	memberIDRequired   = 79
	fencedInstance     = 82
	sessionMillis      = 40 // members are heard of once a millisecond
	rebalanceMillis    = 4
	noGeneration       = -1
	kafkaCommitsAtOnce = 4
)

// kafkaMember is a member of a group: a program that joins, is told what to read, commits for
// that, and dies now and then. Its connections come and go. One without a group to join, of
// the group "lone", commits for anything.
type kafkaMember struct {
	r          *run
	g          *kafkaGroup
	link       *link
	instance   *string
	version    int16 // of joins and syncs: leaders have to hear of instances
	id         string
	generation int32
	number     uint32 // of the round that it was told
	owned      []*part
	in         bool // it has been told what to read
	busy       bool // a join, a sync or a leave is on its way
	beating    bool
	commits    int // on their way
	next, beat int64
	stray      int  // life in which a join without an id has been lost
	born       int  // life in which it got its id
	told       bool // something under this id
}

func (r *run) newKafkaMember(g *kafkaGroup, static bool) *kafkaMember {
	m := &kafkaMember{r: r, g: g, version: int16(5 + r.rng.IntN(5)), generation: noGeneration}
	m.link = r.newKafkaLink(nil)
	if static {
		name := g.name + "-" + string(rune('a'+len(g.members)))
		m.instance = &name
	}
	return m
}

func (m *kafkaMember) lone() bool { return m.g.name == "lone" }

func (m *kafkaMember) act(now int64) {
	m.link.keep(now)
	r := m.r
	if m.link.stage != ready || !r.loading || now < m.next || m.busy {
		return
	}
	m.next = now + int64(r.rng.IntN(400_000))
	switch n := r.rng.IntN(200); {
	case m.lone():
		m.work()
	case !m.in:
		m.join()
	case n == 0:
		m.leave()
	case n == 1:
		m.die()
	case n == 2 && m.commits == 0:
		m.join()
	case n < 8 && m.instance != nil: // it sleeps through a rebalance, and stays a member
		m.next = now + int64(5+r.rng.IntN(25))*1e6
		m.beat = m.next + int64(r.rng.IntN(2))*800_000
	case now >= m.beat && !m.beating:
		m.beat = now + 800_000
		m.heartbeat()
	default:
		m.work()
	}
}

// work commits for something, or asks what is committed.
func (m *kafkaMember) work() {
	if len(m.link.calls) >= kafkaCommitsAtOnce {
		return
	}
	parts := m.owned
	if m.lone() {
		parts = nil
		if p := m.r.anyPart(); p != nil {
			parts = append(parts, p)
		}
	}
	parts = slices.DeleteFunc(slices.Clone(parts), func(p *part) bool { return p.topic.going || m.r.rng.IntN(2) == 0 })
	switch {
	case len(parts) == 0:
	case m.r.rng.IntN(4) == 0:
		m.ask(parts)
	default:
		m.commit(parts)
	}
}

// die ends the program, which starts again and knows nothing.
func (m *kafkaMember) die() {
	m.forget()
	m.link.drop()
}

func (m *kafkaMember) forget() {
	m.id, m.generation, m.in, m.owned, m.told = "", noGeneration, false, nil, false
}

// join joins, or takes part in the next generation.
func (m *kafkaMember) join() {
	q := kmsg.NewPtrJoinGroupRequest()
	q.Group, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = m.g.name, sessionMillis, rebalanceMillis
	q.MemberID, q.InstanceID, q.ProtocolType = m.id, m.instance, "consumer"
	said := kmsg.NewConsumerMemberMetadata()
	said.Version = 1
	for _, tp := range m.r.alive() {
		said.Topics = append(said.Topics, tp.name)
	}
	if m.g.eager {
		m.owned = nil
	}
	for _, p := range m.owned {
		said.OwnedPartitions = append(said.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: p.topic.name, Partitions: []int32{p.n}})
	}
	q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "any", Metadata: said.AppendTo(nil)}}
	m.busy = true
	m.r.op(opAdmin)
	m.link.ask(m.version, q, func(a kmsg.Response) {
		m.busy = false
		if a == nil {
			if m.lost(); q.MemberID == "" {
				m.stray = m.r.lives
			}
			return
		}
		m.joined(a.(*kmsg.JoinGroupResponse))
	})
}

// lost notes that it is not known whether a call has arrived: the program goes on with what
// it knows, or starts again.
func (m *kafkaMember) lost() {
	if m.in = false; m.r.rng.IntN(2) == 0 {
		m.forget()
	}
}

func (m *kafkaMember) joined(a *kmsg.JoinGroupResponse) {
	r := m.r
	if a.ErrorCode == memberIDRequired {
		m.id = a.MemberID
		m.join()
		return
	}
	if m.refused("join", a.ErrorCode) {
		return
	}
	if m.id != a.MemberID {
		m.born, m.told = r.lives, false
	}
	m.id, m.generation = a.MemberID, a.Generation
	q := kmsg.NewPtrSyncGroupRequest()
	q.Group, q.MemberID, q.InstanceID, q.Generation = m.g.name, m.id, m.instance, m.generation
	q.ProtocolType, q.Protocol = kmsg.StringPtr("consumer"), a.Protocol
	if a.LeaderID == m.id && !a.SkipAssignment {
		q.GroupAssignment = m.g.assign(m, a)
	}
	m.busy = true
	sent := m.g.moment()
	m.link.ask(min(m.version, 5), q, func(a kmsg.Response) {
		m.busy = false
		if a == nil {
			m.lost()
			return
		}
		m.synced(sent, a.(*kmsg.SyncGroupResponse))
	})
}

// synced takes what it is to read. In a group that is not eager it joins again when it has
// given something up, for another to get it.
func (m *kafkaMember) synced(sent int64, a *kmsg.SyncGroupResponse) {
	r := m.r
	if m.refused("sync", a.ErrorCode) {
		return
	}
	var plan kmsg.ConsumerMemberAssignment
	if err := plan.ReadFrom(a.MemberAssignment); err != nil || len(plan.UserData) < 4 {
		r.failf("%s: member %s is told %x: %v", m.g.name, m.id, a.MemberAssignment, err)
	}
	if name := string(plan.UserData[4:]); name != nameOf(m.id, m.instance) {
		r.failf("%s: member %s is told what was assigned to %s", m.g.name, m.id, name)
	}
	m.number, m.in, m.told = binary.BigEndian.Uint32(plan.UserData), true, true
	m.g.told(m, m.number, sent)
	was := m.owned
	m.owned = nil
	for _, t := range plan.Topics {
		for _, tp := range r.topics {
			if tp.name == t.Topic {
				m.owned = append(m.owned, tp.parts[t.Partitions[0]])
			}
		}
	}
	if !m.g.eager && slices.ContainsFunc(was, func(p *part) bool { return !slices.Contains(m.owned, p) }) {
		m.in = false
	}
}

// refused takes an answer that is not what was asked for, and reports whether it is one.
func (m *kafkaMember) refused(what string, code int16) bool {
	r := m.r
	switch code {
	case 0:
		return false
	case loadingGroup, groupNotAvailable, notCoordinator:
		m.next = r.w.Now() + int64(r.rng.IntN(1_000_000))
	case illegalGeneration:
		m.in = false
		r.cover(sawKafkaStale)
	case rebalanceUnderWay:
		m.in = false
	case unknownMember:
		m.forget()
	case fencedInstance:
		// Another join of its own may have taken its place. And as at Apache Kafka a start
		// knows who takes part in a generation when they have been told what to read.
		if m.stray != r.lives && (m.told || m.born == r.lives) {
			r.failf("%s: a %s of %s, generation %d, is fenced, and nobody else has its instance", m.g.name, what, m.id, m.generation)
		}
		m.forget()
	default:
		r.failf("%s: a %s of %s is answered with %d", m.g.name, what, m.id, code)
	}
	return true
}

func (m *kafkaMember) heartbeat() {
	q := kmsg.NewPtrHeartbeatRequest()
	q.Group, q.MemberID, q.InstanceID, q.Generation = m.g.name, m.id, m.instance, m.generation
	m.beating = true
	sent, number, id := m.g.moment(), m.number, m.id
	m.link.ask(min(m.version, 4), q, func(a kmsg.Response) {
		m.beating = false
		if a == nil || id != m.id || number != m.number {
			return
		}
		if !m.refused("heartbeat", a.(*kmsg.HeartbeatResponse).ErrorCode) {
			m.g.knows("a heartbeat", m, number, sent)
		}
	})
}

func (m *kafkaMember) leave() {
	q := kmsg.NewPtrLeaveGroupRequest()
	q.Group, q.MemberID = m.g.name, m.id
	one := kmsg.NewLeaveGroupRequestMember()
	one.MemberID, one.InstanceID = m.id, m.instance
	q.Members = append(q.Members, one)
	m.busy = true
	m.link.ask([]int16{2, 3, 5}[m.r.rng.IntN(3)], q, func(a kmsg.Response) {
		m.busy = false
		m.forget()
	})
}

// commit commits for partitions.
func (m *kafkaMember) commit(parts []*part) {
	r, g := m.r, m.g
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group, q.MemberID, q.InstanceID, q.Generation = g.name, m.id, m.instance, m.generation
	values := make([]int64, len(parts))
	for i, p := range parts {
		r.committed++
		values[i] = r.committed
		g.history(p).Sent(values[i])
		t, part := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = p.n, values[i]
		t.Topic, t.Partitions = p.topic.name, append(t.Partitions, part)
		q.Topics = append(q.Topics, t)
	}
	r.op(opAdmin)
	m.commits++
	sent, number, id := g.moment(), m.number, m.id
	m.link.ask(int16(7+r.rng.IntN(2)), q, func(a kmsg.Response) {
		m.commits--
		if a == nil {
			return
		}
		for i, t := range a.(*kmsg.OffsetCommitResponse).Topics {
			code := t.Partitions[0].ErrorCode
			m.committed(parts[i], values[i], code)
			if code == 0 && !m.lone() {
				g.knows("a commit", m, number, sent)
			}
			if id == m.id && code != unknownTopic {
				m.refused("commit", code)
			}
		}
	})
}

// committed notes the outcome of a commit.
func (m *kafkaMember) committed(p *part, value int64, code int16) {
	switch h := m.g.history(p); code {
	case 0:
		h.Acked(value)
		m.r.cover(sawKafkaCommit)
	case loadingGroup, groupNotAvailable, notCoordinator: // it may be there
	case unknownTopic:
		if !p.topic.going {
			m.r.failf("%v: a commit of %s: no such topic", p, m.g.name)
		}
	default:
		h.Refused(value)
		m.r.cover(sawKafkaFenced)
	}
	if !p.topic.going {
		m.g.judge(p)
	}
}

// ask asks what is committed.
func (m *kafkaMember) ask(parts []*part) {
	g := m.g
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Group = g.name
	marks := make([]int64, len(parts))
	for i, p := range parts {
		marks[i] = g.history(p).Mark()
		q.Topics = append(q.Topics, kmsg.OffsetFetchRequestTopic{Topic: p.topic.name, Partitions: []int32{p.n}})
	}
	m.r.op(opAdmin)
	m.link.ask(int16(2+m.r.rng.IntN(6)), q, func(a kmsg.Response) {
		if a == nil {
			return
		}
		o := a.(*kmsg.OffsetFetchResponse)
		if m.refused("look-up", o.ErrorCode) {
			return
		}
		for i, p := range parts {
			if p.topic.going {
				continue
			}
			g.history(p).Read(marks[i], o.Topics[i].Partitions[0].Offset)
			g.judge(p)
		}
	})
}
