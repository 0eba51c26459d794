package wire

import "encoding/binary"

// GroupDescribeRequest asks for everything about a group.
type GroupDescribeRequest struct{ Group []byte }

// GroupDescribeResponse is everything about a group; nothing with a code.
type GroupDescribeResponse struct {
	Code       Code
	Message    string
	Mode       GroupMode
	Generation int32
	// Idle is how long the group has been without members, in nanoseconds.
	Idle int64
	// Members are in order of id, Table and Partitions in order of partition.
	Members []GroupMember
	Table   []GroupTableRow
	// Partitions are those with an offset, an owner or a row of the table.
	Partitions []GroupPartition
}

// GroupMember is a member of a described group.
type GroupMember struct {
	ID               MemberID
	Instance, Client string
	// Session is how long it may be silent, Remaining how much longer from now on, both
	// in milliseconds.
	Session, Remaining uint32
	Generation         int32
	Topics             []string
	// Grants are what it reads, Leaving what it has to stop reading and has not yet.
	Grants, Leaving []GroupGrant
}

// GroupTableRow is a row of the table of GroupManual.
type GroupTableRow struct {
	PartitionRef
	Instance string
	// Away: the instance is no member now, so that the partition waits.
	Away bool
}

// GroupPartition is how far a group is with a partition.
type GroupPartition struct {
	GroupOffset
	// Start and End are the first offset of the log and the end of what can be read; -1
	// for a partition that is not there any more.
	Start, End int64
	// Lag is the number of offsets between what is committed, or Start if that is
	// higher, and End; -1 where nothing is committed.
	Lag int64
	// LagTime is how much older the first unread record is than the newest append, in
	// nanoseconds: 0 without lag, -1 where it is not known.
	LagTime int64
	// Owner is the member that reads it, zero for nobody.
	Owner MemberID
}

// GroupListResponse has all groups, in order of name; none with a code.
type GroupListResponse struct {
	Code    Code
	Message string
	Groups  []ListedGroup
}

// ListedGroup is a group in a list.
type ListedGroup struct {
	Group string
	Mode  GroupMode
	// Members and Offsets are how many it has.
	Members, Offsets uint32
}

const (
	groupMemberMin    = 16 + 2 + 2 + 4 + 4 + 4 + 2 + 4 + 4
	groupTableRowMin  = partitionRefSize + 2 + 1
	groupPartitionMin = groupOffsetMin + 4*8 + 16
	listedGroupMin    = 2 + 1 + 4 + 4
)

// AppendGroupDescribeRequest appends the whole frame.
func AppendGroupDescribeRequest(dst []byte, corr uint32, r GroupDescribeRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpGroupDescribe, 0, corr, 0)
	return endFrame(appendString(dst, r.Group), start)
}

// DecodeGroupDescribeRequest decodes a body. The error is [ErrMalformed].
func DecodeGroupDescribeRequest(b []byte) (GroupDescribeRequest, error) {
	c := cursor{msg: "group describe request", body: b}
	r := GroupDescribeRequest{Group: c.bytes()}
	return r, c.end()
}

// AppendGroupDescribeResponse appends the whole frame.
func AppendGroupDescribeResponse(dst []byte, corr uint32, r *GroupDescribeResponse) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpGroupDescribe, FlagResponse, corr, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = appendText(dst, r.Message)
	dst = append(dst, byte(r.Mode))
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Generation))
	dst = appendI64(dst, r.Idle)
	dst = appendCount32(dst, len(r.Members))
	for i := range r.Members {
		dst = appendGroupMember(dst, &r.Members[i])
	}
	dst = appendCount32(dst, len(r.Table))
	for _, t := range r.Table {
		dst = appendRef(dst, t.PartitionRef)
		dst = append(appendString(dst, t.Instance), boolByte(t.Away))
	}
	dst = appendCount32(dst, len(r.Partitions))
	for i := range r.Partitions {
		p := &r.Partitions[i]
		dst = appendCommitEntry(dst, &p.CommitEntry)
		for _, v := range [...]int64{p.Time, p.Start, p.End, p.Lag, p.LagTime} {
			dst = appendI64(dst, v)
		}
		dst = append(dst, p.Owner[:]...)
	}
	return endFrame(dst, start)
}

