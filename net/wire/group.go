package wire

import (
	"encoding/binary"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// MemberID names a member of a group from its joining to its leaving.
type MemberID [16]byte

// IsZero reports whether it is nobody's.
func (m MemberID) IsZero() bool { return m == MemberID{} }

// GroupMode says how a group divides its partitions.
type GroupMode uint8

const (
	// GroupNone is the mode of a group that has only offsets so far.
	GroupNone GroupMode = 0
	// GroupAuto divides them evenly among the members there are.
	GroupAuto GroupMode = 1
	// GroupManual gives them to instances by a table.
	GroupManual GroupMode = 2
	// GroupKafka is that of a group whose members are Kafka clients, which divide the
	// partitions among themselves. It is for answers.
	GroupKafka GroupMode = 3
)

// PartitionRef names a partition.
type PartitionRef struct {
	Topic     TopicID
	Partition int32
}

// GroupCommitRequest commits offsets.
type GroupCommitRequest struct {
	// Group is the group's name. It aliases the decoded input.
	Group []byte
	// Member and Generation are those of the member that commits; a zero Member is
	// nobody's, for groups without members.
	Member     MemberID
	Generation int32
	// Reset commits on the order of an administrator: offsets may go back.
	Reset   bool
	Entries []CommitEntry
}

// CommitEntry is one partition of a commit.
type CommitEntry struct {
	PartitionRef
	// Next is the offset of the next record to be read.
	Next int64
	// Epoch is the leader epoch of the last record read, -1 where it is not known.
	Epoch int32
	// Metadata aliases the decoded input.
	Metadata []byte
}

// GroupCommitResponse has the outcome of each entry, in order; none with a code.
type GroupCommitResponse struct {
	Code    Code
	Message string
	Entries []CommittedEntry
}

// CommittedEntry is the outcome of one entry.
type CommittedEntry struct {
	Code Code
	// Committed is what is committed afterwards, -1 where nothing is.
	Committed int64
}

// GroupOffsetsRequest asks what is committed for partitions, or for all that the group
// has when it names none.
type GroupOffsetsRequest struct {
	Group      []byte
	Partitions []PartitionRef
}

// GroupOffsetsResponse has what is committed: for the partitions that were named, in
// order, or for all.
type GroupOffsetsResponse struct {
	Code    Code
	Message string
	Offsets []GroupOffset
}

// GroupOffset is what is committed for a partition.
type GroupOffset struct {
	CommitEntry       // Next is -1 where nothing is committed
	Time        int64 // of the commit, nanoseconds since 1970; -1 where it is not told
}

// GroupJoinRequest asks for a membership.
type GroupJoinRequest struct {
	Group []byte
	Mode  GroupMode
	// Instance is a name that stays the same when the program is started again; GroupManual
	// needs one.
	Instance string
	// Client is for lists.
	Client string
	// Session is how long the member may be silent, in milliseconds.
	Session uint32
	// Topics are subscribed to, of GroupAuto.
	Topics []string
	// Claims are wanted if nobody has them, of GroupManual.
	Claims []PartitionRef
}

// GroupHeartbeatRequest tells that a member works by the list of a generation: what is
// not on it, it has stopped. The answer comes when that is not its list any more, or
// after Wait.
type GroupHeartbeatRequest struct {
	Group      []byte
	Member     MemberID
	Generation int32
	// Wait in milliseconds; 0 answers at once.
	Wait uint32
}

// GroupAssignment answers a join and a heartbeat.
type GroupAssignment struct {
	Code    Code
	Message string
	Member  MemberID
	// Generation is that of the list.
	Generation int32
	Grants     []GroupGrant
}

// GroupGrant is a partition that a member may read.
type GroupGrant struct {
	PartitionRef
	// Since is the generation that gave it to the member.
	Since int32
}

// GroupLeaveRequest ends a membership.
type GroupLeaveRequest struct {
	Group  []byte
	Member MemberID
}

// GroupAssignRequest gives partitions to an instance, or to nobody when Instance is "".
type GroupAssignRequest struct {
	Group      []byte
	Instance   string
	Partitions []PartitionRef
}

// GroupForgetRequest takes away what is committed for partitions.
type GroupForgetRequest struct {
	Group      []byte
	Partitions []PartitionRef
}

// GroupDeleteRequest deletes a group without members.
type GroupDeleteRequest struct{ Group []byte }

// GroupResult answers assign and forget, with the outcome of each partition, and leave
// and delete, without.
type GroupResult struct {
	Code    Code
	Message string
	Codes   []Code
}

const (
	partitionRefSize = 16 + 4
	commitEntryMin   = partitionRefSize + 8 + 4 + 2
	committedSize    = 2 + 8
	groupOffsetMin   = commitEntryMin + 8
	groupGrantSize   = partitionRefSize + 4
)

func appendCount32(dst []byte, n int) []byte {
	if int64(n) > 1<<31 {
		invariant.Violated("wire: a list to encode fits its count field")
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

func appendRef(dst []byte, r PartitionRef) []byte {
	dst = append(dst, r.Topic[:]...)
	return binary.BigEndian.AppendUint32(dst, uint32(r.Partition))
}

func (c *cursor) ref() PartitionRef {
	r := PartitionRef{Topic: c.id(), Partition: int32(c.u32())}
	if r.Partition < 0 {
		c.fail("partition", int64(r.Partition), 0)
	}
	return r
}

func appendRefs(dst []byte, refs []PartitionRef) []byte {
	dst = appendCount32(dst, len(refs))
	for _, r := range refs {
		dst = appendRef(dst, r)
	}
	return dst
}

func (c *cursor) refs() []PartitionRef {
	n := c.count(uint64(c.u32()), partitionRefSize)
	if n == 0 {
		return nil
	}
	refs := make([]PartitionRef, n)
	for i := range refs {
		refs[i] = c.ref()
	}
	return refs
}

func appendCommitEntry(dst []byte, e *CommitEntry) []byte {
	dst = appendRef(dst, e.PartitionRef)
	dst = appendI64(dst, e.Next)
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.Epoch))
	return appendString(dst, e.Metadata)
}

func (c *cursor) commitEntry() CommitEntry {
	return CommitEntry{PartitionRef: c.ref(), Next: c.i64(), Epoch: int32(c.u32()), Metadata: c.bytes()}
}

// AppendGroupCommitRequest appends the whole frame.
func AppendGroupCommitRequest(dst []byte, corr uint32, r *GroupCommitRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpGroupCommit, 0, corr, 0)
	dst = appendString(dst, r.Group)
	dst = append(dst, r.Member[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Generation))
	dst = append(dst, boolByte(r.Reset))
	dst = appendCount32(dst, len(r.Entries))
	for i := range r.Entries {
		dst = appendCommitEntry(dst, &r.Entries[i])
	}
	return endFrame(dst, start)
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// DecodeGroupCommitRequest decodes a body into r, whose Entries are used again. The
// error is [ErrMalformed].
func DecodeGroupCommitRequest(b []byte, r *GroupCommitRequest) error {
	c := cursor{msg: "group commit request", body: b}
	r.Group, r.Member, r.Generation = c.bytes(), c.id(), int32(c.u32())
	flags := c.u8()
	if flags > 1 {
		c.fail("flags", int64(flags), 1)
	}
	r.Reset = flags == 1
	n := c.count(uint64(c.u32()), commitEntryMin)
	r.Entries = r.Entries[:0]
	for range n {
		r.Entries = append(r.Entries, c.commitEntry())
	}
	return c.end()
}

// AppendGroupCommitResponse appends the whole frame.
func AppendGroupCommitResponse(dst []byte, corr uint32, r *GroupCommitResponse) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpGroupCommit, FlagResponse, corr, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = appendText(dst, r.Message)
	dst = appendCount32(dst, len(r.Entries))
	for _, e := range r.Entries {
		dst = binary.BigEndian.AppendUint16(dst, uint16(e.Code))
		dst = appendI64(dst, e.Committed)
	}
	return endFrame(dst, start)
}

