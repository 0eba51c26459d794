// Package inspect shows what is in the files of a data directory: journals, segments,
// indexes, checkpoints, the catalog and the node file.
//
// It reads one file by itself, believes no number in it that the file's size does not
// bear out, and goes on behind damage where that can be: a journal at the next round
// that can be read, a log at the next batch, an index at the next entry. A file is known
// by how it begins, or by its name where that is damaged. Nothing is changed, no lock is
// taken and memory is bounded; of a checkpoint or a snapshot all is read at once.
//
// What is shown is for people and for tools that look for one thing. Whether a data
// directory is whole is told by package verify, which holds its files against each other.
package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

// ErrUnknown: the file is none of a data directory.
var ErrUnknown = errors.New("neither its name nor its content is that of a file of a data directory")

// form is what a file is.
type form uint8

const (
	formUnknown form = iota
	formNode
	formCheckpoint
	formCatalog
	formIndex
	formJournal
	formLog
)

// How files begin, as docs/format has it.
var magics = map[uint32]form{
	0x4d51444e: formNode,       // MQDN
	0x4d514443: formCheckpoint, // MQDC
	0x4d51444b: formCatalog,    // MQDK
	0x4d514449: formIndex,      // MQDI
	0x4d51444a: formJournal,    // MQDJ
}

// maxDepth bounds how far Path goes down: topics, a topic, a partition.
const maxDepth = 6

// Path shows the file or the directory path, in order of names. What is no file of a data
// directory is an error if it is path itself, and passed over in a directory. What of a
// directory cannot be read, as a link that leads nowhere, does not end it: the error tells of
// all of that. An error of show ends it.
func Path(fs aio.FS, path string, show func(*Item) error) error {
	entries, err := fs.ReadDir(path)
	if err != nil {
		return file(fs, path, show)
	}
	d := &descent{fs: fs, show: show}
	d.directory(path, entries, maxDepth)
	if !d.any && d.ended == nil && len(d.errs) == 0 {
		return fmt.Errorf("no file of a data directory in %s", path)
	}
	return errors.Join(append(d.errs, d.ended)...)
}

// mostErrors is how many errors of a directory are told.
const mostErrors = 20

// descent shows a directory and what is below.
type descent struct {
	fs    aio.FS
	show  func(*Item) error
	errs  []error
	ended error // of show
	any   bool  // a file of a data directory has been met
}

func (d *descent) directory(dir string, entries []aio.DirEntry, depth int) {
	for _, e := range entries {
		path := filepath.Join(dir, e.Name)
		if !e.Dir {
			d.note(file(d.fs, path, d.item))
		} else if below, err := d.fs.ReadDir(path); err != nil {
			d.note(err)
		} else if depth > 0 {
			d.directory(path, below, depth-1)
		}
		if d.ended != nil {
			return
		}
	}
}

// item shows an item, and remembers the error that ends everything.
func (d *descent) item(it *Item) error {
	d.ended = d.show(it)
	return d.ended
}

// note keeps an error of a file, if it is none of show's and no stranger among the files.
func (d *descent) note(err error) {
	d.any = d.any || !errors.Is(err, ErrUnknown)
	if err != nil && d.ended == nil && !errors.Is(err, ErrUnknown) && len(d.errs) < mostErrors {
		d.errs = append(d.errs, err)
	}
}

// file shows one file.
func file(fs aio.FS, path string, show func(*Item) error) error {
	f, err := fs.Open(path, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	size, err := f.Size()
	if err != nil {
		return err
	}
	return Content(path, f, size, show)
}

// Content shows a file of size bytes that is called path. An error is ErrUnknown, one of
// reading, or one of show.
func Content(path string, r io.ReaderAt, size int64, show func(*Item) error) error {
	c := &content{path: path, r: r, size: size, show: show}
	what := c.recognize()
	if what == formUnknown {
		return fmt.Errorf("%s: %w", path, ErrUnknown)
	}
	c.item(0, "file").text("path", path).text("form", formNames[what]).num("bytes", size)
	switch what {
	case formNode:
		c.nodeFile()
	case formCheckpoint:
		c.checkpoint()
	case formCatalog:
		c.snapshot()
	case formIndex:
		c.index()
	case formJournal:
		c.journal()
	case formLog:
		c.log()
	}
	c.flush()
	return c.err
}

var formNames = [...]string{formUnknown: "unknown", formNode: "node file", formCheckpoint: "checkpoint",
	formCatalog: "catalog snapshot", formIndex: "index", formJournal: "journal", formLog: "log"}

// content is a file that is being shown.
type content struct {
	path string
	r    io.ReaderAt
	size int64
	show func(*Item) error
	err  error // the first one of reading or of show
	last *Item // not yet shown
}

// recognize tells what the file is: by its first bytes, then by its name.
func (c *content) recognize() form {
	var b [4]byte
	if n, _ := c.r.ReadAt(b[:], 0); n == len(b) {
		if what := magics[binary.BigEndian.Uint32(b[:])]; what != formUnknown {
			return what
		}
	}
	name := filepath.Base(c.path)
	kind, _ := segment.ParseName(name)
	_, isCheckpoint := checkpoint.ParseFileName(name)
	_, isJournal := layout.ParseJournalName(name)
	switch {
	case name == checkpoint.NodeFile:
		return formNode
	case isCheckpoint:
		return formCheckpoint
	case isJournal:
		return formJournal
	case name == "catalog.a" || name == "catalog.b":
		return formCatalog
	case kind == segment.KindIndex || strings.HasSuffix(name, ".index"):
		return formIndex
	case kind == segment.KindLog || strings.HasSuffix(name, ".log"):
		return formLog
	}
	return formUnknown
}

// item begins an item; the one before is shown.
func (c *content) item(depth int, kind string) *Item {
	c.flush()
	c.last = &Item{Type: kind, depth: depth}
	return c.last
}

// flush shows the item that has been begun last.
func (c *content) flush() {
	if c.last != nil && c.err == nil {
		c.err = c.show(c.last)
	}
	c.last = nil
}

// damage begins an item about damage at a position.
func (c *content) damage(depth int, pos int64, reason string) *Item {
	return c.item(depth, "damage").num("position", pos).text("reason", reason)
}

// ended reports whether nothing more is to be shown.
func (c *content) ended() bool { return c.err != nil }

// bytes reads n bytes at pos into buf, which grows. It returns fewer at the end of the
// file or where the device does not read; ok tells whether all are there.
func (c *content) bytes(buf []byte, pos int64, n int) (b []byte, ok bool) {
	if pos < 0 || pos >= c.size || n < 0 {
		return buf[:0], n == 0
	}
	want := n
	n = int(min(int64(n), c.size-pos))
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	got, err := c.r.ReadAt(buf[:n], pos)
	if err != nil && !errors.Is(err, io.EOF) && !aio.IsUnreadable(err) {
		c.fail(err)
	}
	return buf[:got], got == want
}

// fail ends the showing with an error of reading.
func (c *content) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// whole reads the file, if it is not larger than limit bytes.
func (c *content) whole(limit int64) ([]byte, bool) {
	if c.size > limit {
		c.damage(1, 0, fmt.Sprintf("expected at most %d bytes, found %d", limit, c.size))
		return nil, false
	}
	b, ok := c.bytes(nil, 0, int(c.size))
	if !ok {
		c.damage(1, int64(len(b)), "the device does not read on")
	}
	return b, ok
}
