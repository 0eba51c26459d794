package catchup

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/drive"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
	"github.com/mqd-broker/mqd/net/wire"
)

// bareName is the name of the file of the bare loop.
func bareName() string { return fmt.Sprintf("mqd-bench-%d.log", os.Getpid()) }

// bare is the floor: a server that answers every fetch with the next piece of a file, read
// with O_DIRECT, and does nothing else. A piece is pieceBytes of the file, with whole batches
// from its start on. It serves one client after the other.
type bare struct {
	served served
	path   string
	drv    aio.Driver
	loop   *drive.Loop
	file   aio.File
	link   *drive.Link // of the client that is served
	sock   aio.Sock    // its
	queue  []aio.Sock  // of clients that have come meanwhile
	parts  []barePart
	layout layout
	ready  []*barePart // read, and not sent
	sent   aio.Op
	accept aio.Op
	fail   error
	over   atomic.Bool
	done   sync.WaitGroup
	err    error
}

// layout says where batches are in the file: pieces of a partition one behind the other, and
// partitions one behind the other.
type layout struct {
	batches int   // in a piece
	used    int   // bytes of a piece
	pieces  int64 // of a partition
}

// barePart is a partition: it has one answer in the works at a time.
type barePart struct {
	b        *bare
	number   int32
	buf, top []byte // a piece, and what stands in front of it
	vec      [2][]byte
	read     aio.Op
	offset   int64 // asked for
	asked    bool
	busy     bool // the piece is being read, waits, or is being sent
}

// startBare makes the file and starts the loop on a thread tied to cpu. Each partition has
// messages or a little more, so that pieces are whole.
func startBare(p bench.Platform, path string, partitions int, messages int64, cpu int) (*bare, error) {
	b := &bare{path: path, file: aio.NoFile, parts: make([]barePart, partitions)}
	started := make(chan error, 1)
	b.done.Go(func() {
		o := aio.Options{Entries: 256, ArenaBytes: int64(partitions+1)*(pieceBytes+aio.BlockSize) + 4*sendBuf + 1<<20, RecvBuffers: 64, Files: 4, Helpers: 1}
		b.err = drive.OnThread(p, cpu, o, func(drv aio.Driver) error {
			b.drv, b.loop = drv, drive.NewLoop(drv, p, drive.Adaptive)
			return errors.Join(b.main(messages, started), b.remove())
		})
		select {
		case started <- b.err:
		default:
		}
	})
	if err := <-started; err != nil {
		b.done.Wait()
		return nil, err
	}
	return b, nil
}

// main is the loop's thread.
func (b *bare) main(messages int64, started chan<- error) error {
	addr, sock, err := b.open(messages)
	if err != nil {
		return err
	}
	b.served.target = bench.Target{Addr: addr, Echo: true}
	started <- nil
	return b.serve(sock)
}

// stop ends the loop, removes the file and returns what went wrong.
func (b *bare) stop() error {
	b.over.Store(true)
	b.done.Wait()
	return b.err
}

// remove removes the file, if it has been made.
func (b *bare) remove() error {
	if b.file == aio.NoFile {
		return nil
	}
	return aio.DoFile(b.drv, &aio.FileOp{Kind: aio.FileRemove, Path: b.path})
}

// open writes the file and listens.
func (b *bare) open(messages int64) (addr string, sock aio.Sock, err error) {
	f, _, err := aio.OpenFile(b.drv, b.path, aio.OpenWrite|aio.OpenCreate|aio.OpenDirect)
	if err != nil {
		return "", sock, err
	}
	b.file = f
	for i := range b.parts {
		pt := &b.parts[i]
		*pt = barePart{b: b, number: int32(i)}
		if pt.buf, err = b.drv.Alloc(pieceBytes); err != nil {
			return "", sock, err
		}
		if pt.top, err = b.drv.Alloc(aio.BlockSize); err != nil {
			return "", sock, err
		}
	}
	if err := b.write(messages); err != nil {
		return "", sock, err
	}
	if sock, addr, err = b.drv.Listen("127.0.0.1:0", aio.ListenAlone); err != nil {
		return "", sock, err
	}
	b.accept = aio.Op{Kind: aio.KindAccept, Sock: sock, Owner: (*acceptor)(b)}
	b.drv.Submit(&b.accept)
	return addr, sock, nil
}

// write fills the file and says how it is laid out and where partitions end.
func (b *bare) write(messages int64) error {
	one := batchOf(batchMessages)
	b.layout.batches = pieceBytes / len(one)
	b.layout.used = b.layout.batches * len(one)
	each := int64(b.layout.batches * batchMessages)
	b.layout.pieces = (messages + each - 1) / each
	buf := b.parts[0].buf
	for i := range b.parts {
		for piece := range b.layout.pieces {
			for n := range b.layout.batches {
				at := buf[n*len(one):]
				copy(at, one)
				batch.Stamp(at[:len(one)], piece*each+int64(n)*batchMessages, 0)
			}
			if err := aio.WriteAt(b.drv, b.file, buf, b.at(int32(i), piece), 0); err != nil {
				return err
			}
		}
		b.served.ends = append(b.served.ends, b.layout.pieces*each)
	}
	return aio.DoFile(b.drv, &aio.FileOp{Kind: aio.FileSync, File: b.file})
}

// at is where a piece is in the file.
func (b *bare) at(part int32, piece int64) int64 {
	return (int64(part)*b.layout.pieces + piece) * pieceBytes
}

