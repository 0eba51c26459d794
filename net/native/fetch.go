package native

import (
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/wire"
)

// fetch is a fetch request until its answer has been sent. It is pooled.
type fetch struct {
	broker.Fetch
	s           *Server
	ss          *session
	correlation uint32
	encoding    wire.Encoding
	from        int64
	plain       plainJob
	prev, next  *fetch // of the session, then of the free list by next
}

func (s *Server) fetch(ss *session, h wire.Header, body []byte) error {
	req, err := wire.DecodeFetchRequest(body)
	if err != nil {
		return err
	}
	s.stats.Fetches++
	f := s.fetches
	if f == nil {
		f = &fetch{s: s}
		f.Owner = f
		f.plain.f = f
	} else {
		s.fetches, f.next = f.next, nil
	}
	s.began(ss)
	f.ss, f.correlation, f.encoding, f.from = ss, h.Correlation, req.Encoding, req.Offset
	f.Topic, f.Partition, f.Offset = broker.TopicID(req.Topic), req.Partition, req.Offset
	f.MaxBytes, f.MaxRecords = int(req.MaxBytes), int(req.MaxRecords)
	f.MinBytes, f.MaxWait = int(req.MinBytes), int64(req.MaxWait)*int64(time.Millisecond)
	f.prev, f.next = nil, ss.fetches
	if f.next != nil {
		f.next.prev = f
	}
	ss.fetches = f
	s.b.Fetch(&f.Fetch)
	return nil
}

// cancelFetches ends the long polls of a session; each is answered.
func (s *Server) cancelFetches(ss *session) {
	for f := ss.fetches; f != nil; {
		next := f.next
		s.b.CancelFetch(&f.Fetch)
		f = next
	}
}

// Fetched answers, in the encoding asked for.
func (f *fetch) Fetched(*broker.Fetch) {
	ss := f.ss
	if f.prev != nil {
		f.prev.next = f.next
	} else {
		ss.fetches = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	}
	f.prev, f.next = nil, nil
	if f.encoding == wire.EncodingPlain && f.Bytes() > 0 && !ss.c.Over() {
		f.plain.start()
		return
	}
	f.head(f.Bytes(), f.Next)
	if pieces := f.Pieces(); len(pieces) > 0 {
		ss.c.Lend(pieces, f)
		return
	}
	f.done()
}

// Sent gives the pieces back.
func (f *fetch) Sent(*conn.Conn) { f.done() }

// head answers everything before the batches, which take n bytes.
func (f *fetch) head(n int, next int64) {
	resp := wire.FetchResponse{
		Code: codeOf(f.Code), Class: wire.Class(f.Class), Encoding: f.encoding,
		LogStart: f.LogStart, Durable: f.Durable, End: f.End, NewestAppendTime: f.NewestAppend, NextOffset: next,
	}
	if resp.Code != wire.CodeNone {
		f.s.stats.Errors++
	}
	wire.AppendFetchResponseHeader(f.ss.c.Reply(wire.FetchResponseHeaderSize)[:0], f.correlation, &resp, n)
}

// done gives everything back.
func (f *fetch) done() {
	s, ss := f.s, f.ss
	s.b.Release(&f.Fetch)
	f.ss = nil
	f.next, s.fetches = s.fetches, f
	s.ended(ss)
}

// plainJob turns the batches of an answer into plain encoding, on a helper.
type plainJob struct {
	f    *fetch
	op   aio.JobOp
	out  []byte
	next int64
}

func (j *plainJob) start() {
	j.op = aio.JobOp{Job: j, Owner: j}
	j.f.s.conns.Loop().Driver().SubmitJob(&j.op)
}

// Run implements aio.Job.
func (j *plainJob) Run(aio.FS) error {
	j.out, j.next = j.out[:0], j.f.from
	var all []byte
	for _, p := range j.f.Pieces() {
		all = append(all, p...)
	}
	limit := j.f.s.opts.PlainBytes
	var d batch.Decoder
	for len(all) > 0 {
		b, rest, err := batch.Split(all)
		if err != nil {
			return err
		}
		h, it, err := d.Open(b)
		if err != nil {
			return err
		}
		out, next, err := batch.AppendPlainFetch(j.out, &it, j.f.from, limit-len(j.out))
		if err != nil {
			return err
		}
		whole := next > h.LastOffset()
		j.out, j.next = out, next
		if !whole {
			break
		}
		all = rest
	}
	if len(all) == 0 {
		j.next = j.f.Next
	}
	return nil
}

// CompleteJob answers with what the helper has made.
func (j *plainJob) CompleteJob(op *aio.JobOp) {
	f := j.f
	if op.Err != nil {
		f.Code = broker.Corrupt
		f.head(0, f.Next)
	} else {
		f.head(len(j.out), j.next)
		f.ss.c.Write(j.out)
	}
	if cap(j.out) > f.s.opts.PlainBytes {
		j.out = nil
	}
	f.done()
}
