package bench

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench/figure"
	"github.com/mqd-broker/mqd/engine/aio"
)

// skewed is a machine whose clock is ahead of the others'.
type skewed struct {
	simPlatform
	ahead int64
}

type skewedDriver struct {
	aio.Driver
	ahead int64
}

type skewedClock struct {
	aio.Clock
	ahead int64
}

func (p skewed) NewDriver(o aio.Options) (aio.Driver, error) {
	d, err := p.simPlatform.NewDriver(o)
	return skewedDriver{d, p.ahead}, err
}

func (d skewedDriver) Clock() aio.Clock { return skewedClock{d.Driver.Clock(), d.ahead} }
func (c skewedClock) Now() int64        { return c.Clock.Now() + c.ahead }

// carried is a value as another machine gets it.
func carried[T any](t *testing.T, v T) T {
	t.Helper()
	var to T
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &to)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// together measures a load on two machines that produce and two that consume, each with
// a clock of its own.
func together(t *testing.T, do misdeed, load Load) *Result {
	t.Helper()
	p := newSimPlatform()
	b := startFake(t, p, do)
	shared, err := NewShared(p, Target{Addr: b.addr}, load)
	if err != nil {
		t.Fatal(err)
	}
	machines := []skewed{{p, 0}, {p, int64(time.Hour)}, {p, -int64(time.Minute)}, {p, int64(time.Second)}}
	parts := []Part{
		{Produce: Slice{0, 2}}, {Produce: Slice{1, 2}}, {Consume: Slice{0, 2}}, {Consume: Slice{1, 2}},
	}
	var sessions []*Session
	for i, m := range machines {
		clocks := []int64{m.ahead - machines[0].ahead, m.ahead - machines[1].ahead}
		s, err := Join(t.Context(), m, carried(t, shared.Plan(parts[i], clocks)))
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, s)
	}
	at := p.w.Now() + int64(startDelay)
	for i, m := range machines {
		sessions[i].Begin(at + m.ahead)
	}
	var found []*Found
	for i, s := range sessions {
		if i == 2 {
			acked := Acked(load, found)
			for _, s := range sessions[2:] {
				if err := s.Ended(acked); err != nil {
					t.Fatal(err)
				}
			}
		}
		f, err := s.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, carried(t, f))
	}
	res, err := shared.Finish(found)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func shared(reading Reading) Load {
	return Load{Rate: 20_000, Messages: 600, Duration: time.Minute, Warmup: -1, Client: Block, Partitions: 3, Connections: 3, Reading: reading, Codec: batch.CodecLz4}
}

func TestPartsOnSeveralMachinesAreOneRun(t *testing.T) {
	for _, reading := range []Reading{Live, After} {
		res := together(t, honest, shared(reading))
		if res.Faults.Any() || res.Sent != 600 || res.Acked != 600 || res.Read != 600 || res.Ack.Count != 600 || res.Lag.Count != 600 {
			t.Fatalf("%s: %s", reading, res.Text())
		}
		if res.Codec != "lz4" || res.Class != "flushed" {
			t.Errorf("codec %s, class %s", res.Codec, res.Class)
		}
		want := int64(600)
		if reading == After {
			want = 0
		}
		if res.EndToEnd.Count != want {
			t.Fatalf("%s: %d messages from end to end", reading, res.EndToEnd.Count)
		}
		// Without the clocks' offsets it would be an hour, or zero.
		if reading == Live && (res.EndToEnd.Max >= int64(time.Minute) || res.EndToEnd.P50 < res.Ack.P50/1000) {
			t.Errorf("from end to end: %s, acknowledgements: %s", res.EndToEnd, res.Ack)
		}
	}
}

