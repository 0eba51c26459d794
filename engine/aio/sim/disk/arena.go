package disk

// arenaChunk is the size, in bytes, of the pieces in which the log takes memory.
const arenaChunk = 64 << 10

// arena holds the log's copies of written bytes. It is emptied whenever the log
// is, and keeps its memory.
type arena struct {
	chunks [][]byte
	cur    int
	used   int
}

func (a *arena) copy(b []byte) []byte {
	if len(a.chunks) > 0 && a.used+len(b) > arenaChunk {
		a.cur++
		a.used = 0
	}
	if a.cur == len(a.chunks) {
		a.chunks = append(a.chunks, make([]byte, arenaChunk))
	}
	dst := a.chunks[a.cur][a.used : a.used+len(b) : a.used+len(b)]
	a.used += len(b)
	copy(dst, b)
	return dst
}

// reset empties the arena; beyond a bound its memory is given back.
func (a *arena) reset() {
	a.cur, a.used = 0, 0
	if len(a.chunks) > 256 {
		a.chunks = a.chunks[:256]
	}
}