// batchOf is a batch of messages of messageBytes bytes.
func batchOf(messages int) []byte {
	bl := batch.NewBuilder(nil, pieceBytes)
	bl.Reset(nil)
	value := make([]byte, messageBytes)
	for i := range value {
		value[i] = byte(i*131 + i>>3)
	}
	for range messages {
		if bl.Append(&batch.Record{Value: value}) != nil {
			invariant.Violated("catchup: a batch is within its bound")
		}
	}
	return bl.Finish(batch.CodecNone)
}

// serve answers until it is told to end.
func (b *bare) serve(sock aio.Sock) error {
	for !b.over.Load() && b.fail == nil {
		b.welcome()
		b.send()
		if err := b.loop.Turn(drive.Far); err != nil {
			return err
		}
		if b.link != nil && b.link.Err != nil { // the client has gone
			if err := b.hangUp(); err != nil {
				return err
			}
		}
	}
	b.drv.Cancel(&b.accept)
	for b.accept.InFlight() {
		if err := b.loop.Turn(drive.Far); err != nil {
			return err
		}
	}
	for _, s := range b.queue {
		b.fail = errors.Join(b.fail, aio.Do(b.drv, &aio.Op{Kind: aio.KindCloseSock, Sock: s}))
	}
	return errors.Join(b.fail, b.hangUp(), aio.Do(b.drv, &aio.Op{Kind: aio.KindCloseSock, Sock: sock}), aio.CloseFile(b.drv, b.file))
}

// hangUp ends the connection, if there is one.
func (b *bare) hangUp() error {
	if b.link == nil {
		return nil
	}
	b.drv.Cancel(&b.sent)
	for busy := true; busy; {
		busy = b.sent.InFlight()
		for i := range b.parts {
			busy = busy || b.parts[i].read.InFlight()
		}
		if busy {
			if err := b.loop.Turn(drive.Far); err != nil {
				return err
			}
		}
	}
	err := b.link.Close(b.loop)
	b.link, b.ready = nil, b.ready[:0]
	for i := range b.parts {
		b.parts[i].busy, b.parts[i].asked = false, false
	}
	return err
}

// acceptor takes the connections of a bare loop.
type acceptor bare

// Complete implements aio.Completer.
func (a *acceptor) Complete(op *aio.Op) {
	b := (*bare)(a)
	if op.Err != nil {
		return
	}
	b.queue = append(b.queue, op.NewSock)
}

// welcome takes the next client, if there is none. The end of the one before may come to light
// behind it.
func (b *bare) welcome() {
	if b.link != nil || len(b.queue) == 0 {
		return
	}
	b.sock, b.queue = b.queue[0], b.queue[1:]
	b.link, b.fail = drive.NewLink(b.drv, b.sock, b, sendBuf, sendBuf)
}

// Frame implements drive.Framer: it takes a fetch.
func (b *bare) Frame(_ *drive.Link, h wire.Header, body []byte, _ int64) error {
	req, err := wire.DecodeFetchRequest(body)
	if err != nil {
		return err
	}
	if h.Op != wire.OpFetch || int(req.Partition) >= len(b.parts) || h.Correlation != uint32(req.Partition) {
		return fmt.Errorf("%w: a bare loop was asked for %s of partition %d", bench.ErrConfig, h.Op, req.Partition)
	}
	pt := &b.parts[req.Partition]
	pt.offset, pt.asked = req.Offset, true
	pt.start()
	return nil
}

// start reads what is asked for, unless the piece before is still being sent.
func (pt *barePart) start() {
	if pt.busy || !pt.asked {
		return
	}
	b := pt.b
	piece := pt.offset / int64(b.layout.batches*batchMessages)
	if piece >= b.layout.pieces {
		b.fail = fmt.Errorf("%w: a bare loop was asked for offset %d of partition %d, which ends at %d", bench.ErrConfig, pt.offset, pt.number, b.served.ends[pt.number])
		return
	}
	pt.busy, pt.asked = true, false
	pt.read = aio.Op{Kind: aio.KindRead, File: b.file, Off: b.at(pt.number, piece), Buf: pt.buf, Owner: pt}
	b.drv.Submit(&pt.read)
}

// Complete implements aio.Completer: a piece has been read.
func (pt *barePart) Complete(op *aio.Op) {
	b := pt.b
	if op.Err != nil || op.N != len(op.Buf) {
		b.fail = errors.Join(op.Err, fmt.Errorf("read %d of %d bytes at %d of %s", op.N, len(op.Buf), op.Off, b.path))
		return
	}
	b.ready = append(b.ready, pt)
}

// send sends the next piece that is ready.
func (b *bare) send() {
	if len(b.ready) == 0 || b.sent.InFlight() || b.link == nil {
		return
	}
	pt := b.ready[0]
	b.ready = b.ready[:copy(b.ready, b.ready[1:])]
	end := b.served.ends[pt.number]
	resp := wire.FetchResponse{Class: wire.ClassFlushed, Durable: end, End: end, NextOffset: pt.offset + int64(b.layout.batches*batchMessages)}
	pt.vec = [2][]byte{wire.AppendFetchResponseHeader(pt.top[:0], uint32(pt.number), &resp, b.layout.used), pt.buf[:b.layout.used]}
	b.sent = aio.Op{Kind: aio.KindSend, Sock: b.sock, Vec: pt.vec[:], Owner: (*sender)(pt)}
	b.drv.Submit(&b.sent)
}

// sender is the partition whose piece is being sent.
type sender barePart

// Complete implements aio.Completer. What the client has done with the connection, its own
// side tells.
func (s *sender) Complete(*aio.Op) {
	pt := (*barePart)(s)
	pt.busy = false
	pt.start()
}