func TestPartsFindWhatABrokerHasLost(t *testing.T) {
	for do, want := range map[misdeed]string{lose: "1 lost", duplicate: "1 duplicated", refuse: "1 refused"} {
		res := withPatience(t, func() *Result { return together(t, do, shared(Live)) }, func(r *Result) bool { return r.Verdict == Failed })
		if res.Err() == nil || !errors.Is(res.Err(), ErrFailed) {
			t.Errorf("misdeed %d: %s, want %s", do, res.Faults, want)
		}
	}
}

func TestAPartitionThatNobodyHasReadIsLost(t *testing.T) {
	load := shared(Live).withDefaults()
	f := newFound(load)
	f.Lanes = []LaneFound{{Number: 1}, {Number: 2}}
	f.Lanes[0].Lane.Sent, f.Lanes[0].Lane.Acked = 5, 5
	f.Lanes[1].Lane.Sent, f.Lanes[1].Lane.Acked = 7, 7
	f.Reads = []PartitionRead{{Partition: 2, Offset: 7, Seen: 0}}
	res := assemble(load, []int64{0, 5, 7}, []*Found{f})
	if res.Faults.Lost != 12 {
		t.Errorf("%s, want 12 lost: 5 that nobody has read and 7 that were not there", res.Faults)
	}
	if acked := Acked(load, []*Found{f, f}); !reflect.DeepEqual(acked, []int64{0, 10, 14}) {
		t.Errorf("acknowledged %v", acked)
	}
}

func TestAPlanThatDoesNotFitIsRefused(t *testing.T) {
	p := newSimPlatform()
	good := Plan{Load: shared(Live), Class: 3, Topic: Topic{Shards: []uint16{0, 0, 0}, Count: 1}, Part: Part{Produce: Slice{0, 1}}}
	for name, bad := range map[string]func(*Plan){
		"partitions": func(p *Plan) { p.Topic.Shards = p.Topic.Shards[:2] }, "shards": func(p *Plan) { p.Topic.Count = 0 },
		"no clocks": func(p *Plan) { p.Part = Part{Consume: Slice{0, 1}} }, "load": func(p *Plan) { p.Load.Partitions = -1 },
	} {
		plan := good
		bad(&plan)
		if _, err := Join(context.Background(), p, plan); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestAPartThatCannotConnectSaysSo(t *testing.T) {
	p := newSimPlatform()
	plan := Plan{Target: Target{Addr: "127.0.0.1:1"}, Load: shared(Live), Class: 3, Topic: Topic{Shards: []uint16{0, 0, 0}, Count: 1}, Part: Part{Produce: Slice{0, 1}}}
	for range 20 { // a worker that said too late that it had failed passed most times
		if _, err := Join(t.Context(), p, plan); !errors.Is(err, ErrConnection) {
			t.Fatalf("error %v", err)
		}
	}
}

func TestHistogramsAreTheSameOnAnotherMachine(t *testing.T) {
	f := newFound(Load{Duration: time.Second})
	for i := range int64(1000) {
		f.Ack.Record(i*i*i, 1+i%3)
		f.Series.Record(i*1e6, i*1e6+i*1000, i, 2)
	}
	f.Ack.Record(2*figure.MaxLatency, 3)
	f.Lanes = []LaneFound{{Number: 3}}
	f.Lanes[0].Lane.Sent = 1 << 60
	a, b := assemble(Load{Duration: time.Second, Connections: 1, Partitions: 4, Rate: 1}, nil, []*Found{f}), assemble(Load{Duration: time.Second, Connections: 1, Partitions: 4, Rate: 1}, nil, []*Found{carried(t, f)})
	if a.Ack != b.Ack || a.Sent != b.Sent || a.Ack.Count == 0 {
		t.Errorf("%+v\n%+v", a, b)
	}
	for i := range a.Series.Points {
		if p, q := a.Series.Points[i], b.Series.Points[i]; p.Histogram != q.Histogram || p.Done != q.Done || p.Lag != q.Lag {
			t.Fatalf("interval %d: %+v, carried %+v", i, p, q)
		}
	}
}
