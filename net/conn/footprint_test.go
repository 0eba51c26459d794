package conn

import (
	"reflect"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

// maxIdle is what a connection may have of this package while nothing is in the works, in
// bytes, of the 16 KiB that it may have in all. The tests of the protocols hold the rest.
const maxIdle = 10 << 10

// What a connection keeps is its own struct and the room for parts of its output. Whatever
// else it has at times, buffers and frames, belongs to the server and is counted there.
func TestAnIdleConnectionIsSmallByHowItIsMade(t *testing.T) {
	conn, part := reflect.TypeFor[Conn]().Size(), reflect.TypeFor[part]().Size()
	if n := conn + keepParts*part; n > maxIdle {
		t.Errorf("%d bytes for a connection and %d for each of %d parts are %d, expected at most %d", conn, part, keepParts, n, maxIdle)
	}
	t.Logf("%d bytes, and up to %d parts of %d", conn, keepParts, part)
}

// stuff answers with many parts at once.
func (o *output) stuff(n int) {
	for range n {
		o.push(part{kind: lent})
	}
	for range n {
		o.pop()
	}
}

// After a large answer a connection is not larger for ever.
func TestRoomForALargeAnswerIsGivenBack(t *testing.T) {
	s := &Server{}
	door := &Door{opts: DoorOptions{}.WithDefaults()}
	c := &Conn{srv: s, door: door, sock: aio.NoSock, established: true}
	room := func() int { return len(c.out.ring) }
	c.out.stuff(keepParts)
	if c.check(int64(10 * watchEvery)); room() != keepParts {
		t.Errorf("room for %d parts after %d, expected it to be kept", room(), keepParts)
	}
	c.out.stuff(keepParts + 1)
	large := room()
	c.active = int64(20 * watchEvery)
	if c.check(c.active + int64(watchEvery)); room() != large {
		t.Errorf("room for %d parts of %d, shortly after an answer", room(), large)
	}
	c.out.push(part{kind: lent})
	if c.check(c.active + int64(watchEvery) + 1); room() != large {
		t.Errorf("room for %d parts of %d, while one waits", room(), large)
	}
	c.out.pop()
	if c.check(c.active + int64(watchEvery) + 1); room() != 0 {
		t.Errorf("room for %d parts when nothing has happened for long", room())
	}
	c.out.stuff(3)
	if room() != 8 {
		t.Errorf("room for %d parts, expected 8", room())
	}
	c.out.stuff(keepParts + 1)
	if s.retire(c); room() != 0 {
		t.Errorf("the next connection gets room for %d parts", room())
	}
}
