package sim

import (
	"path"
	"strings"

	"github.com/mqd-broker/mqd/engine/aio"
)

// Ops is a set of kinds of operations, as faults and holds see them: those of
// the data path and the single filesystem calls of helpers alike.
type Ops uint32

// The kinds.
const (
	Reads     Ops = 1 << iota
	Writes        // with FlagDSYNC or without
	Flushes       // fdatasync and fsync
	Opens         // opening and creating
	Closes        // of files
	Allocates     //
	Truncates     //
	DirSyncs      //
	Renames       //
	Removes       //
	Mkdirs        //
	ReadDirs      //
	Locks         //
	Stats         // of a file's size and of the filesystem
	Accepts       //
	Receives      //
	Sends         //
)

// Filter chooses operations. The zero Filter chooses all.
type Filter struct {
	// Ops are the kinds; 0 means every kind.
	Ops Ops
	// Path is a pattern of package path for the file's path; without a slash
	// in it, for its base name. "" means every file, and sockets as well.
	Path string
	// Driver, when set, chooses the operations of that driver.
	Driver aio.Driver
}

// subject is an operation as filters see it.
type subject struct {
	op   Ops
	d    *Driver
	path string
	more string // the other path of a rename
}

func (f *Filter) match(s *subject) bool {
	switch {
	case f.Ops != 0 && f.Ops&s.op == 0:
		return false
	case f.Driver != nil && f.Driver != aio.Driver(s.d):
		return false
	case f.Path == "":
		return true
	}
	return matchPath(f.Path, s.path) || s.more != "" && matchPath(f.Path, s.more)
}

func matchPath(pattern, p string) bool {
	if !strings.Contains(pattern, "/") {
		p = path.Base(p)
	}
	ok, err := path.Match(pattern, p)
	return err == nil && ok
}

// subjectOf describes a data operation.
func (d *Driver) subjectOf(op *aio.Op) subject {
	s := subject{d: d}
	switch op.Kind {
	case aio.KindRead:
		s.op = Reads
	case aio.KindWrite:
		s.op = Writes
	case aio.KindFdatasync:
		s.op = Flushes
	case aio.KindAccept:
		s.op = Accepts
	case aio.KindRecv:
		s.op = Receives
	case aio.KindSend:
		s.op = Sends
	}
	if s.op&(Reads|Writes|Flushes) != 0 {
		if h := d.handle(op.File); h != nil {
			s.path = h.path
		}
	}
	return s
}
