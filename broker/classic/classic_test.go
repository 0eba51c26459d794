package classic

import (
	"strings"
	"testing"
	"time"
)

// cases are lists of steps, each with the answers that it causes; rig.do says how they
// are written.
var cases = []struct {
	name   string
	limits Limits
	steps  []string // step => answers
}{
	{"one member joins, syncs, lives and leaves", Limits{}, []string{
		"join a => a.join=OK:1:range:a[a:a]",
		"sync a 1 a=all => a.sync=OK:all",
		"beat a 1 => a.beat=OK",
		"commit a 1 => a.commit=OK",
		"leave a => a.leave=OK",
		"beat a 1 => a.beat=UnknownMember",
	}},
	{"a second member has the first one join again", Limits{}, []string{
		"join a => a.join=OK:1:range:a[a:a]",
		"sync a 1 a=all => a.sync=OK:all",
		"join b => ",
		"beat a 1 => a.beat=Rebalancing",
		"commit a 1 => a.commit=OK",
		"join a => a.join=OK:2:range:a[a:a b:b] b.join=OK:2:range:a",
		"commit a 2 => a.commit=Rebalancing",
		"beat b 2 => b.beat=OK",
		"sync b 2 => ",
		"sync a 2 a=one b=two => a.sync=OK:one b.sync=OK:two",
		"sync b 2 => b.sync=OK:two",
	}},
	{"a member that is told its id joins with it", Limits{}, []string{
		"join a twice => a.join=IDRequired",
		"join b new => ",
		"join a => b.join=OK:1:range:b[b:b a:a] a.join=OK:1:range:b",
	}},
	{"an id that nobody joins with ends, and the others go on", Limits{}, []string{
		"join a twice session=5s => a.join=IDRequired",
		"join b => ",
		"wait 5s => b.join=OK:1:range:b[b:b]",
		"join a => a.join=UnknownMember",
	}},
	{"an id that ends disturbs nobody", Limits{}, []string{
		"join b => b.join=OK:1:range:b[b:b]",
		"sync b 1 => b.sync=OK:",
		"join a twice session=5s => a.join=IDRequired",
		"wait 6s => ",
		"beat b 1 => b.beat=OK",
	}},
	{"who does not join again in time is no member any more", Limits{}, []string{
		"join a session=60s => a.join=OK:1:range:a[a:a]",
		"sync a 1 => a.sync=OK:",
		"join b rebalance=5s => ",
		"wait 29s => ",
		"wait 1s => b.join=OK:2:range:b[b:b]",
		"beat a 1 => a.beat=UnknownMember",
	}},
	{"who does not sync in time is no member any more", Limits{}, []string{
		"join a session=60s => a.join=OK:1:range:a[a:a]",
		"wait 30s => ",
		"beat a 1 => a.beat=UnknownMember",
	}},
	{"a leader that never syncs is replaced", Limits{}, []string{
		"join a session=60s => a.join=OK:1:range:a[a:a]",
		"sync a 1 => a.sync=OK:",
		"join b session=60s => ",
		"join a => a.join=OK:2:range:a[a:a b:b] b.join=OK:2:range:a",
		"sync b 2 => ",
		"wait 10s => b.sync=Rebalancing", // a has a session of 10 s now
		"join b session=60s => b.join=OK:3:range:b[b:b]",
		"sync b 3 b=all => b.sync=OK:all",
	}},
	{"a silent member ends, and has the others join again", Limits{}, []string{
		"join a => a.join=OK:1:range:a[a:a]",
		"join b => ",
		"join a => a.join=OK:2:range:a[a:a b:b] b.join=OK:2:range:a",
		"sync b 2 => ",
		"sync a 2 a=one b=two => a.sync=OK:one b.sync=OK:two",
		"wait 9s => ",
		"beat b 2 => b.beat=OK",
		"wait 2s => ",
		"beat a 2 => a.beat=UnknownMember",
		"beat b 2 => b.beat=Rebalancing",
		"join b => b.join=OK:3:range:b[b:b]",
	}},
	{"who waits need not be heard of", Limits{}, []string{
		"join a session=60s rebalance=60s => a.join=OK:1:range:a[a:a]",
		"sync a 1 => a.sync=OK:",
		"join b session=5s => ",
		"wait 20s => ",
		"join a session=60s rebalance=60s => a.join=OK:2:range:a[a:a b:b] b.join=OK:2:range:a",
		"sync b 2 => ",
		"wait 20s => ",
		"sync a 2 b=late => a.sync=OK: b.sync=OK:late",
	}},
	{"who waited has all its time when it is told to join again", Limits{}, []string{
		"join a session=60s => a.join=OK:1:range:a[a:a]",
		"join b session=5s => ",
		"join a session=60s => a.join=OK:2:range:a[a:a b:b] b.join=OK:2:range:a",
		"sync b 2 => ",
		"wait 20s => ",
		"join c => b.sync=Rebalancing",
		"wait 4s => ",
		"beat b 2 => b.beat=Rebalancing",
	}},
	{"a join that is said again takes the place of the first", Limits{}, []string{
		"join a => a.join=OK:1:range:a[a:a]",
		"sync a 1 => a.sync=OK:",
		"join b twice => b.join=IDRequired",
		"join b => ",
		"join b => b.join=Rebalancing",
		"join a => a.join=OK:2:range:a[a:a b:b] b.join=OK:2:range:a",
		"join b => b.join=OK:2:range:a",
		"join a => a.join=OK:2:range:a[a:a b:b]",
		"sync b 2 => ",
		"sync b 2 => b.sync=Rebalancing",
		"sync a 2 b=x => a.sync=OK: b.sync=OK:x",
		"join b => b.join=OK:2:range:a",
		"join b protocols=range:new => ",
		"join a => a.join=OK:3:range:a[a:a b:new] b.join=OK:3:range:a",
	}},
	{"a leader that joins again wants to assign anew", Limits{}, []string{
		"join a => a.join=OK:1:range:a[a:a]",
		"sync a 1 => a.sync=OK:",
		"join a => a.join=OK:2:range:a[a:a]",
	}},
	{"the protocol that most like best", Limits{}, []string{
		"join a protocols=range,sticky,own => a.join=OK:1:range:a[a:a]",
		"join b protocols=sticky,range => ",
		"join c protocols=other,sticky,range => ",
		"join a protocols=range,sticky,own => a.join=OK:2:sticky:a[a:a b:b c:c] b.join=OK:2:sticky:a c.join=OK:2:sticky:a",
		"join d protocols=own,other => d.join=Inconsistent",
		"join d type=connect => d.join=Inconsistent",
		"join d protocols= => d.join=Inconsistent",
		"join d type= => d.join=Inconsistent",
		"sync a 2 protocol=range => a.sync=Inconsistent",
		"sync a 2 type=connect => a.sync=Inconsistent",
		"sync a 2 protocol=sticky type=consumer => a.sync=OK:",
	}},
	{"a protocol that is named twice counts once", Limits{}, []string{
		"join a protocols=range:1,range:2 => a.join=OK:1:range:a[a:1]",
		"join b => ",
		"join a => a.join=OK:2:range:a[a:a b:b] b.join=OK:2:range:a",
	}},
	{"generations and ids that are not the group's", Limits{}, []string{
		"beat a 0 => a.beat=UnknownMember",
		"sync a 0 => a.sync=UnknownMember",
		"commit a 0 => a.commit=UnknownMember",
		"commit a -1 => a.commit=OK",
		"leave a => a.leave=UnknownMember",
		"join a id=x => a.join=UnknownMember",
		"join a => a.join=OK:1:range:a[a:a]",
		"beat a 2 => a.beat=IllegalGeneration",
		"sync a 0 => a.sync=IllegalGeneration",
		"commit a 0 => a.commit=IllegalGeneration",
		"commit a -1 => a.commit=IllegalGeneration",
		"commit nobody -1 => nobody.commit=UnknownMember",
		"join b id=x => b.join=UnknownMember",
	}},
	{"sessions that are too short or too long", Limits{MinSession: 6 * time.Second, MaxSession: time.Minute}, []string{
		"join a session=5s => a.join=InvalidSession",
		"join a session=61s => a.join=InvalidSession",
		"join a session=6s => a.join=OK:1:range:a[a:a]",
	}},
	{"no more members than may be", Limits{Members: 2}, []string{
		"join a => a.join=OK:1:range:a[a:a]",
		"join b twice => b.join=IDRequired",
		"join c => c.join=Full",
		"join b => ",
		"join c twice => c.join=Full",
	}},
	{"no more bytes than may be", Limits{GroupBytes: 600}, []string{
		"join a => a.join=OK:1:range:a[a:a]",
		"join b protocols=range:" + strings.Repeat("x", 300) + " => b.join=Full",
		"join b => ",
		"join c => c.join=Full",
	}},
	{"no more groups than there is room for, though nobody joins them", Limits{Bytes: 1200}, []string{
		"join a group=one twice => a.join=IDRequired",
		"join b group=two twice => b.join=Full",
		"leave a => a.leave=UnknownMember", // of another group
		"wait 10s => ",
		"join b group=two twice => b.join=IDRequired",
	}},
	{"no names that are too long to keep", Limits{}, []string{
		"join a type=" + strings.Repeat("x", MaxName+1) + " => a.join=Inconsistent",
		"join a protocols=range," + strings.Repeat("x", MaxName+1) + " => a.join=Inconsistent",
		"join a type=" + longest + " protocols=" + longest + " => a.join=OK:1:" + longest + ":a[a:a]",
		"join b type=" + longest + " protocols=" + longest + "," + longest + "x => b.join=Inconsistent",
	}},
	{"no more than may be assigned", Limits{Bytes: 1200}, []string{
		"join a => a.join=OK:1:range:a[a:a]",
		"sync a 1 a=" + strings.Repeat("x", 600) + " => a.sync=Busy",
		"sync a 1 a=less => a.sync=OK:less",
	}},
	{"a static member comes back without a rebalance", Limits{}, []string{
		"join a => a.join=OK:1:range:a[a:a]",
		"join b instance=two => ",
		"join a => a.join=OK:2:range:a[a:a b:b] b.join=OK:2:range:a",
		"sync b 2 => ",
		"sync a 2 a=one b=two => a.sync=OK:one b.sync=OK:two",
		"join c instance=two => c.join=OK:2:range:a",
		"sync c 2 instance=two => c.sync=OK:two",
		"beat b 2 instance=two => b.beat=Fenced",
		"beat b 2 => b.beat=UnknownMember",
		"commit b 2 instance=two => b.commit=Fenced",
		"join b instance=two => b.join=Fenced",
		"beat c 2 instance=other => c.beat=UnknownMember",
		"beat a 2 => a.beat=OK",
	}},
	{"a static leader comes back", Limits{}, []string{
		"join a instance=one => a.join=OK:1:range:a[a:a]",
		"sync a 1 a=x => a.sync=OK:x",
		"join b instance=one => b.join=OK:1:range:a",
		"join c instance=one skips => c.join=OK:1:range:c:skip[c:c]",
		"sync c 1 instance=one => c.sync=OK:x",
	}},
	{"a static member with another protocol has everybody join", Limits{}, []string{
		"join a instance=one protocols=range,sticky => a.join=OK:1:range:a[a:a]",
		"sync a 1 a=x => a.sync=OK:x",
		"join b instance=one protocols=sticky,range => b.join=OK:2:sticky:b[b:b]",
	}},
	{"a static member that is fenced while it waits hears so", Limits{}, []string{
		"join a => a.join=OK:1:range:a[a:a]",
		"join b instance=two => ",
		"join c instance=two => b.join=Fenced",
		"join a => a.join=OK:2:range:a[a:a c:c] c.join=OK:2:range:a",
		"sync c 2 => ",
		"join d instance=two => c.sync=Fenced",
		"join a => a.join=OK:3:range:a[a:a d:d] d.join=OK:3:range:a",
	}},
	{"a static member that is away stays until its session ends", Limits{}, []string{
		"join a instance=one session=60s => a.join=OK:1:range:a[a:a]",
		"sync a 1 a=x => a.sync=OK:x",
		"join b => ",
		"wait 30s => b.join=OK:2:range:b[a:a b:b]",
		"sync b 2 a=1 b=2 => b.sync=OK:2",
		"beat a 1 instance=one => a.beat=IllegalGeneration",
		"beat b 2 => b.beat=OK",
		"join c instance=one => c.join=OK:2:range:b",
		"sync c 2 => c.sync=OK:1",
	}},
	{"nobody assigns for static members that are all away", Limits{}, []string{
		"join a instance=one session=60s rebalance=5s => a.join=OK:1:range:a[a:a]",
		"sync a 1 => a.sync=OK:",
		"join b twice => b.join=IDRequired",
		"join b protocols=range => ",
		"leave b => b.join=UnknownMember b.leave=OK",
		"wait 50s => ",
		"beat a 1 => a.beat=Rebalancing",
		"join a instance=one => a.join=OK:2:range:a[a:a]",
	}},
	{"members are sent away by their instances", Limits{}, []string{
		"join a instance=one => a.join=OK:1:range:a[a:a]",
		"join b => ",
		"leave x/one x/none b/one => x/one.leave=OK=UnknownMember=UnknownMember b.join=OK:2:range:b[b:b]",
	}},
	{"a first rebalance waits for more members", Limits{Delay: time.Second}, []string{
		"join a => ",
		"wait 900ms => ",
		"join b => ",
		"wait 1s => ",
		"wait 1s => a.join=OK:1:range:a[a:a b:b] b.join=OK:1:range:a",
		"sync b 1 => ",
		"sync a 1 => a.sync=OK: b.sync=OK:",
		"join b protocols=range:x => ",
		"join a => a.join=OK:2:range:a[a:a b:x] b.join=OK:2:range:a",
	}},
	{"a first rebalance waits no longer than a member wants", Limits{Delay: time.Second}, []string{
		"join a rebalance=2500ms => ",
		"wait 800ms => ",
		"join b rebalance=2500ms => ",
		"wait 1s => ",
		"join c rebalance=2500ms => ",
		"wait 699ms => ",
		"wait 1ms => a.join=OK:1:range:a[a:a b:b c:c] b.join=OK:1:range:a c.join=OK:1:range:a",
	}},
	{"a group of which all have left begins again", Limits{}, []string{
		"join a => a.join=OK:1:range:a[a:a]",
		"leave a => a.leave=OK",
		"commit a -1 => a.commit=OK",
		"join b type=connect protocols=other => b.join=OK:1:other:b[b:b]",
	}},
}

// longest is the longest name that a kind or a protocol can have.
var longest = strings.Repeat("x", MaxName)

func TestGroups(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.limits)
			for i, line := range c.steps {
				step, want, ok := strings.Cut(line, " =>")
				if !ok {
					t.Fatalf("step %d: %q has no answer", i, line)
				}
				if got := r.do(step); got != strings.TrimSpace(want) {
					t.Fatalf("step %d, %s:\n     got %s\nexpected %s", i, step, got, strings.TrimSpace(want))
				}
			}
		})
	}
}
