package wire

import "encoding/binary"

// AppendGroupJoinRequest appends the whole frame.
func AppendGroupJoinRequest(dst []byte, corr uint32, r *GroupJoinRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpGroupJoin, 0, corr, 0)
	dst = appendString(dst, r.Group)
	dst = append(dst, byte(r.Mode))
	dst = appendString(dst, r.Instance)
	dst = appendString(dst, r.Client)
	dst = binary.BigEndian.AppendUint32(dst, r.Session)
	dst = appendCount16(dst, len(r.Topics), maxCount16)
	for _, t := range r.Topics {
		dst = appendString(dst, t)
	}
	return endFrame(appendRefs(dst, r.Claims), start)
}

// DecodeGroupJoinRequest decodes a body. The error is [ErrMalformed].
func DecodeGroupJoinRequest(b []byte) (GroupJoinRequest, error) {
	c := cursor{msg: "group join request", body: b}
	r := GroupJoinRequest{Group: c.bytes(), Mode: GroupMode(c.u8())}
	if c.err == nil && (r.Mode < GroupAuto || r.Mode > GroupManual) {
		c.fail("mode", int64(r.Mode), int64(GroupManual))
	}
	r.Instance, r.Client, r.Session = c.string(), c.string(), c.u32()
	for range c.count(uint64(c.u16()), 2) {
		r.Topics = append(r.Topics, c.string())
	}
	r.Claims = c.refs()
	return r, c.end()
}

// AppendGroupHeartbeatRequest appends the whole frame.
func AppendGroupHeartbeatRequest(dst []byte, corr uint32, r GroupHeartbeatRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpGroupHeartbeat, 0, corr, 0)
	dst = appendString(dst, r.Group)
	dst = append(dst, r.Member[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Generation))
	dst = binary.BigEndian.AppendUint32(dst, r.Wait)
	return endFrame(dst, start)
}

// DecodeGroupHeartbeatRequest decodes a body. The error is [ErrMalformed].
func DecodeGroupHeartbeatRequest(b []byte) (GroupHeartbeatRequest, error) {
	c := cursor{msg: "group heartbeat request", body: b}
	r := GroupHeartbeatRequest{Group: c.bytes(), Member: c.id(), Generation: int32(c.u32()), Wait: c.u32()}
	return r, c.end()
}

// AppendGroupAssignment appends the whole frame, the response to op, a join or a
// heartbeat.
func AppendGroupAssignment(dst []byte, op Op, corr uint32, r *GroupAssignment) []byte {
	start := len(dst)
	dst = appendHeader(dst, op, FlagResponse, corr, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = appendText(dst, r.Message)
	dst = append(dst, r.Member[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Generation))
	dst = appendCount32(dst, len(r.Grants))
	for _, g := range r.Grants {
		dst = appendRef(dst, g.PartitionRef)
		dst = binary.BigEndian.AppendUint32(dst, uint32(g.Since))
	}
	return endFrame(dst, start)
}

// DecodeGroupAssignment decodes a body. The error is [ErrMalformed].
func DecodeGroupAssignment(b []byte) (GroupAssignment, error) {
	c := cursor{msg: "group assignment", body: b}
	r := GroupAssignment{Code: Code(c.u16()), Message: c.text(), Member: c.id(), Generation: int32(c.u32())}
	for range c.count(uint64(c.u32()), groupGrantSize) {
		r.Grants = append(r.Grants, GroupGrant{PartitionRef: c.ref(), Since: int32(c.u32())})
	}
	return r, c.end()
}

// AppendGroupLeaveRequest appends the whole frame.
func AppendGroupLeaveRequest(dst []byte, corr uint32, r GroupLeaveRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpGroupLeave, 0, corr, 0)
	dst = appendString(dst, r.Group)
	return endFrame(append(dst, r.Member[:]...), start)
}

// DecodeGroupLeaveRequest decodes a body. The error is [ErrMalformed].
func DecodeGroupLeaveRequest(b []byte) (GroupLeaveRequest, error) {
	c := cursor{msg: "group leave request", body: b}
	r := GroupLeaveRequest{Group: c.bytes(), Member: c.id()}
	return r, c.end()
}

// AppendGroupAssignRequest appends the whole frame.
func AppendGroupAssignRequest(dst []byte, corr uint32, r GroupAssignRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpGroupAssign, 0, corr, 0)
	dst = appendString(dst, r.Group)
	dst = appendString(dst, r.Instance)
	return endFrame(appendRefs(dst, r.Partitions), start)
}

// DecodeGroupAssignRequest decodes a body. The error is [ErrMalformed].
func DecodeGroupAssignRequest(b []byte) (GroupAssignRequest, error) {
	c := cursor{msg: "group assign request", body: b}
	r := GroupAssignRequest{Group: c.bytes(), Instance: c.string(), Partitions: c.refs()}
	return r, c.end()
}

// AppendGroupForgetRequest appends the whole frame.
func AppendGroupForgetRequest(dst []byte, corr uint32, r GroupForgetRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpGroupForget, 0, corr, 0)
	dst = appendString(dst, r.Group)
	return endFrame(appendRefs(dst, r.Partitions), start)
}

// DecodeGroupForgetRequest decodes a body. The error is [ErrMalformed].
func DecodeGroupForgetRequest(b []byte) (GroupForgetRequest, error) {
	c := cursor{msg: "group forget request", body: b}
	r := GroupForgetRequest{Group: c.bytes(), Partitions: c.refs()}
	return r, c.end()
}

// AppendGroupDeleteRequest appends the whole frame.
func AppendGroupDeleteRequest(dst []byte, corr uint32, r GroupDeleteRequest) []byte {
	start := len(dst)
	dst = appendHeader(dst, OpGroupDelete, 0, corr, 0)
	return endFrame(appendString(dst, r.Group), start)
}

// DecodeGroupDeleteRequest decodes a body. The error is [ErrMalformed].
func DecodeGroupDeleteRequest(b []byte) (GroupDeleteRequest, error) {
	c := cursor{msg: "group delete request", body: b}
	r := GroupDeleteRequest{Group: c.bytes()}
	return r, c.end()
}

// AppendGroupResult appends the whole frame, the response to op: assign, forget, leave
// or delete.
func AppendGroupResult(dst []byte, op Op, corr uint32, r *GroupResult) []byte {
	start := len(dst)
	dst = appendHeader(dst, op, FlagResponse, corr, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Code))
	dst = appendText(dst, r.Message)
	dst = appendCount32(dst, len(r.Codes))
	for _, code := range r.Codes {
		dst = binary.BigEndian.AppendUint16(dst, uint16(code))
	}
	return endFrame(dst, start)
}

// DecodeGroupResult decodes a body. The error is [ErrMalformed].
func DecodeGroupResult(b []byte) (GroupResult, error) {
	c := cursor{msg: "group result", body: b}
	r := GroupResult{Code: Code(c.u16()), Message: c.text()}
	for range c.count(uint64(c.u32()), 2) {
		r.Codes = append(r.Codes, Code(c.u16()))
	}
	return r, c.end()
}
