package classic

import "github.com/mqd-broker/mqd/internal/fields"

// consumers is the kind of a group whose members say which topics they read.
const consumers = "consumer"

// Subscribed are the topics that the members of a group read, whichever protocol they come
// to agree on. Of a group whose members do not say so in a way that is known here it is not
// known. Without members there are none.
func (s *State) Subscribed(name string) (topics map[string]bool, known bool) {
	topics = map[string]bool{}
	g := s.groups[name]
	if g == nil || len(g.members) == 0 {
		return topics, true
	}
	for _, m := range g.members {
		for _, p := range m.protocols {
			if g.kind != consumers || !subscription(p.Data, topics) {
				return nil, false
			}
		}
	}
	return topics, true
}

// subscription adds the topics of what a consumer says of itself, and reports whether it
// could be read: a version, the topics, and what nobody has to know here.
func subscription(said []byte, topics map[string]bool) bool {
	in := fields.Of(said)
	version := int16(in.U16("version"))
	for range in.Count(2, "topics") {
		if name := in.Bytes("topic"); in.Err() == nil {
			topics[string(name)] = true
		}
	}
	return in.Err() == nil && version >= 0
}
