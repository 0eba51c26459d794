package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/bench/drive"
	"github.com/mqd-broker/mqd/bench/figure"
	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/wire"
)

// Waits; variables for tests.
var (
	// answerWait bounds the wait for answers after the last send.
	answerWait = 30 * time.Second
	// readWait is how long a reader waits for messages that do not come.
	readWait = 10 * time.Second
)

const (
	minSendBuf = 64 << 10
	maxSendBuf = 256 << 10
)

// errStopped: the run has ended early, for a reason that another worker or the
// caller knows.
var errStopped = errors.New("stopped")

// worker is one thread of a run: connections that produce, and a connection that
// reads the worker's share of the partitions.
type worker struct {
	run       *run
	number    int
	drain     bool         // it only reads, for the second time, and pauses
	pane      *figure.Pane // nil if nobody looks
	loop      *drive.Loop
	producers []*producer
	reader    *reader

	ack, service, lag, late   *Latency
	endToEnd, endToEndService *Latency
	series                    *Series
	ackedIn                   int64   // messages acknowledged while measuring
	lastAck                   int64   // of those
	overs                     []int64 // by burst: how long after its end the last answer came
	refusals                  int64
	refusal                   string // the first
	cpu                       Share
}

// Share is what part of the time a client's thread had a CPU, 0 to 1.
type Share struct {
	// Run is the part in which it ran, a loop that polls without work included;
	// Waited that in which it wanted to, and something else had the CPU.
	Run    float64 `json:"run"`
	Waited float64 `json:"waited"`
}

// share is what has become of the time since.
func share(before machine.Scheduled, from, now int64) Share {
	after, ok := machine.ThreadSchedule("/")
	if !ok || now <= from {
		return Share{}
	}
	all := float64(now - from)
	return Share{Run: float64(after.Run-before.Run) / all, Waited: float64(after.Waited-before.Waited) / all}
}

// bursts has room for the bursts of a run.
func (r *run) bursts() []int64 {
	if r.load.Burst.Messages == 0 {
		return nil
	}
	return make([]int64, min(mostBursts, 1+int64((max(0, r.load.Warmup)+r.load.Duration)/r.load.Burst.Period)))
}

func newWorker(r *run, number int) *worker {
	return &worker{run: r, number: number, ack: NewLatency(), service: NewLatency(), lag: NewLatency(),
		late: NewLatency(), endToEnd: NewLatency(), endToEndService: NewLatency(), series: figure.NewSeries(r.load.Duration), overs: r.bursts()}
}

// sendBuf is the size of a send buffer of a connection.
func (r *run) sendBuf() int {
	n := maxSendBuf
	if r.load.Connections > 16 {
		n = minSendBuf
	}
	return max(n, 2*r.frame)
}

// driverOptions sizes the worker's driver.
func (w *worker) driverOptions() aio.Options {
	conns := len(w.run.connsOf(w.number)) + 1
	entries := 256
	for entries < 4*conns {
		entries *= 2
	}
	return aio.Options{
		Entries: entries, ArenaBytes: int64(2*conns*w.run.sendBuf() + 2*w.run.readBuf() + 1<<20),
		RecvBuffers: 64, Files: 1, Helpers: 1,
	}
}

// main is the worker's thread.
func (w *worker) main(drv aio.Driver) error {
	w.loop = drive.NewLoop(drv, w.run.platform, w.run.load.Client)
	err := w.connect()
	if err != nil {
		w.run.fail() // before launch returns: it is where Join looks whether all are connected
	}
	w.run.ready.Done()
	if err == nil {
		<-w.run.begin
		if err = w.measure(); err != nil {
			w.run.fail()
		}
	}
	return errors.Join(err, w.close())
}

// connect opens the connections. Those that the broker serves on a shard of
// their own send to that shard's partitions.
func (w *worker) connect() error {
	r := w.run
	for _, n := range r.connsOf(w.number) {
		l, hello, err := dial(w.loop, r.target, r.talk(), r.wantedShard(n), r.sendBuf(), adminBuf)
		if err != nil {
			return fmt.Errorf("connection %d: %w", n, err)
		}
		if hello.MaxFrame > 0 && int(hello.MaxFrame) < r.frame {
			return fmt.Errorf("%w: frames of up to %d bytes, the broker takes %d", ErrConfig, r.frame, hello.MaxFrame)
		}
		p, err := newProducer(w, l, n, r.lanesOf(n))
		if err != nil {
			return err
		}
		w.producers = append(w.producers, p)
	}
	if r.target.Echo || r.part.Consume.Of == 0 {
		return nil
	}
	l, _, err := dial(w.loop, r.target, r.talk(), wire.AnyShard, r.readBuf(), fetchBytes+r.frame+adminBuf)
	if err != nil {
		return fmt.Errorf("reader: %w", err)
	}
	w.reader = newReader(w, l, r.partsOf(w.number))
	return nil
}

// measure produces until the run's end, waits for the answers, and reads back.
func (w *worker) measure() error {
	if w.reader != nil {
		w.reader.stop = w.run.load.Reading == After
	}
	before, _ := machine.ThreadSchedule("/") // share looks whether it is known
	began := w.loop.Clock.Now()
	err := w.produce()
	w.cpu = share(before, began, w.loop.Clock.Now())
	w.run.finished()
	if w.reader == nil || err != nil {
		return err
	}
	return w.readRest()
}

