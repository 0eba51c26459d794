package sim

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

// kafkaGroup is a consumer group of Kafka clients, as all its members together know it.
//
// Leaders number what they assign. Of two that members have been told, the one with the
// higher number is that of the later generation: its leader has heard of its generation, and
// numbered, when the other one was over. So nobody may be told that an older one is still in
// force, or commit by it, who asks when somebody has been told of a newer.
type kafkaGroup struct {
	r       *run
	name    string
	eager   bool
	members []*kafkaMember
	rounds  []*round // that members have been told, the newest last
	commits map[*part]*history.Commits
	clock   int64
}

// round is what a leader has assigned in a generation.
type round struct {
	number     uint32
	generation int32
	members    map[string]bool // by id
	told       int64           // moment at which somebody knew of it
}

// kafkaGroups is how many groups have members; one more has none, and anybody commits.
const kafkaGroups = 2

// addKafkaGroups has members take part.
func (r *run) addKafkaGroups() {
	for i := range kafkaGroups {
		g := &kafkaGroup{r: r, name: fmt.Sprintf("crew-%d", i), eager: i == 0, commits: map[*part]*history.Commits{}}
		r.crews = append(r.crews, g)
		for k := range 2 + r.rng.IntN(2) {
			g.members = append(g.members, r.newKafkaMember(g, k == 0 || r.rng.IntN(4) == 0))
			r.actors = append(r.actors, g.members[k])
		}
	}
	lone := &kafkaGroup{r: r, name: "lone", commits: map[*part]*history.Commits{}}
	r.crews = append(r.crews, lone)
	r.actors = append(r.actors, r.newKafkaMember(lone, false))
}

func (g *kafkaGroup) moment() int64 {
	g.clock++
	return g.clock
}

// history is that of the commits for a partition.
func (g *kafkaGroup) history(p *part) *history.Commits {
	c := g.commits[p]
	if c == nil {
		c = &history.Commits{}
		g.commits[p] = c
	}
	return c
}

func (g *kafkaGroup) judge(p *part) {
	for _, v := range g.history(p).Violations() {
		g.r.failf("%v: group %s: %v: %s", p, g.name, v.Kind, v.Text)
	}
}

// knows fails when a request that was sent at a moment was granted to who had been told an
// older round than somebody else before.
func (g *kafkaGroup) knows(what string, m *kafkaMember, number uint32, sent int64) {
	for _, newer := range g.rounds {
		if newer.number > number && newer.told < sent {
			g.r.failf("%s: %s of member %s with round %d (generation %d) was granted, and round %d of generation %d was known before",
				g.name, what, m.id, number, m.generation, newer.number, newer.generation)
		}
	}
}

// told notes that a member was told a round, to a request that was sent at a moment.
func (g *kafkaGroup) told(m *kafkaMember, number uint32, sent int64) {
	g.knows("a sync", m, number, sent)
	at := len(g.rounds)
	for at > 0 && g.rounds[at-1].number > number {
		at--
	}
	if at > 0 && g.rounds[at-1].number == number {
		if last := g.rounds[at-1]; last.generation != m.generation {
			g.r.failf("%s: round %d is of generation %d, and was of %d", g.name, number, m.generation, last.generation)
		}
		return
	}
	now := &round{number: number, generation: m.generation, members: g.r.assigned[number], told: g.moment()}
	if now.members == nil {
		g.r.failf("%s: member %s was told round %d, which no leader has assigned", g.name, m.id, number)
	}
	for i, other := range g.rounds {
		before, after := other, now
		if i >= at {
			before, after = now, other
		}
		for id := range before.members {
			if after.members[id] && after.generation <= before.generation {
				g.r.failf("%s: generation %d follows %d, and member %s was in both", g.name, after.generation, before.generation, id)
			}
		}
	}
	g.rounds = append(g.rounds, nil)
	copy(g.rounds[at+1:], g.rounds[at:])
	g.rounds[at] = now
	if len(g.rounds) > 8 {
		g.rounds = g.rounds[1:]
	}
	g.r.cover(sawKafkaRound)
}

