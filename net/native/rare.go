package native

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/net/wire"
)

// rare handles the requests that are not on the hot path; they may allocate.
func (s *Server) rare(ss *session, h wire.Header, body []byte) error {
	switch h.Op {
	case wire.OpMetadata:
		r, err := wire.DecodeMetadataRequest(body)
		if err == nil {
			s.metadata(ss, h.Correlation, r)
		}
		return err
	case wire.OpListOffsets:
		r, err := wire.DecodeListOffsetsRequest(body)
		if err == nil {
			s.listOffsets(ss, h.Correlation, r)
		}
		return err
	case wire.OpTopicCreate:
		r, err := wire.DecodeTopicCreateRequest(body)
		if err == nil {
			s.admin(ss, h, broker.Admin{Kind: broker.CreateTopic, Name: r.Name, Partitions: r.Partitions, Settings: settings(r.Configs)})
		}
		return err
	case wire.OpTopicAlter:
		r, err := wire.DecodeTopicAlterRequest(body)
		if err == nil {
			s.admin(ss, h, broker.Admin{Kind: broker.AlterTopic, Name: r.Name, Settings: settings(r.Configs)})
		}
		return err
	case wire.OpTopicDelete:
		r, err := wire.DecodeTopicDeleteRequest(body)
		if err == nil {
			s.admin(ss, h, broker.Admin{Kind: broker.DeleteTopic, Name: r.Name})
		}
		return err
	case wire.OpTopicDescribe:
		r, err := wire.DecodeTopicDescribeRequest(body)
		if err == nil {
			s.admin(ss, h, broker.Admin{Kind: broker.DescribeTopic, Name: r.Name})
		}
		return err
	case wire.OpHello:
		return wire.ErrMalformed
	}
	return wire.ErrUnsupportedOp
}

func settings(cs []wire.Config) []catalog.Setting {
	out := make([]catalog.Setting, len(cs))
	for i, c := range cs {
		out[i] = catalog.Setting{Key: c.Key, Value: c.Value}
	}
	return out
}

// admin is a request about a topic until it is answered.
type admin struct {
	broker.Admin
	s  *Server
	ss *session
	h  wire.Header
}

func (s *Server) admin(ss *session, h wire.Header, req broker.Admin) {
	a := &admin{Admin: req, s: s, ss: ss, h: h}
	a.Owner = a
	s.began(ss)
	s.b.Admin(&a.Admin)
}

// AdminDone answers.
func (a *admin) AdminDone(r *broker.Admin) {
	code, text := codeOf(r.Code), message(r.Code, r.Message)
	if code != wire.CodeNone {
		a.s.stats.Errors++
	}
	var b []byte
	switch a.h.Op {
	case wire.OpTopicCreate:
		resp := wire.TopicCreateResponse{Code: code, Message: text}
		if r.Topic != nil {
			resp.ID = wire.TopicID(r.Topic.ID)
		}
		b = wire.AppendTopicCreateResponse(nil, a.h.Correlation, resp)
	case wire.OpTopicDescribe:
		resp := a.describe(code, text)
		b = wire.AppendTopicDescribeResponse(nil, a.h.Correlation, &resp)
	default:
		b = wire.AppendTopicResult(nil, a.h.Op, a.h.Correlation, wire.TopicResult{Code: code, Message: text})
	}
	a.ss.c.Write(b)
	a.s.ended(a.ss)
}

