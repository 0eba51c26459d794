package groups

import (
	"fmt"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Broker is what the door needs of a shard's broker; *broker.Shard has it.
type Broker interface {
	Image() *catalog.Image
	Group(r *broker.Group)
}

// Door answers requests about groups on one shard.
type Door struct {
	Broker Broker
	// Node is the id of the one broker that there is, Host and Port where clients find it.
	Node int32
	Host string
	Port int32
}

// Request is a request whose header has been read.
type Request struct {
	Key, Version int16
	// Body is what follows the header. The door may keep it as long as the request.
	Body []byte
	// Client is the id that the client gives itself, Host its address.
	Client, Host string
	Peer         Peer
}

// Peer is who has sent a request, and waits for one answer.
type Peer interface {
	// Answer takes the answer of about size bytes that build makes; build is called once,
	// maybe on another thread. Failures is how many of what was asked for have failed.
	Answer(size, failures int, build func() kmsg.Response)
	// Each calls ask for each of n things, some at a time, and done when all are answered.
	Each(n int, ask func(i int, answered func()), done func())
}

// handlers have the APIs by their keys.
var handlers = map[int16]func(d *Door, q *Request) error{
	keyOffsetCommit:    (*Door).offsetCommit,
	keyOffsetFetch:     (*Door).offsetFetch,
	keyFindCoordinator: (*Door).findCoordinator,
	keyJoinGroup:       (*Door).joinGroup,
	keyHeartbeat:       (*Door).heartbeat,
	keyLeaveGroup:      (*Door).leaveGroup,
	keySyncGroup:       (*Door).syncGroup,
	keyDescribeGroups:  (*Door).describeGroups,
	keyListGroups:      (*Door).listGroups,
	keyDeleteGroups:    (*Door).deleteGroups,
	keyOffsetDelete:    (*Door).offsetDelete,
}

// The keys.
const (
	keyOffsetCommit    = 8
	keyOffsetFetch     = 9
	keyFindCoordinator = 10
	keyJoinGroup       = 11
	keyHeartbeat       = 12
	keyLeaveGroup      = 13
	keySyncGroup       = 14
	keyDescribeGroups  = 15
	keyListGroups      = 16
	keyDeleteGroups    = 42
	keyOffsetDelete    = 47
)

// Has reports whether requests of a key are answered here.
func Has(key int16) bool { return handlers[key] != nil }

// Lists reports whether requests of a key may name many groups, and wait for nobody. What is
// made of one may take a few hundred times the bytes of its name.
func Lists(key int16) bool {
	switch key {
	case keyOffsetFetch, keyDescribeGroups, keyDeleteGroups:
		return true
	}
	return false
}

// maxGroups is how many groups a request may name.
const maxGroups = 20_000

// ErrTooMany: a request names too many groups.
var ErrTooMany = fmt.Errorf("kafka: a request about more than %d groups", maxGroups)

// Take takes a request of a key that it has. An error means that it has no answer:
// it is [ErrTooMany], or it does not decode.
func (d *Door) Take(q *Request) error { return handlers[q.Key](d, q) }

// decode reads the body through kmsg, which checks that arrays could fit. The request lets
// go of it: one that waits for other members shall not keep what it has not said.
func (q *Request) decode(into kmsg.Request) error {
	b := q.Body
	q.Body = nil
	into.SetVersion(q.Version)
	return into.ReadFrom(b)
}

// By so many bytes a partition, a group or a topic of an answer is estimated, without
// its names and metadata.
const estimate = 48
