package broker

// Message is what crosses the mesh between shards: a kind and a pointer.
type Message struct {
	kind messageKind
	body any // always a pointer, so that it costs no allocation
}

// messageKind says what a message asks or answers.
type messageKind uint8
