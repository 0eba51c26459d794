package segment

import (
	"errors"
	"hash/crc32"
	"io"
	"reflect"
	"slices"

	"github.com/mqd-broker/mqd/engine/aio"
)

// readBytes is the size of a reader's buffer, and of its reads, unless the log is
// shorter.
const readBytes = 256 << 10

// maxUnreadable bounds the blocks that a job's reader replaces by zeros because
// the device fails to read them, besides a quarter of the log. More of them means
// that the device is gone, not that sectors are.
const maxUnreadable = 64

// logReader reads a log through one buffer of bounded size, whatever the log's
// lengths claim. Reads are aligned, so that the file may be open for direct I/O.
//
// For a job, a block that the device cannot read counts as zeros: its batches
// fail their checks like any other damage, and their neighbours stay readable.
type logReader struct {
	r   io.ReaderAt
	end int64 // size of the log

	buf   []byte
	start int64 // position of buf[0] in the log
	n     int   // bytes of the log in buf
	taken int64 // bytes read so far

	// job makes fill take up the checksum of every region, in order (it reads
	// up to where it is asked to read before it reads there), and go around
	// blocks that cannot be read.
	job        bool
	regions    []uint32 // checksums of the log from its start
	unreadable []int64  // positions of the blocks that stand as zeros
}

func newLogReader(r io.ReaderAt, end int64) *logReader {
	whole := (end + RegionBytes - 1) &^ (RegionBytes - 1)
	return &logReader{r: r, end: end, buf: AlignedBuffer(int(min(readBytes, max(whole, RegionBytes))))}
}

// newJobReader is newLogReader for a job, which wants all regions.
func newJobReader(r io.ReaderAt, end int64) *logReader {
	l := newLogReader(r, end)
	l.job, l.regions = true, make([]uint32, 0, regionCount(end))
	return l
}

// window returns the bytes that are at hand from pos on: at least one, unless pos
// is the end.
func (l *logReader) window(pos int64) ([]byte, error) {
	if pos >= l.end {
		return nil, nil
	}
	if pos < l.start || pos >= l.start+int64(l.n) {
		if err := l.fill(pos); err != nil {
			return nil, err
		}
	}
	return l.buf[pos-l.start : l.n], nil
}

// peek returns n bytes at pos, at most a block; fewer at the end.
func (l *logReader) peek(pos int64, n int) ([]byte, error) {
	w, err := l.window(pos)
	if err != nil {
		return nil, err
	}
	if len(w) < n && pos+int64(len(w)) < l.end {
		if err := l.fill(pos); err != nil {
			return nil, err
		}
		w = l.buf[pos-l.start : l.n]
	}
	return w[:min(n, len(w))], nil
}

// crc returns the CRC-32C of n bytes at pos, which the log must have.
func (l *logReader) crc(pos, n int64) (uint32, error) {
	var sum uint32
	for n > 0 {
		w, err := l.window(pos)
		if err != nil {
			return 0, err
		}
		w = w[:min(int64(len(w)), n)]
		sum = crc32.Update(sum, castagnoli, w)
		pos, n = pos+int64(len(w)), n-int64(len(w))
	}
	return sum, nil
}

// fill reads the buffer full from the block that holds pos.
func (l *logReader) fill(pos int64) error {
	start := pos &^ (RegionBytes - 1)
	for l.job && l.hashed() < start {
		if err := l.read(l.hashed()); err != nil {
			return err
		}
	}
	return l.read(start)
}

// hashed is the position up to which there are checksums.
func (l *logReader) hashed() int64 { return int64(len(l.regions)) * RegionBytes }

// read reads the buffer full from start.
func (l *logReader) read(start int64) error {
	want := int(min(int64(len(l.buf)), l.end-start))
	l.start, l.n = start, 0
	n, err := l.r.ReadAt(l.buf, start)
	switch {
	case n >= want:
	case err == nil || errors.Is(err, io.EOF):
		return &CorruptError{Pos: start + int64(n), Offset: -1, Check: CheckEnd, Expected: l.end, Found: start + int64(n)}
	case !l.job:
		return err
	default:
		if err := l.fillByBlocks(start, want); err != nil {
			return err
		}
	}
	l.n = want
	l.taken += int64(want)
	l.addRegions()
	return nil
}

// fillByBlocks reads around blocks that cannot be read.
func (l *logReader) fillByBlocks(start int64, want int) error {
	for at := 0; at < want; at += RegionBytes {
		block := l.buf[at : at+RegionBytes]
		n, err := l.r.ReadAt(block, start+int64(at))
		if n >= min(RegionBytes, want-at) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) && !aio.IsUnreadable(err) {
			return err
		}
		if pos := start + int64(at); !slices.Contains(l.unreadable, pos) {
			l.unreadable = append(l.unreadable, pos)
		}
		if len(l.unreadable) > min(maxUnreadable, 1+regionCount(l.end)/4) {
			return err
		}
		clear(block)
	}
	return nil
}

// addRegions takes up the regions in the buffer that come next.
func (l *logReader) addRegions() {
	next := l.hashed()
	if !l.job || next < l.start || next >= l.start+int64(l.n) {
		return
	}
	b := l.buf[next-l.start : l.n]
	for len(b) > 0 {
		piece := b[:min(len(b), RegionBytes)]
		l.regions = append(l.regions, crc32.Checksum(piece, castagnoli))
		b = b[len(piece):]
	}
}

// allRegions reads what has not been read and returns the checksums of all
// regions.
func (l *logReader) allRegions() ([]uint32, error) {
	if l.hashed() < l.end {
		if err := l.fill(l.end - 1); err != nil {
			return nil, err
		}
	}
	return l.regions, nil
}

// allZero reports whether everything from pos to the end is zero and, if not,
// where it is not.
func (l *logReader) allZero(pos int64) (bool, int64, error) {
	for pos < l.end {
		w, err := l.window(pos)
		if err != nil {
			return false, pos, err
		}
		for i, c := range w {
			if c != 0 {
				return false, pos + int64(i), nil
			}
		}
		pos += int64(len(w))
	}
	return true, pos, nil
}

// AlignedBuffer returns n bytes that begin at a multiple of RegionBytes.
func AlignedBuffer(n int) []byte {
	b := make([]byte, n+RegionBytes)
	skip := -reflect.ValueOf(b).Pointer() & (RegionBytes - 1)
	return b[skip : int(skip)+n : int(skip)+n]
}
