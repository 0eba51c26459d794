package conn

import "github.com/mqd-broker/mqd/engine/aio"

// Work is something that would hold a shard up: decompression, the encoding of a
// long list.
type Work interface {
	// Run does it, on a helper thread. It owns what it touches until Finished.
	Run()
	// Finished takes the result over, on the loop.
	Finished()
}

// offload is a work on its way to a helper and back.
type offload struct {
	op   aio.JobOp
	srv  *Server
	work Work
	next *offload
}

// Offload has w run on a helper thread. The number of works at a time is the
// caller's to bound.
func (s *Server) Offload(w Work) {
	o := s.offloads
	if o == nil {
		o = &offload{srv: s}
	} else {
		s.offloads, o.next = o.next, nil
	}
	s.lent.Works++
	o.work = w
	o.op.Job, o.op.Owner = o, o
	s.drv.SubmitJob(&o.op)
}

// Run runs the work on the helper.
func (o *offload) Run(aio.FS) error {
	o.work.Run()
	return nil
}

// CompleteJob brings the result to the loop.
func (o *offload) CompleteJob(*aio.JobOp) {
	s, w := o.srv, o.work
	o.work = nil
	o.next, s.offloads = s.offloads, o
	s.lent.Works--
	w.Finished()
}
