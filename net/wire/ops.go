package wire

import "strconv"

// Op is the operation of a frame. Numbers are for life.
type Op uint8

// The operations. 23 to 31 are reserved for further administration, 33 and above
// for transactions, check-back, delay and cancel.
const (
	OpHello          Op = 1
	OpPing           Op = 2
	OpMetadata       Op = 3
	OpProduce        Op = 4
	OpFetch          Op = 5
	OpListOffsets    Op = 6
	OpGroupCommit    Op = 7
	OpGroupOffsets   Op = 8
	OpGroupJoin      Op = 9
	OpGroupHeartbeat Op = 10
	OpGroupLeave     Op = 11
	OpGroupAssign    Op = 12
	OpGroupForget    Op = 13
	OpGroupDelete    Op = 14
	OpGroupDescribe  Op = 15
	OpTopicCreate    Op = 16
	OpTopicAlter     Op = 17
	OpTopicDelete    Op = 18
	OpTopicDescribe  Op = 19
	OpGroupList      Op = 20
	OpTopicTrim      Op = 21
	OpLag            Op = 22
	OpTopicGrow      Op = 23
	OpProducerInit   Op = 32
)

// opInfo is one row of the op table: the name and the range of versions whose
// encoding this package decodes. An op without versions is reserved.
type opInfo struct {
	name     string
	min, max uint8
}

var opTable = [...]opInfo{
	OpHello:          {"hello", 1, 1},
	OpPing:           {"ping", 1, 1},
	OpMetadata:       {"metadata", 1, 1},
	OpProduce:        {"produce", 1, 1},
	OpFetch:          {"fetch", 1, 1},
	OpListOffsets:    {"list-offsets", 1, 1},
	OpGroupCommit:    {"group-commit", 1, 1},
	OpGroupOffsets:   {"group-offsets", 1, 1},
	OpGroupJoin:      {"group-join", 1, 1},
	OpGroupHeartbeat: {"group-heartbeat", 1, 1},
	OpGroupLeave:     {"group-leave", 1, 1},
	OpGroupAssign:    {"group-assign", 1, 1},
	OpGroupForget:    {"group-forget", 1, 1},
	OpGroupDelete:    {"group-delete", 1, 1},
	OpGroupDescribe:  {"group-describe", 1, 1},
	OpTopicCreate:    {"topic-create", 1, 1},
	OpTopicAlter:     {"topic-alter", 1, 1},
	OpTopicDelete:    {"topic-delete", 1, 1},
	OpTopicDescribe:  {"topic-describe", 1, 1},
	OpGroupList:      {"group-list", 1, 1},
	OpTopicTrim:      {"topic-trim", 1, 1},
	OpLag:            {"lag", 1, 1},
	OpTopicGrow:      {"topic-grow", 1, 1},
	OpProducerInit:   {"producer-init", 1, 1},
}

// Versions is the range of versions of o that this package decodes; ok is
// false for an op it does not know.
func (o Op) Versions() (lo, hi uint8, ok bool) {
	if int(o) >= len(opTable) || opTable[o].max == 0 {
		return 0, 0, false
	}
	return opTable[o].min, opTable[o].max, true
}

// version is the version that encoders write.
func (o Op) version() uint8 {
	if int(o) >= len(opTable) {
		return 0
	}
	return opTable[o].max
}

// String is the op's name in logs and documents.
func (o Op) String() string {
	if _, _, ok := o.Versions(); ok {
		return opTable[o].name
	}
	return "op(" + strconv.Itoa(int(o)) + ")"
}
