package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterConfigs, key 33, versions 0 to 2, and IncrementalAlterConfigs, key 44, versions 0
// to 1, of topics. The broker's own configuration is its file's.
//
// The first makes a topic have what is named and nothing else of its own, the second
// changes what is named. A value that the topic has anyway is not made its own, so that
// what was read can be written back.

// What an incremental change does.
const (
	opSet = iota
	opDelete
	opAppend
	opSubtract
)

// alterRequest is either in flight.
type alterRequest struct {
	sweep
	correlation int32
	validate    bool
	resources   []alteration
	named       map[resource]int // how often
	answerOf    func(q *alterRequest) kmsg.Response
}

// resource is what has configurations.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// alteration is one resource of it.
type alteration struct {
	b  broker.Admin
	of *alterRequest
	resource
	// malformed says what is wrong with what was given, whatever the topic is.
	malformed error
	// settingsOf makes the changes of a topic's settings.
	settingsOf func(t *catalog.Config) ([]catalog.Setting, error)
	code       int16
	message    *string
}

func (p *peer) alterConfigs(h *header) {
	r := &kmsg.AlterConfigsRequest{}
	if !p.decode(h, r) {
		return
	}
	q := &alterRequest{validate: r.ValidateOnly}
	for i := range r.Resources {
		given := &r.Resources[i]
		var f form
		for k := range given.Configs {
			f.add(given.Configs[k].Name, given.Configs[k].Value != nil)
		}
		q.resources = append(q.resources, alteration{resource: resource{given.ResourceType, given.ResourceName}, malformed: f.err,
			settingsOf: func(t *catalog.Config) ([]catalog.Setting, error) { return replaced(t, given.Configs) }})
	}
	q.answerOf = func(q *alterRequest) kmsg.Response {
		a := kmsg.NewPtrAlterConfigsResponse()
		a.SetVersion(r.Version)
		for i := range q.resources {
			x, at := &q.resources[i], kmsg.NewAlterConfigsResponseResource()
			at.ResourceType, at.ResourceName, at.ErrorCode, at.ErrorMessage = x.kind, x.name, x.code, x.message
			a.Resources = append(a.Resources, at)
		}
		return a
	}
	q.begin(p, h)
}

func (p *peer) incrementalAlterConfigs(h *header) {
	r := &kmsg.IncrementalAlterConfigsRequest{}
	if !p.decode(h, r) {
		return
	}
	q := &alterRequest{validate: r.ValidateOnly}
	for i := range r.Resources {
		given := &r.Resources[i]
		var f form
		for k := range given.Configs {
			f.add(given.Configs[k].Name, given.Configs[k].Value != nil || given.Configs[k].Op == opDelete)
		}
		q.resources = append(q.resources, alteration{resource: resource{given.ResourceType, given.ResourceName}, malformed: f.err,
			settingsOf: func(t *catalog.Config) ([]catalog.Setting, error) { return changed(t, given.Configs) }})
	}
	q.answerOf = func(q *alterRequest) kmsg.Response {
		a := kmsg.NewPtrIncrementalAlterConfigsResponse()
		a.SetVersion(r.Version)
		for i := range q.resources {
			x, at := &q.resources[i], kmsg.NewIncrementalAlterConfigsResponseResource()
			at.ResourceType, at.ResourceName, at.ErrorCode, at.ErrorMessage = x.kind, x.name, x.code, x.message
			a.Resources = append(a.Resources, at)
		}
		return a
	}
	q.begin(p, h)
}

// form looks whether the configurations of a resource have one: each is there once, and
// with a value.
type form struct {
	seen map[string]bool
	err  error // what is wrong
}

func (f *form) add(name string, valued bool) {
	switch {
	case f.seen[name]:
		f.err = fmt.Errorf("%s is given twice", name)
	case !valued:
		f.err = fmt.Errorf("%s has no value", name)
	}
	if f.seen == nil {
		f.seen = map[string]bool{}
	}
	f.seen[name] = true
}

func (q *alterRequest) begin(p *peer, h *header) {
	q.correlation = h.correlation
	q.named = map[resource]int{}
	for i := range q.resources {
		q.named[q.resources[i].resource]++
	}
	q.p, q.n, q.sweep.ask, q.sweep.done = p, len(q.resources), q.ask, q.answer
	p.began(0, 0)
	p.alone = true
	q.step()
}