func appendGroupMember(dst []byte, m *GroupMember) []byte {
	dst = append(dst, m.ID[:]...)
	dst = appendString(dst, m.Instance)
	dst = appendString(dst, m.Client)
	dst = binary.BigEndian.AppendUint32(dst, m.Session)
	dst = binary.BigEndian.AppendUint32(dst, m.Remaining)
	dst = binary.BigEndian.AppendUint32(dst, uint32(m.Generation))
	dst = appendCount16(dst, len(m.Topics), maxCount16)
	for _, t := range m.Topics {
		dst = appendString(dst, t)
	}
	return appendGrants(appendGrants(dst, m.Grants), m.Leaving)
}

func appendGrants(dst []byte, grants []GroupGrant) []byte {
	dst = appendCount32(dst, len(grants))
	for _, g := range grants {
		dst = appendRef(dst, g.PartitionRef)
		dst = binary.BigEndian.AppendUint32(dst, uint32(g.Since))
	}
	return dst
}

// DecodeGroupDescribeResponse decodes a body. The error is [ErrMalformed].
func DecodeGroupDescribeResponse(b []byte) (GroupDescribeResponse, error) {
	c := cursor{msg: "group describe response", body: b}
	r := GroupDescribeResponse{Code: Code(c.u16()), Message: c.text(), Mode: c.groupMode(), Generation: int32(c.u32()), Idle: c.i64()}
	for range c.count(uint64(c.u32()), groupMemberMin) {
		r.Members = append(r.Members, c.groupMember())
	}
	for range c.count(uint64(c.u32()), groupTableRowMin) {
		r.Table = append(r.Table, GroupTableRow{PartitionRef: c.ref(), Instance: c.string(), Away: c.bool("away")})
	}
	for range c.count(uint64(c.u32()), groupPartitionMin) {
		r.Partitions = append(r.Partitions, GroupPartition{
			GroupOffset: GroupOffset{CommitEntry: c.commitEntry(), Time: c.i64()},
			Start:       c.i64(), End: c.i64(), Lag: c.i64(), LagTime: c.i64(), Owner: c.id(),
		})
	}
	return r, c.end()
}

func (c *cursor) groupMode() GroupMode {
	m := GroupMode(c.u8())
	if m > GroupKafka {
		c.fail("mode", int64(m), int64(GroupKafka))
	}
	return m
}

func (c *cursor) bool(what string) bool {
	b := c.u8()
	if b > 1 {
		c.fail(what, int64(b), 1)
	}
	return b == 1
}

func (c *cursor) groupMember() GroupMember {
	m := GroupMember{ID: c.id(), Instance: c.string(), Client: c.string(), Session: c.u32(), Remaining: c.u32(), Generation: int32(c.u32())}
	for range c.count(uint64(c.u16()), 2) {
		m.Topics = append(m.Topics, c.string())
	}
	m.Grants, m.Leaving = c.grants(), c.grants()
	return m
}

func (c *cursor) grants() []GroupGrant {
	var grants []GroupGrant
	for range c.count(uint64(c.u32()), groupGrantSize) {
		grants = append(grants, GroupGrant{PartitionRef: c.ref(), Since: int32(c.u32())})
	}
	return grants
}

// AppendGroupListRequest appends the whole frame, which has no body.
func AppendGroupListRequest(dst []byte, corr uint32) []byte {
	return appendHeader(dst, OpGroupList, 0, corr, 0)
}

// DecodeGroupListRequest decodes a body, which is empty. The error is [ErrMalformed].
func DecodeGroupListRequest(b []byte) error {
	c := cursor{msg: "group list request", body: b}
	return c.end()
}

// AppendGroupListResponse appends the whole frame.
func AppendGroupListResponse(dst []byte, corr uint32, r *GroupListResponse) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpGroupList, FlagResponse, corr, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = appendText(dst, r.Message)
	dst = appendCount32(dst, len(r.Groups))
	for i := range r.Groups {
		g := &r.Groups[i]
		dst = append(appendString(dst, g.Group), byte(g.Mode))
		dst = binary.BigEndian.AppendUint32(dst, g.Members)
		dst = binary.BigEndian.AppendUint32(dst, g.Offsets)
	}
	return endFrame(dst, start)
}

// DecodeGroupListResponse decodes a body. The error is [ErrMalformed].
func DecodeGroupListResponse(b []byte) (GroupListResponse, error) {
	c := cursor{msg: "group list response", body: b}
	r := GroupListResponse{Code: Code(c.u16()), Message: c.text()}
	for range c.count(uint64(c.u32()), listedGroupMin) {
		r.Groups = append(r.Groups, ListedGroup{Group: c.string(), Mode: c.groupMode(), Members: c.u32(), Offsets: c.u32()})
	}
	return r, c.end()
}
