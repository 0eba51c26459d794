package classic

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// rig is a state, and members that go by letters. A letter's id is that which it was
// given last.
type rig struct {
	t     testing.TB
	s     *State
	now   int64
	ids   map[string]string
	fresh int
}

func newRig(t testing.TB, l Limits) *rig {
	return &rig{t: t, s: New(l), ids: map[string]string{}}
}

// asked is the owner of a call: who has asked for what.
type asked struct{ who, what string }

// do carries out a step and returns the answers that it has caused.
//
//	join WHO [option=value...]       options: id, instance, session, rebalance, protocols,
//	                                 type, group; the flags twice and skips
//	sync WHO GENERATION [WHO=DATA...]
//	beat WHO GENERATION              also commit
//	leave WHO...                     a name behind a slash is an instance: /one
//	wait DURATION
func (r *rig) do(step string) string {
	r.t.Helper()
	f := strings.Fields(step)
	c := &Call{Group: "g", Owner: asked{f[1], f[0]}}
	c.Member = r.ids[strings.TrimPrefix(f[1], "!")]
	switch f[0] {
	case "wait":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			r.t.Fatal(err)
		}
		return r.wait(int64(d))
	case "join":
		r.join(c, f[1], f[2:])
	case "sync", "beat", "commit":
		c.Kind = map[string]Kind{"sync": Sync, "beat": Heartbeat, "commit": Commit}[f[0]]
		_, _ = fmt.Sscan(f[2], &c.Generation)
		for _, a := range f[3:] {
			who, data, _ := strings.Cut(a, "=")
			switch who {
			case "instance":
				c.Instance = data
			case "protocol":
				c.Protocol = data
			case "type":
				c.Type = data
			default:
				c.Assigned = append(c.Assigned, Assigned{r.ids[who], []byte(data)})
			}
		}
	case "leave":
		c.Kind = Leave
		for _, who := range f[1:] {
			who, instance, _ := strings.Cut(who, "/")
			c.Leaving = append(c.Leaving, Leaver{Member: r.ids[who], Instance: instance})
		}
	}
	r.s.Take(r.now, c)
	return r.answers()
}

func (r *rig) join(c *Call, who string, options []string) {
	c.Kind, c.Type, c.Session, c.Rebalance, c.Client = Join, "consumer", int64(10*time.Second), int64(30*time.Second), who
	r.fresh++
	c.ID = fmt.Sprintf("%s-%d", who, r.fresh)
	protocols := "range"
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		switch key {
		case "id":
			c.Member = value
		case "new":
			c.Member = ""
		case "instance":
			c.Instance = value
		case "group":
			c.Group = value
		case "type":
			c.Type = value
		case "twice":
			c.Twice = true
		case "skips":
			c.Skips = true
		case "protocols":
			protocols = value
		case "session", "rebalance":
			d, err := time.ParseDuration(value)
			if err != nil {
				r.t.Fatal(err)
			}
			if key == "session" {
				c.Session = int64(d)
			} else {
				c.Rebalance = int64(d)
			}
		default:
			r.t.Fatalf("no option %q", key)
		}
	}
	for _, p := range strings.Split(protocols, ",") {
		if p != "" {
			name, data, ok := strings.Cut(p, ":")
			if !ok {
				data = who
			}
			c.Protocols = append(c.Protocols, Protocol{name, []byte(data)})
		}
	}
}

// wait lets time pass, and tick when something is due.
func (r *rig) wait(d int64) string {
	end, out := r.now+d, ""
	for next := r.s.Next(); next >= 0 && next <= end; next = r.s.Next() {
		if next < r.now {
			r.t.Fatalf("something was due at %d, it is %d", next, r.now)
		}
		r.now = max(r.now, next)
		for r.s.Tick(r.now) {
		}
		if r.s.Next() == next {
			r.t.Fatalf("a tick at %d leaves what was due then", r.now)
		}
		if a := r.answers(); a != "" {
			out = strings.TrimSpace(out + " | " + a)
		}
	}
	r.now = end
	return strings.TrimPrefix(out, "| ")
}

// answers are those of the last step.
func (r *rig) answers() string {
	var all []string
	for _, c := range r.s.Answered() {
		who := c.Owner.(asked)
		text := fmt.Sprintf("%s.%s=%v", who.who, who.what, c.Code)
		switch {
		case c.Kind == Join && c.Code == IDRequired:
			r.ids[who.who] = c.Member
		case c.Kind == Join && c.Code == OK:
			r.ids[who.who] = c.Member
			text += fmt.Sprintf(":%d:%s:%s", c.Generation, c.Protocol, r.who(c.Leader))
			if c.Skip {
				text += ":skip"
			}
			for i, m := range c.Members {
				text += map[bool]string{true: "[", false: " "}[i == 0] + r.who(m.Member) + ":" + string(m.Data)
			}
			if len(c.Members) > 0 {
				text += "]"
			}
		case c.Kind == Sync && c.Code == OK:
			text += ":" + string(c.Data)
		case c.Kind == Leave:
			text = who.who + ".leave"
			for _, l := range c.Leaving {
				text += "=" + l.Code.String()
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// who is the letter of an id.
func (r *rig) who(id string) string {
	who, _, _ := strings.Cut(id, "-")
	return who
}