func (a *admin) describe(code wire.Code, text string) wire.TopicDescribeResponse {
	resp := wire.TopicDescribeResponse{Code: code, Message: text}
	if a.Topic == nil || code != wire.CodeNone {
		return resp
	}
	resp.ID, resp.Class = wire.TopicID(a.Topic.ID), wire.Class(a.Topic.Config.Durability())
	for _, d := range a.Topic.Config.Describe() {
		source := wire.SourceDefault
		if d.Own {
			source = wire.SourceTopic
		}
		resp.Configs = append(resp.Configs, wire.DescribedConfig{Key: d.Key, Value: d.Value, Source: source})
	}
	for _, p := range a.Infos {
		resp.Partitions = append(resp.Partitions, wire.PartitionDescription{
			Shard: uint32(p.Shard), LogStart: p.LogStart, Durable: p.Durable, End: p.End,
			BytesOnDisk: p.Bytes, ExposedBytes: p.ExposedBytes, Epoch: p.Epoch,
		})
	}
	return resp
}

// listed is a list-offsets request until it is answered.
type listed struct {
	broker.ListOffsets
	s           *Server
	ss          *session
	correlation uint32
}

func (s *Server) listOffsets(ss *session, correlation uint32, r wire.ListOffsetsRequest) {
	l := &listed{s: s, ss: ss, correlation: correlation}
	l.Topic, l.Partition, l.Time, l.Owner = broker.TopicID(r.Topic), r.Partition, r.Time, l
	s.began(ss)
	s.b.ListOffsets(&l.ListOffsets)
}

// OffsetsListed answers.
func (l *listed) OffsetsListed(r *broker.ListOffsets) {
	l.ss.c.Write(wire.AppendListOffsetsResponse(nil, l.correlation, wire.ListOffsetsResponse{
		Code: codeOf(r.Code), Offset: r.Offset, Timestamp: r.Timestamp,
	}))
	l.s.ended(l.ss)
}

// metadata is a metadata request until the topics that it makes exist.
type metadata struct {
	s           *Server
	ss          *session
	correlation uint32
	names       []string
	failed      map[string]broker.Code
	at          int
	create      broker.Admin
}

func (s *Server) metadata(ss *session, correlation uint32, r wire.MetadataRequest) {
	m := &metadata{s: s, ss: ss, correlation: correlation, names: r.Topics, failed: map[string]broker.Code{}}
	s.began(ss)
	if r.All {
		for _, t := range s.b.Image().Topics() {
			m.names = append(m.names, t.Name)
		}
		m.answer()
		return
	}
	m.next()
}

// next makes the next topic that does not exist, where that is allowed.
func (m *metadata) next() {
	if m.s.b.Node().AutoCreate() == broker.AutoCreateOn {
		for ; m.at < len(m.names); m.at++ {
			if name := m.names[m.at]; m.s.b.Image().ByName(name) == nil {
				m.create = broker.Admin{Kind: broker.CreateTopic, Name: name, Owner: m}
				m.s.b.Admin(&m.create)
				return
			}
		}
	}
	m.answer()
}

// AdminDone goes on after a topic has been made, or has not.
func (m *metadata) AdminDone(r *broker.Admin) {
	if r.Code != broker.OK && r.Code != broker.TopicExists {
		m.failed[r.Name] = r.Code
	}
	m.at++
	m.next()
}

func (m *metadata) answer() {
	n := m.s.b.Node()
	image := m.s.b.Image()
	resp := wire.MetadataResponse{Shards: uint32(n.Shards())}
	for _, name := range m.names {
		t := image.ByName(name)
		if t == nil {
			code := broker.UnknownTopic
			if c, ok := m.failed[name]; ok {
				code = c
			}
			resp.Topics = append(resp.Topics, wire.TopicMetadata{Code: codeOf(code), Name: name})
			continue
		}
		meta := wire.TopicMetadata{Name: name, ID: wire.TopicID(t.ID), Class: wire.Class(t.Config.Durability())}
		for p := range int32(t.Partitions) {
			meta.PartitionShards = append(meta.PartitionShards, uint16(n.ShardOf(broker.TopicID(t.ID), p)))
		}
		resp.Topics = append(resp.Topics, meta)
	}
	m.ss.c.Write(wire.AppendMetadataResponse(nil, m.correlation, resp))
	m.s.ended(m.ss)
}