// DecodeGroupCommitResponse decodes a body. The error is [ErrMalformed].
func DecodeGroupCommitResponse(b []byte) (GroupCommitResponse, error) {
	c := cursor{msg: "group commit response", body: b}
	r := GroupCommitResponse{Code: Code(c.u16()), Message: c.text()}
	for range c.count(uint64(c.u32()), committedSize) {
		r.Entries = append(r.Entries, CommittedEntry{Code: Code(c.u16()), Committed: c.i64()})
	}
	return r, c.end()
}

// AppendGroupOffsetsRequest appends the whole frame.
func AppendGroupOffsetsRequest(dst []byte, corr uint32, r GroupOffsetsRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpGroupOffsets, 0, corr, 0)
	dst = appendString(dst, r.Group)
	return endFrame(appendRefs(dst, r.Partitions), start)
}

// DecodeGroupOffsetsRequest decodes a body. The error is [ErrMalformed].
func DecodeGroupOffsetsRequest(b []byte) (GroupOffsetsRequest, error) {
	c := cursor{msg: "group offsets request", body: b}
	r := GroupOffsetsRequest{Group: c.bytes(), Partitions: c.refs()}
	return r, c.end()
}

// AppendGroupOffsetsResponse appends the whole frame.
func AppendGroupOffsetsResponse(dst []byte, corr uint32, r *GroupOffsetsResponse) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpGroupOffsets, FlagResponse, corr, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = appendText(dst, r.Message)
	dst = appendCount32(dst, len(r.Offsets))
	for i := range r.Offsets {
		dst = appendCommitEntry(dst, &r.Offsets[i].CommitEntry)
		dst = appendI64(dst, r.Offsets[i].Time)
	}
	return endFrame(dst, start)
}

// DecodeGroupOffsetsResponse decodes a body. The error is [ErrMalformed].
func DecodeGroupOffsetsResponse(b []byte) (GroupOffsetsResponse, error) {
	c := cursor{msg: "group offsets response", body: b}
	r := GroupOffsetsResponse{Code: Code(c.u16()), Message: c.text()}
	for range c.count(uint64(c.u32()), groupOffsetMin) {
		r.Offsets = append(r.Offsets, GroupOffset{CommitEntry: c.commitEntry(), Time: c.i64()})
	}
	return r, c.end()
}
