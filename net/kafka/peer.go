package kafka

import (
	"fmt"

	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/kafka/groups"
	"github.com/mqd-broker/mqd/net/waitlist"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// peer is a connection as this protocol sees it.
type peer struct {
	srv *Server
	c   *conn.Conn

	over    bool // the connection is gone; requests may still be out
	alone   bool // something else than produces is in the works
	later   bool // a frame waits until nothing is in the works
	bounded bool // has its bound in flight and is not read

	inFlight      int // requests
	inFlightBytes int // of frames that are kept
	weight        int // of the request that is alone in the works, as partitions
	first, last   *produceRequest
	fetching      *fetchRequest       // nil: none waits for messages
	waits         waitlist.Node[peer] // in Server.waiting

	next *peer // in the pool
}

func peerOf(c *conn.Conn) *peer { return c.User.(*peer) }

// began counts a request with parts partitions and n bytes of memory that it keeps.
func (p *peer) began(parts, n int) {
	p.srv.open += parts
	p.inFlight++
	p.inFlightBytes += n
	p.c.Hold()
}

// done counts a request that is answered.
func (p *peer) done(parts, n int) {
	s := p.srv
	s.open -= parts
	p.inFlight--
	p.inFlightBytes -= n
	if p.inFlight == 0 {
		p.unload()
		p.alone, p.later = false, false
	}
	o := &s.opts
	if p.bounded && p.inFlight <= o.MaxInFlightRequests*3/4 && p.inFlightBytes <= o.MaxInFlightBytes*3/4 {
		p.bounded = false
	}
	p.goOn()
	p.c.Drop()
	if p.over && p.inFlight == 0 {
		*p = peer{next: s.peers}
		s.peers = p
	}
	s.wake()
}

// coldWeight is how many bytes of a request that kmsg decodes weigh as much as a partition:
// what is made of a byte may take a hundred.
const coldWeight = 6

// weight is what a request of n bytes may take that is going to be alone in the works, as
// partitions. Some may wait for long, and keep no more than their bounds allow.
func weight(h *header, n int) int {
	switch key := h.key; {
	case key == keyProduce:
		return 0 // its partitions count
	case key == keyFetch:
		return n / fetchPartSize(h.version) // at most; when it is decoded its partitions count
	case groups.Lists(key):
		return n
	case groups.Has(key):
		return 0
	}
	return n / coldWeight
}

// load counts the weight of a request.
func (p *peer) load(n int) {
	p.weight = n
	p.srv.weigh(n, 1)
}

// unload ends that.
func (p *peer) unload() {
	p.srv.weigh(p.weight, -1)
	p.weight = 0
}

func (s *Server) weigh(n, times int) {
	if s.large(n) {
		s.heavy += n * times
	} else {
		s.open += n * times
	}
}

// bound stops reading a connection that has its bound in flight.
func (p *peer) bound() {
	o := &p.srv.opts
	if !p.bounded && (p.inFlight >= o.MaxInFlightRequests || p.inFlightBytes >= o.MaxInFlightBytes) {
		p.bounded = true
		p.srv.count.add(Pauses)
		p.c.Pause()
	}
}

// goOn reads a connection again unless something else keeps it from being read.
func (p *peer) goOn() {
	if !p.bounded && !p.later && !p.waits.Waits() {
		p.c.Resume()
	}
}

// cancel ends the wait of a fetch: nobody wants to know any more.
func (p *peer) cancel() {
	if p.fetching != nil {
		p.fetching.hurry()
	}
}

// refuse ends a connection that has sent what cannot be answered.
func (p *peer) refuse(why error) {
	p.srv.note(p.c, why)
	p.c.Finish()
}

// malformed refuses a request that does not decode.
func (p *peer) malformed(h *header, err error) {
	p.refuse(fmt.Errorf("%w: %s version %d", err, find(h.key).Name, h.version))
}

// request takes a request that is served.
func (p *peer) request(h *header, f *conn.Frame) {
	s := p.srv
	if h.key == keyProduce {
		s.count.add(Produces)
		p.produce(h, f)
		return
	}
	if n := len(f.Bytes()); n > maxCold && h.key != keyFetch {
		p.malformed(h, fmt.Errorf("%w: %d bytes, expected at most %d", errLength, n, maxCold))
		return
	}
	if h.key == keyFetch {
		s.count.add(Fetches)
		p.fetch(h)
		return
	}
	p.load(weight(h, len(f.Bytes())))
	p.cold(h)
	if p.weight > 0 && p.inFlight == 0 { // it has been answered
		p.unload()
	}
}

// cold takes a request that kmsg decodes.
func (p *peer) cold(h *header) {
	s := p.srv
	switch h.key {
	case keyListOffsets:
		s.count.add(OffsetLookups)
		p.listOffsets(h)
	case keyEpochEnd:
		s.count.add(OffsetLookups)
		p.epochEnds(h)
	case keyMetadata:
		s.count.add(MetadataRequests)
		p.metadata(h)
	case keyCoordinator:
		s.count.add(CoordinatorRequests)
		p.group(h)
	case keyJoinGroup, keyHeartbeat, keyLeaveGroup, keySyncGroup:
		s.count.add(GroupCalls)
		p.group(h)
	case keyOffsetCommit, keyOffsetFetch:
		s.count.add(GroupOffsets)
		p.group(h)
	case keyAPIVersions:
		s.count.add(VersionRequests)
		p.apiVersions(h)
	case keyInitProducerID:
		s.count.add(ProducerInits)
		p.initProducerID(h)
	default:
		s.count.add(AdminRequests)
		p.admin(h)
	}
}

// admin takes a request of an administrator.
func (p *peer) admin(h *header) {
	switch h.key {
	case keyCreateTopics:
		p.createTopics(h)
	case keyDeleteTopics:
		p.deleteTopics(h)
	case keyDeleteRecords:
		p.deleteRecords(h)
	case keyDescribeConfig:
		p.describeConfigs(h)
	case keyAlterConfigs:
		p.alterConfigs(h)
	case keyIncremental:
		p.incrementalAlterConfigs(h)
	case keyPartitions:
		p.createPartitions(h)
	case keyCluster:
		p.describeCluster(h)
	default:
		p.group(h)
	}
}

// decode reads a request through kmsg, which checks that arrays could fit. The
// connection ends with what does not decode.
func (p *peer) decode(h *header, r kmsg.Request) bool {
	r.SetVersion(h.version)
	if err := r.ReadFrom(h.body); err != nil {
		p.malformed(h, fmt.Errorf("%w: %w", errTruncated, err))
		return false
	}
	return true
}

// reply sends an answer through kmsg.
func (p *peer) reply(correlation int32, r kmsg.Response) {
	s := p.srv
	b := appendResponse(s.scratch[:0], correlation, r)
	p.c.Write(b)
	s.keepScratch(b)
}

// keepScratch keeps the memory that an answer was encoded into, unless it is large.
func (s *Server) keepScratch(b []byte) {
	if s.scratch = b[:0]; cap(b) > maxScratch {
		s.scratch = nil
	}
}

// maxScratch is how much scratch memory a server keeps, in bytes.
const maxScratch = 64 << 10

// appendResponse appends a whole frame.
func appendResponse(b []byte, correlation int32, r kmsg.Response) []byte {
	at := len(b)
	b = appendI32(b, 0)
	b = appendI32(b, correlation)
	if r.IsFlexible() && r.Key() != keyAPIVersions { // see KIP-511
		b = appendTags(b, true)
	}
	b = r.AppendTo(b)
	appendI32(b[:at], int32(len(b)-at-lengthSize))
	return b
}
