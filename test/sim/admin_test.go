package sim

import (
	"fmt"

	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

// maxTopics is how many topics are alive at a time.
const maxTopics = 3

// admin creates, alters and deletes topics, and asks about them.
type admin struct {
	r    *run
	link *link
	busy bool
	next int64
}

func (r *run) newAdmin() *admin {
	a := &admin{r: r}
	a.link = r.newLink(func() { a.busy = false })
	return a
}

func (a *admin) act(now int64) {
	a.link.keep(now)
	a.link.tidy()
	if a.link.stage != ready || !a.r.loading || a.busy || now < a.next {
		return
	}
	a.next = now + int64(a.r.rng.IntN(3_000_000))
	list := a.r.alive()
	switch n := a.r.rng.IntN(10); {
	case len(list) == 0 || n == 0 && len(list) < maxTopics:
		a.create()
	case n < 3:
		a.alter(list[a.r.rng.IntN(len(list))])
	case n == 3 && a.r.rng.IntN(4) == 0:
		a.age(list[a.r.rng.IntN(len(list))])
	case n < 4 && len(list) > 1 && a.r.rng.IntN(2) == 0:
		a.delete(list[a.r.rng.IntN(len(list))])
	case n == 4:
		a.trim(list[a.r.rng.IntN(len(list))])
	case n == 5 && a.r.rng.IntN(2) == 0:
		a.compact(list[a.r.rng.IntN(len(list))])
	case n == 5 && a.r.rng.IntN(2) == 0:
		a.grow(list[a.r.rng.IntN(len(list))])
	case n < 7:
		a.bounds(list[a.r.rng.IntN(len(list))])
	default:
		a.describe(list[a.r.rng.IntN(len(list))])
	}
}

// ask sends a request; answer is not called when the outcome is unknown.
func (a *admin) ask(encode func(dst []byte, corr uint32) []byte, answer func(h wire.Header, body []byte), unknown func()) {
	a.r.op(opAdmin)
	a.busy = true
	a.link.do(encode, func(h wire.Header, body []byte, lost bool) {
		a.busy = false
		switch {
		case lost:
			if unknown != nil {
				unknown()
			}
		case h.IsError():
			if a.r.refusal(h, body); unknown != nil {
				unknown()
			}
		default:
			answer(h, body)
		}
	})
}

func (a *admin) create() {
	r := a.r
	name := r.nameOfTopic()
	for _, tp := range r.topics {
		if tp.name == name && !tp.gone {
			return // it may be there still
		}
	}
	partitions := 1 + r.rng.IntN(4)
	class := history.Class(1 + r.rng.IntN(3))
	if r.rng.IntN(2) == 0 {
		class = history.Flushed
	}
	keeps := r.drawKeeping([]int64{16 << 10, 40 << 10, 256 << 10}[r.rng.IntN(3)])
	compacts := r.drawCompacting()
	if compacts.keyed {
		keeps.segment = leastSegment
	}
	if compacts.keeps {
		keeps.age, keeps.bytes = 0, -1
	}
	configs := append(keeps.settings(), wire.Config{Key: "durability", Value: class.String()},
		wire.Config{Key: "index.interval.bytes", Value: fmt.Sprint([]int{256, 4096}[r.rng.IntN(2)])})
	configs = append(configs, compacts.settings()...)
	req := wire.TopicCreateRequest{Name: name, Partitions: uint32(partitions), Configs: configs}
	a.ask(func(dst []byte, corr uint32) []byte { return wire.AppendTopicCreateRequest(dst, corr, req) },
		func(_ wire.Header, body []byte) {
			c, err := wire.DecodeTopicCreateResponse(body)
			switch {
			case err != nil:
				r.failf("create %s: %v", name, err)
			case c.Code == wire.CodeTopicExists:
				if !r.maybe[name] {
					r.failf("create %s: it exists", name)
				}
			case c.Code != wire.CodeNone:
				r.refused(c.Code, c.Message)
				r.maybe[name] = true
			default:
				delete(r.maybe, name)
				r.newTopic(name, c.ID, class, partitions, keeps, compacts)
				r.cover(sawCreate)
			}
		}, func() { r.maybe[name] = true })
}

func (a *admin) alter(tp *topic) {
	r := a.r
	if tp.altered == asked {
		return
	}
	class := history.Class(1 + r.rng.IntN(3))
	before := tp.class
	tp.altered = asked
	tp.changes++
	for _, p := range tp.parts {
		p.p.SetClass(min(before, class))
	}
	a.set(tp, wire.Config{Key: "durability", Value: class.String()}, func(done bool) {
		if !done {
			tp.class = min(before, class) // and perhaps asked for ever
			return
		}
		if class > before {
			r.cover(sawStronger)
		} else if class < before {
			r.cover(sawWeaker)
		}
		tp.class, tp.altered = class, certain
		for _, p := range tp.parts {
			p.p.SetClass(class)
		}
	}, func() { tp.class = min(before, class) })
}

// set changes a setting of a topic. Then told hears whether it is changed or refused, or
// lost, if it is not nil, that the answer will not come.
func (a *admin) set(tp *topic, c wire.Config, told func(done bool), lost func()) {
	r := a.r
	req := wire.TopicAlterRequest{Name: tp.name, Configs: []wire.Config{c}}
	a.ask(func(dst []byte, corr uint32) []byte { return wire.AppendTopicAlterRequest(dst, corr, req) },
		func(_ wire.Header, body []byte) {
			res, err := wire.DecodeTopicResult(body)
			if err != nil {
				r.failf("alter %s: %v", tp.name, err)
				return
			}
			if res.Code != wire.CodeNone {
				r.refused(res.Code, res.Message)
			}
			told(res.Code == wire.CodeNone)
		}, lost)
}

// mostPartitions is how many partitions a topic may come to have.
const mostPartitions = 6

// grow has a topic have more partitions, or as many as it has.
func (a *admin) grow(tp *topic) {
	r := a.r
	n := min(len(tp.parts)+r.rng.IntN(3), mostPartitions)
	tp.most = max(tp.most, n)
	req := wire.TopicGrowRequest{Name: tp.name, Partitions: uint32(n)}
	a.ask(func(dst []byte, corr uint32) []byte { return wire.AppendTopicGrowRequest(dst, corr, req) },
		func(_ wire.Header, body []byte) {
			res, err := wire.DecodeTopicResult(body)
			switch {
			case err != nil:
				r.failf("grow %s: %v", tp.name, err)
			case res.Code == wire.CodeInvalidPartitions && tp.most > n: // it has grown by more than was known
			case res.Code != wire.CodeNone:
				r.refused(res.Code, res.Message)
			default:
				if n > len(tp.parts) {
					r.cover(sawGrow)
				}
				r.grows(tp, n)
			}
		}, nil)
}

func (a *admin) delete(tp *topic) {
	r := a.r
	tp.going = true
	a.ask(func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicDeleteRequest(dst, corr, wire.TopicDeleteRequest{Name: tp.name})
	}, func(_ wire.Header, body []byte) {
		res, err := wire.DecodeTopicResult(body)
		switch {
		case err != nil:
			r.failf("delete %s: %v", tp.name, err)
		case res.Code != wire.CodeNone:
			r.refused(res.Code, res.Message)
		default:
			tp.gone = true
			r.cover(sawDelete)
		}
	}, nil)
}

