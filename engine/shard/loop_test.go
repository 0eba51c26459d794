package shard

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// idleWorker has nothing to do.
type idleWorker struct{ finished atomic.Int64 }

func (w *idleWorker) Drain(int64) int          { return 0 }
func (w *idleWorker) Finish(int64)             { w.finished.Add(1) }
func (w *idleWorker) SpinHint(now int64) int64 { return 0 }

type firing struct {
	t     Timer
	log   *[]int64
	rearm int
	l     *Loop
}

func (f *firing) Fire(t *Timer, now int64) {
	*f.log = append(*f.log, t.When())
	if f.rearm > 0 {
		f.rearm--
		f.l.Arm(t, t.When()+10)
	}
}

func virtualLoop(t testing.TB) (*sim.World, *Loop) {
	w := sim.New(sim.Options{Seed: 1})
	l := New(w.Driver(aio.Options{ArenaBytes: 1 << 20, RecvBuffers: 2}), Options{})
	l.SetWorker(&idleWorker{})
	return w, l
}

func TestATimerIsArmedForTheSoonerOfTwoTimes(t *testing.T) {
	_, l := virtualLoop(t)
	timer := Timer{Owner: &firing{}}
	for _, c := range []struct{ when, want int64 }{{30, 30}, {40, 30}, {20, 20}, {25, 20}} {
		l.ArmBy(&timer, c.when)
		if !timer.Armed() || timer.When() != c.want {
			t.Errorf("asked for %d it fires at %d, expected %d", c.when, timer.When(), c.want)
		}
	}
	l.Disarm(&timer)
	if l.ArmBy(&timer, 50); timer.When() != 50 {
		t.Errorf("it fires at %d, expected 50", timer.When())
	}
}

func TestTimersFireInOrderAndNotBeforeTheirTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h timerHeap
		var log []int64
		var armed []*firing
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				f := &firing{log: &log}
				f.t.Owner = f
				h.arm(&f.t, rapid.Int64Range(0, 1000).Draw(t, "when"))
				armed = append(armed, f)
			case 1:
				if len(armed) > 0 {
					f := armed[rapid.IntRange(0, len(armed)-1).Draw(t, "move")]
					h.arm(&f.t, rapid.Int64Range(0, 1000).Draw(t, "when"))
				}
			default:
				if len(armed) > 0 {
					i := rapid.IntRange(0, len(armed)-1).Draw(t, "drop")
					h.remove(armed[i].t.slot - 1)
					armed = slices.Delete(armed, i, i+1)
				}
			}
		}
		var want []int64
		for _, f := range armed {
			want = append(want, f.t.When())
		}
		slices.Sort(want)
		for now := int64(0); now <= 1000; now++ {
			h.run(now)
			if len(log) > 0 && log[len(log)-1] > now {
				t.Fatalf("fired at %d for %d", now, log[len(log)-1])
			}
		}
		for len(h.heap) > 0 {
			h.run(1000)
		}
		if !slices.Equal(log, want) {
			t.Fatalf("fired %v, armed %v", log, want)
		}
	})
}

func TestTimerMayArmItselfAgain(t *testing.T) {
	w, l := virtualLoop(t)
	var log []int64
	f := &firing{log: &log, rearm: 3, l: l}
	f.t.Owner = f
	start := w.Now()
	l.Arm(&f.t, start+10)
	for len(log) < 4 {
		if worked, err := l.Turn(); err != nil {
			t.Fatal(err)
		} else if worked == 0 {
			if err := l.idle(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if f.t.Armed() || log[3] != start+40 {
		t.Fatalf("fired at %v from %d on, armed %v", log, start, f.t.Armed())
	}
}

func TestArmingAndFiringAllocateNothing(t *testing.T) {
	_, l := virtualLoop(t)
	f := &firing{log: new([]int64)}
	*f.log = make([]int64, 0, 4096)
	f.t.Owner = f
	if n := testing.AllocsPerRun(1000, func() {
		l.Arm(&f.t, 0)
		l.timers.run(1)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// realLoop runs a loop in a goroutine of its own, blocking when idle.
func realLoop(t *testing.T, id int, w *sim.World) *Loop {
	t.Helper()
	l := New(w.Driver(aio.Options{ArenaBytes: 1 << 20, RecvBuffers: 2}), Options{ID: id, Idle: IdleBlock})
	l.SetWorker(&idleWorker{})
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	t.Cleanup(func() {
		if err := l.Post(TaskFunc(func(l *Loop) { l.Stop() })); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("loop %d: %v", id, err)
		}
	})
	return l
}

func TestTasksReachSleepingLoops(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		w := sim.New(sim.Options{Seed: 7, Mode: sim.RealTime})
		var loops []*Loop
		for i := range n {
			loops = append(loops, realLoop(t, i, w))
		}
		const rounds = 300
		done := make(chan int)
		for i, l := range loops {
			go func() {
				for range rounds {
					ran := make(chan int, 1)
					for l.Post(TaskFunc(func(l *Loop) { ran <- l.ID() })) != nil {
						t.Error("the inbox of an idle loop is full")
					}
					if id := <-ran; id != i {
						t.Errorf("task for loop %d ran on %d", i, id)
					}
				}
				done <- i
			}()
		}
		for range loops {
			<-done
		}
		for _, l := range loops {
			if l.Stats().Turns.Load() == 0 {
				t.Errorf("loop %d counts no turns", l.ID())
			}
		}
	}
}

func TestAnIdleLoopSleeps(t *testing.T) {
	w := sim.New(sim.Options{Seed: 7, Mode: sim.RealTime})
	l := realLoop(t, 0, w)
	ran := make(chan struct{})
	if err := l.Post(TaskFunc(func(l *Loop) { close(ran) })); err != nil {
		t.Fatal(err)
	}
	<-ran
	// One that does not is found by the time limit of all tests.
	for l.Stats().Sleeps.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
}

func TestALongTurnCountsAsAStall(t *testing.T) {
	w := sim.New(sim.Options{Seed: 7, Mode: sim.RealTime})
	l := realLoop(t, 0, w)
	l.opts.Long = DefaultStall
	ran := make(chan struct{})
	if err := l.Post(TaskFunc(func(l *Loop) {
		for start := w.Now(); w.Now()-start < int64(2*DefaultStall); {
		}
	})); err != nil {
		t.Fatal(err)
	}
	if err := l.Post(TaskFunc(func(l *Loop) { close(ran) })); err != nil {
		t.Fatal(err)
	}
	<-ran
	for l.Stats().Stalls.Load() == 0 {
		again := make(chan struct{})
		if err := l.Post(TaskFunc(func(l *Loop) { close(again) })); err != nil {
			t.Fatal(err)
		}
		<-again
	}
	if n, took := l.Stats().LongTurns.Load(), l.Stats().LongTurn.Load(); n == 0 || took <= int64(DefaultStall) {
		t.Errorf("%d turns above the limit, the newest of %d ns", n, took)
	}
	if l.Stats().LongestTurn.Load() < int64(2*DefaultStall) {
		t.Fatalf("longest turn %v", time.Duration(l.Stats().LongestTurn.Load()))
	}
}
