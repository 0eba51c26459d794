package kafka

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mqd-broker/mqd/net/kafka/groups"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupCall is a request about groups in flight, as [groups.Door] knows it.
type groupCall struct {
	p           *peer
	correlation int32
}

// group hands a request about groups on. Its body is copied, because it outlives the
// frame.
func (p *peer) group(h *header) {
	host := p.c.RemoteAddr()
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		host = strings.Trim(host[:i], "[]")
	}
	p.began(0, 0)
	p.alone = true
	err := p.srv.groups.Take(&groups.Request{
		Key: h.key, Version: h.version, Body: append([]byte(nil), h.body...),
		Client: string(h.client), Host: "/" + host, Peer: &groupCall{p, h.correlation},
	})
	if err != nil {
		if !errors.Is(err, groups.ErrTooMany) {
			err = fmt.Errorf("%w: %w", errTruncated, err)
		}
		p.malformed(h, err)
		p.done(0, 0)
	}
}

// Answer implements groups.Peer.
func (c *groupCall) Answer(size, failures int, build func() kmsg.Response) {
	for range failures {
		c.p.srv.count.add(Failures)
	}
	c.p.answer(c.correlation, size, build)
}

// Each implements groups.Peer.
func (c *groupCall) Each(n int, ask func(i int, answered func()), done func()) {
	w := &sweep{p: c.p, n: n, done: done}
	w.ask = func(i int) { ask(i, w.answered) }
	w.step()
}
