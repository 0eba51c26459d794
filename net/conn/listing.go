package conn

// Entry is what there is to tell of a connection at a moment.
type Entry struct {
	ID   uint64
	Door int    // its number
	Peer string // its address, "" when unknown
	// Tenant and Principal are for whom the peer acts.
	Tenant, Principal string
	// Opened is when it was accepted or came here, Active the newest sign of life, by the
	// loop's clock.
	Opened, Active int64
	// Frames are those in the works, RecvBuffers those that it keeps, OutBytes what waits to
	// be sent or is being sent.
	Frames, RecvBuffers, OutBytes int
	// Paused says that it is not read, Ending that it comes to its end.
	Paused, Ending bool
}

// List lists connections, as many as have room in to, the one first
// that was accepted first; more is how many have not. It makes no system call.
func (s *Server) List(to []Entry) (listed []Entry, more int) {
	for c := s.all.head; c != nil; c = c.links[inAll].next {
		if len(to) == cap(to) {
			return to, s.all.n - len(to)
		}
		to = append(to, Entry{
			ID: c.id, Door: c.door.number, Peer: c.peer, Tenant: c.Tenant, Principal: c.Principal, Opened: c.opened, Active: c.active,
			Frames: c.frames, RecvBuffers: c.held, OutBytes: c.out.bytes, Paused: c.pauses != 0, Ending: c.phase != phaseOpen,
		})
	}
	return to, 0
}