// assign is what the leader of a generation assigns: each partition to one of those who read,
// and in a group that is not eager to nobody whose it is still somebody else's.
func (g *kafkaGroup) assign(m *kafkaMember, a *kmsg.JoinGroupResponse) []kmsg.SyncGroupRequestGroupAssignment {
	r := g.r
	r.numbered++
	owners, ids, list := map[string]string{}, map[string]bool{}, make([]kmsg.SyncGroupRequestGroupAssignment, len(a.Members))
	plans := make([]kmsg.ConsumerMemberAssignment, len(a.Members))
	for i := range a.Members {
		var said kmsg.ConsumerMemberMetadata
		if err := said.ReadFrom(a.Members[i].ProtocolMetadata); err != nil {
			r.failf("%s: what member %s says: %v", g.name, a.Members[i].MemberID, err)
		}
		ids[a.Members[i].MemberID] = true
		for _, t := range said.OwnedPartitions {
			for _, p := range t.Partitions {
				owners[fmt.Sprint(t.Topic, p)] = a.Members[i].MemberID
			}
		}
		plans[i] = kmsg.NewConsumerMemberAssignment()
		plans[i].UserData = append(binary.BigEndian.AppendUint32(nil, r.numbered), nameOf(a.Members[i].MemberID, a.Members[i].InstanceID)...)
	}
	for _, tp := range r.alive() {
		for n := range tp.parts {
			i := r.rng.IntN(len(plans))
			if was := owners[fmt.Sprint(tp.name, n)]; !g.eager && was != "" && was != a.Members[i].MemberID {
				continue // in the next generation
			}
			plans[i].Topics = append(plans[i].Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: tp.name, Partitions: []int32{int32(n)}})
		}
	}
	for i := range list {
		list[i] = kmsg.NewSyncGroupRequestGroupAssignment()
		list[i].MemberID, list[i].MemberAssignment = a.Members[i].MemberID, plans[i].AppendTo(nil)
	}
	r.assigned[r.numbered] = ids
	return list
}

// nameOf is what stays of a member when its program starts again.
func nameOf(id string, instance *string) string {
	if instance != nil {
		return *instance
	}
	return id
}

// endKafkaLife notes that what was on its way to the broker cannot arrive any more.
func (r *run) endKafkaLife() {
	for _, g := range r.crews {
		for _, tp := range r.topics {
			for _, p := range tp.parts {
				if c := g.commits[p]; c != nil {
					c.Ended()
				}
			}
		}
	}
}

// readKafkaGroups asks by the native protocol for everything that Kafka clients have
// committed.
func (r *run) readKafkaGroups() {
	if r.rotten {
		return
	}
	for _, g := range r.crews {
		var parts []*part
		var marks []int64
		req := wire.GroupOffsetsRequest{Group: []byte(g.name)}
		for _, tp := range r.alive() {
			for _, p := range tp.parts {
				parts, marks = append(parts, p), append(marks, g.history(p).Mark())
				req.Partitions = append(req.Partitions, p.ref())
			}
		}
		if len(parts) == 0 || r.n == nil {
			return
		}
		body, err := r.call(func(dst []byte, corr uint32) []byte { return wire.AppendGroupOffsetsRequest(dst, corr, req) })
		if err != nil {
			return // the life has ended
		}
		a, err := wire.DecodeGroupOffsetsResponse(body)
		switch {
		case err != nil:
			r.failf("offsets of %s: %v", g.name, err)
		case a.Code == wire.CodeUnknownGroup:
			a.Offsets = make([]wire.GroupOffset, len(parts))
			for i := range a.Offsets {
				a.Offsets[i].Next = -1
			}
		case a.Code != wire.CodeNone:
			r.refusedGroup(a.Code, a.Message)
			continue
		}
		for i, p := range parts {
			g.history(p).Read(marks[i], a.Offsets[i].Next)
			g.judge(p)
		}
	}
}