// bounds asks where a partition starts and ends.
func (a *admin) bounds(tp *topic) {
	r := a.r
	p := tp.parts[r.rng.IntN(len(tp.parts))]
	least, life := p.p.End(), r.lives
	req := wire.ListOffsetsRequest{Topic: tp.id, Partition: p.n, Time: []int64{wire.TimeEnd, r.w.Wall() / 1e6}[r.rng.IntN(2)]}
	a.ask(func(dst []byte, corr uint32) []byte { return wire.AppendListOffsetsRequest(dst, corr, req) },
		func(_ wire.Header, body []byte) {
			o, err := wire.DecodeListOffsetsResponse(body)
			switch {
			case err != nil:
				r.failf("offsets of %v: %v", p, err)
			case tp.going || life != r.lives:
			case o.Code != wire.CodeNone:
				r.refused(o.Code, "")
			case req.Time == wire.TimeEnd:
				p.p.Bounds(least, 0, o.Offset)
			}
		}, nil)
}

func (a *admin) describe(tp *topic) {
	r := a.r
	least := make([]int64, len(tp.parts))
	for i, p := range tp.parts {
		least[i] = p.p.Start()
	}
	a.ask(func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicDescribeRequest(dst, corr, wire.TopicDescribeRequest{Name: tp.name})
	}, func(_ wire.Header, body []byte) {
		d, err := wire.DecodeTopicDescribeResponse(body)
		switch {
		case err != nil:
			r.failf("describe %s: %v", tp.name, err)
		case tp.going:
		case d.Code != wire.CodeNone:
			r.failf("describe %s: %v %s", tp.name, d.Code, d.Message)
		default:
			r.described(tp, &d, least)
		}
	}, nil)
}

// described holds what the broker tells of a topic against what is known.
func (r *run) described(tp *topic, d *wire.TopicDescribeResponse, least []int64) {
	if known := len(tp.parts); d.ID != tp.id || len(d.Partitions) < known || len(d.Partitions) > tp.most {
		r.failf("topic %s has id %v and %d partitions, expected %v and %d to %d", tp.name, d.ID, len(d.Partitions), tp.id, known, tp.most)
		return
	}
	r.grows(tp, len(d.Partitions))
	least = append(least, make([]int64, len(tp.parts)-len(least))...)
	if tp.altered == certain && d.Class != wire.Class(tp.class) {
		r.failf("topic %s has class %v, expected %v", tp.name, d.Class, tp.class)
	}
	for i, p := range d.Partitions {
		r.saw(tp.parts[i], least[i], p.LogStart, p.Durable, p.End)
	}
}