func (q *alterRequest) answer() {
	q.p.answer(q.correlation, len(q.resources)*2*topicEstimate, func() kmsg.Response { return q.answerOf(q) })
}

// ask changes a topic's settings, or says why not.
func (q *alterRequest) ask(i int) {
	x, s := &q.resources[i], q.p.srv
	x.of = q
	if n := q.named[x.resource]; n > 1 {
		x.malformed = fmt.Errorf("%s is named %d times", x.name, n)
	}
	if x.malformed != nil {
		x.refuse(codeInvalidRequest, x.malformed.Error())
		return
	}
	if x.kind != kmsg.ConfigResourceTypeTopic {
		x.refuse(codeInvalidRequest, "only topics can be configured by clients")
		return
	}
	t := s.b.Image().ByName(x.name)
	if t == nil || t.Internal() {
		x.refuse(codeUnknownTopic, "no topic has this name")
		return
	}
	list, err := x.settingsOf(&t.Config)
	if err == nil {
		o := s.b.Node().Options()
		_, err = catalog.ParseSettings(list, catalog.Unset, catalog.Limits{Partitions: o.MaxTopicPartitions, MaxMessageBytes: int64(o.MaxBatch)})
	}
	switch {
	case err != nil:
		x.refuse(codeInvalidConfig, err.Error())
	case q.validate || len(list) == 0:
		q.answered()
	default:
		x.b.Kind, x.b.Name, x.b.Settings, x.b.Owner = broker.AlterTopic, x.name, list, x
		s.b.Admin(&x.b)
	}
}

func (x *alteration) refuse(code int16, text string) {
	x.code, x.message = code, &text
	x.of.p.srv.count.add(Failures)
	x.of.answered()
}

// AdminDone notes the outcome of a change.
func (x *alteration) AdminDone(r *broker.Admin) {
	if r.Code != broker.OK {
		x.refuse(adminCodeOf(r.Code), messageOf(r.Code, r.Message))
		return
	}
	x.of.answered()
}

// replaced are the changes after which a topic has what is given and nothing else of its
// own.
func replaced(t *catalog.Config, given []kmsg.AlterConfigsRequestResourceConfig) (list []catalog.Setting, err error) {
	named := map[string]bool{}
	for i := range given {
		c := findConfig(given[i].Name)
		if c == nil {
			return nil, fmt.Errorf("unknown configuration %s", given[i].Name)
		}
		s, ok, err := c.setting(t, *given[i].Value)
		if err != nil {
			return nil, err
		}
		named[c.name] = true
		if ok {
			list = append(list, s)
		}
	}
	for i := range configs {
		if c := &configs[i]; !named[c.name] {
			if s, ok := c.unset(t); ok {
				list = append(list, s)
			}
		}
	}
	return list, nil
}

// errList: a change that only lists can have.
var errList = errors.New("only a list can be appended to or subtracted from")

// changed are the changes that are given. APPEND and SUBTRACT are for lists.
func changed(t *catalog.Config, given []kmsg.IncrementalAlterConfigsRequestResourceConfig) (list []catalog.Setting, err error) {
	for i := range given {
		c := findConfig(given[i].Name)
		if c == nil {
			return nil, fmt.Errorf("unknown configuration %s", given[i].Name)
		}
		if given[i].Op == opDelete {
			if s, ok := c.unset(t); ok {
				list = append(list, s)
			}
			continue
		}
		value := *given[i].Value
		switch given[i].Op {
		case opSet:
		case opAppend, opSubtract:
			if c.kind != kmsg.ConfigTypeList {
				return nil, fmt.Errorf("%s: %w", c.name, errList)
			}
			now, _ := c.of(t)
			value = editedList(now, value, given[i].Op == opAppend)
		default:
			return nil, fmt.Errorf("%s: unknown operation %d", c.name, given[i].Op)
		}
		s, ok, err := c.setting(t, value)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, s)
		}
	}
	return list, nil
}

// editedList is a list with parts appended that it does not have, or taken out.
func editedList(list, parts string, add bool) string {
	all := strings.Split(list, ",")
	for _, part := range partsOf(parts) {
		switch has := slices.Contains(all, part); {
		case add && !has:
			all = append(all, part)
		case !add:
			all = slices.DeleteFunc(all, func(s string) bool { return s == part })
		}
	}
	return strings.Join(all, ",")
}
