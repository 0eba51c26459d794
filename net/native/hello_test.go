package native_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/native"
	"github.com/mqd-broker/mqd/net/wire"
)

func TestHelloTellsWhatTheClientTalksTo(t *testing.T) {
	r := newRig(t, rigOptions{seed: 1, native: native.Options{Version: "1.2.3"}})
	h := r.dial().hello
	want := wire.HelloResponse{
		Protocol: 1, Shard: 0, Shards: 1, MaxFrame: rigBatch + 64<<10, MaxBatch: rigBatch,
		IdleTimeout: 120_000, NodeID: r.node.ID(), ServerVersion: "1.2.3",
	}
	if h != want {
		t.Errorf("hello: %+v, want %+v", h, want)
	}
	if h := r.dialShard(0).hello; h != want || r.count(native.HandOvers) != 0 {
		t.Errorf("the shard that it is on: %+v after %d moves", h, r.count(native.HandOvers))
	}
	r.home()
}

func TestAHelloThatFailsIsAnsweredAndEndsTheConnection(t *testing.T) {
	good := wire.HelloRequest{MinProtocol: 1, MaxProtocol: 1, WantedShard: wire.AnyShard}
	future, past, auth := good, good, good
	future.MinProtocol, future.MaxProtocol = 2, 9
	past.MinProtocol, past.MaxProtocol = 0, 0
	auth.AuthMechanism, auth.Auth = "PLAIN", []byte("secret")
	tenant, client := good, good
	tenant.Tenant, client.ClientID = strings.Repeat("t", 256), strings.Repeat("c", 256)
	version := wire.AppendHelloRequest(nil, 7, good)
	version[5] = 9
	magic := wire.AppendHelloRequest(nil, 7, good)
	magic[12] = 'X'
	for name, c := range map[string]struct {
		frame []byte
		code  wire.Code
	}{
		"protocol of the future": {wire.AppendHelloRequest(nil, 7, future), wire.CodeUnsupportedVersion},
		"protocol of the past":   {wire.AppendHelloRequest(nil, 7, past), wire.CodeUnsupportedVersion},
		"credentials":            {wire.AppendHelloRequest(nil, 7, auth), wire.CodeAuthFailed},
		"long tenant":            {wire.AppendHelloRequest(nil, 7, tenant), wire.CodeMalformedFrame},
		"long client id":         {wire.AppendHelloRequest(nil, 7, client), wire.CodeMalformedFrame},
		"version":                {version, wire.CodeUnsupportedVersion},
		"magic":                  {magic, wire.CodeMalformedFrame},
		"no hello":               {wire.AppendPingRequest(nil, 7), wire.CodeHelloRequired},
		"unknown op":             {[]byte{0, 0, 0, 8, 99, 1, 0, 0, 0, 0, 0, 7}, wire.CodeHelloRequired},
		"response":               {wire.AppendPingResponse(nil, 7), wire.CodeHelloRequired},
		"too large":              {[]byte{0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 7}, wire.CodeFrameTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{seed: 2})
			cl := r.raw()
			cl.write(c.frame)
			cl.write(wire.AppendPingRequest(nil, 8)) // is not read any more
			if e := cl.refused(7); e.Code != c.code {
				t.Errorf("answered with %v: %s, want %v", e.Code, e.Message, c.code)
			}
			r.advance(3 * time.Second)
			if !cl.ended() || len(cl.answers) != 1 {
				t.Errorf("ended %v after %d answers", cl.ended(), len(cl.answers))
			}
			r.home()
		})
	}
}

func TestHelloIsSaidOnce(t *testing.T) {
	r := newRig(t, rigOptions{seed: 3})
	c := r.dial()
	if e := c.refused(c.sayHello(wire.AnyShard)); e.Code != wire.CodeMalformedFrame {
		t.Errorf("the second hello: %v", e.Code)
	}
	c.wait(c.do(func(corr uint32) []byte { return wire.AppendPingRequest(nil, corr) }))
	r.home()
}

func TestAClientLandsOnTheShardThatItWants(t *testing.T) {
	r := newRig(t, rigOptions{seed: 4, shards: 3})
	for i := range 12 {
		want := int32(i % 3)
		c := r.raw()
		hello := c.sayHello(want)
		var pings []uint32
		for range 20 { // in the same breath
			pings = append(pings, c.do(func(corr uint32) []byte { return wire.AppendPingRequest(nil, corr) }))
		}
		if h := must(wire.DecodeHelloResponse(c.wait(hello).body)); h.Shard != uint32(want) || h.Shards != 3 {
			t.Errorf("landed on %d of %d, want %d", h.Shard, h.Shards, want)
		}
		for _, corr := range pings {
			c.wait(corr)
		}
		if c.order[0] != hello {
			t.Error("something was answered before hello")
		}
	}
	if r.count(native.HandOvers) == 0 {
		t.Error("no connection was handed over: the test shows nothing")
	}
	r.home()
}

func TestAClientIsServedWhereItIsIfItsWishCannotBeGranted(t *testing.T) {
	r := newRig(t, rigOptions{seed: 5, shards: 2})
	if h := r.dialShard(7).hello; h.Shards != 2 || h.Shard > 1 {
		t.Errorf("a shard that does not exist: %+v", h)
	}
	for _, s := range r.shards {
		s.stuck = true
	}
	for want := range int32(2) {
		for range 4 {
			c := r.dialShard(want)
			c.wait(c.do(func(corr uint32) []byte { return wire.AppendPingRequest(nil, corr) }))
		}
	}
	if r.count(native.Stays) == 0 {
		t.Error("every connection was where it wanted to be: the test shows nothing")
	}
	r.home()
}

func TestSilenceEndsAConnectionAndALongPollIsNotSilence(t *testing.T) {
	r := newRig(t, rigOptions{seed: 6, native: native.Options{IdleTimeout: 2 * time.Second}})
	silent, pings, polls := r.dial(), r.dial(), r.dial()
	id := polls.create("t", 1)
	poll := polls.beginFetch(wire.FetchRequest{Topic: id, MinBytes: 1, MaxWait: 30_000})
	for range 10 {
		pings.do(func(corr uint32) []byte { return wire.AppendPingRequest(nil, corr) })
		r.advance(time.Second)
	}
	if !silent.ended() || r.closedFor(conn.ReasonIdle) != 1 {
		t.Errorf("the silent one ended: %v; %d ended for silence", silent.ended(), r.closedFor(conn.ReasonIdle))
	}
	if pings.ended() || polls.ended() {
		t.Errorf("ended: who pings %v, who polls %v", pings.ended(), polls.ended())
	}
	pings.mustProduce(id, records(0, values(1, 10, 1)...))
	if a := polls.fetched(poll); len(a.Batches) == 0 {
		t.Errorf("the poll: %+v", a)
	}
	r.home()
}

func TestAHelloThatDoesNotComeEndsTheConnection(t *testing.T) {
	r := newRig(t, rigOptions{seed: 7})
	c := r.raw()
	r.advance(9 * time.Second)
	if c.ended() {
		t.Error("closed before its time was over")
	}
	r.advance(4 * time.Second)
	if !c.ended() || r.closedFor(conn.ReasonHandshake) != 1 {
		t.Error("the connection stays")
	}
	r.home()
}
