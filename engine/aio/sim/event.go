package sim

// eventKind says what happens when an event is due.
type eventKind uint8

const (
	// evOp performs the data operation in a slot of a driver.
	evOp eventKind = iota
	// evHelper lets a helper take its next step.
	evHelper
	// evCancel ends the socket operation in a slot of a driver.
	evCancel
	// evConnect brings the connection other to the listener sock.
	evConnect
	// evArrive makes the bytes up to pos available at sock.
	evArrive
	// evFin ends the stream that comes to sock.
	evFin
	// evReset breaks the connection at sock.
	evReset
)

// event is something that happens at a time. Events of the same time happen in
// the order in which they were made.
type event struct {
	at    int64 // nanoseconds of the world's clock
	seq   uint64
	kind  eventKind
	d     *Driver
	slot  uint32
	gen   uint32
	help  *helper
	sock  *sock
	other *sock
	freed bool // let go by a hold
	pos   uint64
}

func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && e.seq < o.seq
}

// eventHeap is a binary heap of events by value: it allocates only to grow.
type eventHeap []event

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(&s[up]) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *eventHeap) pop() event {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s[last] = event{}
	s = s[:last]
	*h = s
	for i := 0; ; {
		least := 2*i + 1
		if least >= len(s) {
			break
		}
		if right := least + 1; right < len(s) && s[right].before(&s[least]) {
			least = right
		}
		if !s[least].before(&s[i]) {
			break
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
	return top
}