// produce sends until the time is over and waits until everything is answered.
func (w *worker) produce() error {
	for ended := drive.Far; ; {
		now := w.loop.Clock.Now()
		if !w.sentAll(now) && now < w.run.until+int64(answerWait) {
			if err := w.turn(now, max(now, w.run.until)); err != nil {
				return err
			}
			continue
		}
		ended = min(ended, now)
		limit := ended + int64(answerWait)
		if w.answered() {
			return nil
		}
		if now > limit {
			for _, p := range w.producers {
				p.abandon()
			}
			return nil
		}
		if err := w.turn(now, limit); err != nil {
			return err
		}
	}
}

// sentAll reports whether the producers have sent what they are to: as many
// messages as were asked for or, if that is less, all that were due until the end,
// however late they are.
func (w *worker) sentAll(now int64) bool {
	for _, p := range w.producers {
		if p.group < p.groups && (now < w.run.until || p.due != nil && p.dueAt() < w.run.until) {
			return false
		}
	}
	return true
}

func (w *worker) answered() bool {
	for _, p := range w.producers {
		if !p.idle() {
			return false
		}
	}
	return true
}

// turn offers what is due at now and turns the loop once, idling at most until
// limit.
func (w *worker) turn(now, limit int64) error {
	if w.run.failed.Load() {
		return errStopped
	}
	w.pane.Show()
	for _, p := range w.producers {
		limit = min(limit, p.offer(now))
		if p.link.Err != nil {
			return p.link.Err
		}
	}
	if w.reader != nil {
		w.reader.ask()
		if w.reader.link.Err != nil {
			return w.reader.link.Err
		}
	}
	return w.loop.Turn(limit)
}

// readRest reads until everything acknowledged is seen, or nothing more comes.
func (w *worker) readRest() error {
	for over := false; ; {
		now := w.loop.Clock.Now()
		if !over && w.run.allProduced() {
			over, w.reader.lastSeen = true, now
		}
		w.reader.stop = w.paused(now) || !over && w.run.load.Reading == After
		if over && (w.reader.doneAll() || now-w.reader.lastSeen > int64(readWait)) {
			return nil
		}
		if err := w.turn(now, now+int64(readWait)); err != nil {
			return err
		}
	}
}

// paused reports whether the consumer that pauses does so now.
func (w *worker) paused(now int64) bool {
	return w.drain && now >= w.run.from && now < w.run.from+int64(w.run.load.Pause)
}

// close ends the connections.
func (w *worker) close() error {
	var errs []error
	for _, p := range w.producers {
		errs = append(errs, p.link.Close(w.loop))
	}
	if w.reader != nil {
		errs = append(errs, w.reader.link.Close(w.loop))
	}
	return errors.Join(errs...)
}

// acked records an acknowledged request.
func (w *worker) acked(r *request, now int64) {
	if now >= w.run.from && now < w.run.until {
		w.ackedIn += r.count
		w.lastAck = now
	}
	w.series.Done(now-w.run.from, r.count)
	from := r.intended
	if !w.run.open {
		from = r.sent
	}
	w.pane.Acked(now-from, r.count)
	if r.intended < w.run.from {
		return // warm-up
	}
	w.service.Record(now-r.sent, r.count)
	if !w.run.open {
		w.ack.Record(now-r.sent, r.count)
		w.series.Record(r.sent-w.run.from, now-w.run.from, 0, r.count)
		return
	}
	w.burst(r.intended, now)
	w.ack.Record(now-r.intended, r.count)
	w.lag.Record(r.sent-r.intended, r.count)
	w.series.Record(r.intended-w.run.from, now-w.run.from, r.sent-r.intended, r.count)
	if !r.held {
		w.late.Record(r.ready-r.intended, r.count)
	}
}

// mostBursts bounds the bursts that are told apart.
const mostBursts = 1 << 12

// burst notes an answer to a message of a burst.
func (w *worker) burst(intended, now int64) {
	b := &w.run.load.Burst
	if b.Messages == 0 {
		return
	}
	n := (intended - w.run.start) / int64(b.Period)
	if n >= int64(len(w.overs)) {
		return
	}
	end := w.run.start + n*int64(b.Period) + int64(b.Length)
	w.overs[n] = max(w.overs[n], now-end)
}

// came records by how much the client came late to messages that the broker held
// up.
func (w *worker) came(late, intended, messages int64) {
	if intended >= w.run.from {
		w.late.Record(late, messages)
	}
}

// received records a message read while it is produced.
func (w *worker) received(s stamp, now int64) {
	if w.drain {
		w.series.Drain(now - w.run.from)
		return
	}
	if w.run.load.Reading != Live {
		return
	}
	w.series.ReadOne(s.time-w.run.from, now-w.run.from)
	w.pane.Read(now - s.time)
	if s.time >= w.run.from {
		w.endToEnd.Record(now-s.time, 1)
		w.endToEndService.Record(now-s.time-int64(s.late), 1)
	}
}

func (w *worker) refused(messages int64, code wire.Code, message string) {
	w.refusals += messages
	if w.refusal == "" {
		w.refusal = fmt.Sprintf("%s %s", code, message)
	}
}
