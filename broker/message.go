package broker

import "github.com/mqd-broker/mqd/internal/invariant"

// Message is what crosses the mesh between shards: a kind and a pointer, which
// says whose turn it is with what it points to.
type Message struct {
	kind messageKind
	body any // always a pointer, so that it costs no allocation
}

// messageKind says what a message asks or answers.
type messageKind uint8

const (
	// msgProduce: a *Produce to append; its reply, when it is acknowledged or
	// refused, has the same kind and body.
	msgProduce messageKind = iota + 1
	// msgFetch: a *Fetch to answer. The reply is msgAnswered, msgCrowded, msgParked
	// or msgFetched.
	msgFetch
	// msgAnswered: the *Fetch has its results and no pieces.
	msgAnswered
	// msgCrowded: so it has, and there is no room for it to wait.
	msgCrowded
	// msgParked: the *reading will be answered later.
	msgParked
	// msgFetched: the *reading has pieces, which are lent until msgRelease. As
	// a request it is a late answer, maybe without pieces; the reply to one
	// without is msgReturned.
	msgFetched
	// msgReturned: the *reading is not needed any more.
	msgReturned
	// msgRelease: the pieces of the *reading have been sent.
	msgRelease
	// msgCancel: the *reading had better be answered now.
	msgCancel
	// msgList: a *ListOffsets to answer; msgListed: it is.
	msgList
	msgListed
	// msgAdmin: an *Admin for the catalog; msgAdminDone: it is done.
	msgAdmin
	msgAdminDone
	// msgStep: a *step to work on; msgStepSeen and msgStepDone: how far it is.
	msgStep
	msgStepSeen
	msgStepDone
	// msgGroup: a *Group to look at or to carry out; msgGroupDone: it is done.
	msgGroup
	msgGroupDone
	// msgTaken is the reply to a request that has no other.
	msgTaken
)

// taken is the reply that only gives the credit back.
var taken = Message{kind: msgTaken}

// request handles a request of another shard, or of this one, and returns the
// reply. A produce is answered later; its reply has kind 0.
func (b *Shard) request(from int, m Message) Message {
	switch m.kind {
	case msgProduce:
		b.take(m.body.(*Produce))
		return Message{}
	case msgFetch:
		return b.startFetch(m.body.(*Fetch), from)
	case msgFetched:
		return b.lateFetched(m.body.(*reading))
	case msgRelease:
		b.recycle(m.body.(*reading))
	case msgCancel:
		b.cancelReading(m.body.(*reading))
	case msgList:
		b.list(m.body.(*ListOffsets))
	case msgListed:
		b.listed(m.body.(*ListOffsets))
	case msgAdmin:
		b.keeper.admit(m.body.(*Admin))
	case msgAdminDone:
		b.adminDone(m.body.(*Admin))
	case msgGroup:
		b.groupArrived(m.body.(*Group))
	case msgGroupDone:
		b.groupDone(m.body.(*Group))
	case msgStep:
		b.addStep(m.body.(*step))
	case msgStepSeen:
		s := m.body.(*step)
		s.owner.stepSeen(s)
	case msgStepDone:
		s := m.body.(*step)
		s.owner.stepDone(s)
	default:
		violated("requests have a kind")
	}
	return taken
}

// reply handles a reply of another shard.
func (b *Shard) reply(m Message) {
	switch m.kind {
	case msgTaken:
	case msgProduce:
		b.finish(m.body.(*Produce))
	case msgAnswered:
		b.deliver(m.body.(*Fetch))
	case msgCrowded:
		b.askLater(m.body.(*Fetch))
	case msgParked:
		b.parked(m.body.(*reading))
	case msgFetched:
		b.fetched(m.body.(*reading))
	case msgReturned:
		b.recycle(m.body.(*reading))
	default:
		violated("replies have a kind")
	}
}

// violated names a broken invariant of this package.
func violated(what string) { invariant.Violated("broker: " + what) }
