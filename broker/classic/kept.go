package classic

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/internal/fields"
)

// What lasts of a group is its last generation in which everybody was told what to do. It
// is kept in the form that docs/format/groups.md describes.

// ErrDamaged: what was kept of a group is not what was written.
var ErrDamaged = errors.New("members of a group damaged")

// Keep calls f for each group that has become stable since the last call, or whose
// members are others without a rebalance, with what is to be kept of it. The bytes are
// valid until f returns.
func (s *State) Keep(f func(name string, kept []byte)) {
	for i, g := range s.keep {
		g.toKeep = false
		if g.stage == Stable {
			s.scratch = g.encode(s.scratch[:0])
			f(g.name, s.scratch)
		}
		s.keep[i] = nil
	}
	s.keep = s.keep[:0]
	if cap(s.scratch) > maxScratch {
		s.scratch = nil
	}
}

// maxScratch is how much scratch memory a state keeps, in bytes.
const maxScratch = 64 << 10

// KeepAll has Keep tell of every group that is stable.
func (s *State) KeepAll() {
	for _, g := range s.agenda {
		s.willKeep(g)
	}
}

// willKeep has Keep tell of a group.
func (s *State) willKeep(g *group) {
	if !g.toKeep {
		g.toKeep = true
		s.keep = append(s.keep, g)
	}
}

var be = binary.BigEndian

func appendString(dst []byte, s string) []byte {
	return append(be.AppendUint16(dst, uint16(len(s))), s...)
}

func appendBytes(dst, b []byte) []byte {
	return append(be.AppendUint32(dst, uint32(len(b))), b...)
}

// encode appends what is kept of a group.
func (g *group) encode(dst []byte) []byte {
	dst = appendString(dst, g.kind)
	dst = appendString(dst, g.protocol)
	dst = be.AppendUint32(dst, uint32(g.generation))
	dst = appendString(dst, g.leader.id)
	dst = be.AppendUint32(dst, uint32(len(g.members)))
	for _, m := range g.members {
		dst = appendString(dst, m.id)
		dst = appendString(dst, m.instance)
		dst = appendString(dst, m.client)
		dst = appendString(dst, m.host)
		dst = be.AppendUint64(dst, uint64(m.session))
		dst = be.AppendUint64(dst, uint64(m.rebalance))
		dst = be.AppendUint16(dst, uint16(len(m.protocols)))
		for _, p := range m.protocols {
			dst = appendString(dst, p.Name)
			dst = appendBytes(dst, p.Data)
		}
		dst = appendBytes(dst, m.data)
	}
	return dst
}

// leastMember is the size of the smallest member that is kept, in bytes.
const leastMember = 4*2 + 2*8 + 2 + 4

// Restore makes a group of what was kept of it. Its members have all of their time to be
// heard of again. The error is [ErrDamaged]; then there is no group.
func (s *State) Restore(now int64, name string, kept []byte) error {
	in := fields.Of(kept)
	g := &group{name: name, stage: Stable, byID: map[string]*member{}, static: map[string]*member{}, in: -1}
	g.kind, g.protocol = string(in.Bytes("type")), string(in.Bytes("protocol"))
	g.generation = int32(in.U32("generation"))
	leader := string(in.Bytes("leader"))
	for range in.Count(leastMember, "members") {
		m := readMember(&in)
		m.deadline, m.synced = now+m.session, true
		if m.id == leader {
			g.leader = m
		}
		g.members = append(g.members, m)
		g.byID[m.id] = m
		if m.instance != "" {
			g.static[m.instance] = m
		}
	}
	if g.leader == nil || len(g.byID) != len(g.members) {
		in.Fail("leader", 0, 1, 0)
	}
	if err := in.End(); err != nil {
		return fmt.Errorf("%w: %s: %s at byte %d: expected %d, found %d", ErrDamaged, name, err.Field, err.At, err.Expected, err.Found)
	}
	for _, m := range g.members {
		s.grow(g, m, m.weight())
	}
	s.members += len(g.members)
	s.groups[name] = g
	s.bytes += g.weight()
	s.settle(g)
	return nil
}

// readMember reads a member.
func readMember(in *fields.Reader) *member {
	m := &member{
		id: string(in.Bytes("member")), instance: string(in.Bytes("instance")), client: string(in.Bytes("client")), host: string(in.Bytes("host")),
		session: in.I64("session"), rebalance: in.I64("rebalance"),
	}
	for range in.U16("protocols") {
		m.protocols = append(m.protocols, Protocol{string(in.Bytes("protocol")), readBytes(in)})
		if in.Err() != nil {
			break
		}
	}
	m.data = readBytes(in)
	return m
}

func readBytes(in *fields.Reader) []byte {
	return append([]byte(nil), in.Take(int(in.U32("length")), "bytes")...)
}
