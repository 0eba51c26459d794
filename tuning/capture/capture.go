// Package capture keeps what is read of a machine's files while it is looked at, so that
// somebody who does not have the machine can look at the same: see mqd check --root.
package capture

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mqd-broker/mqd/tuning"
)

// mostFile bounds what is kept of one file, in bytes. Those of the kernel are shorter.
const mostFile = 256 << 10

// Files are those of a machine, and remember what was asked of them. They are for one
// goroutine.
type Files struct {
	of    tuning.Files
	texts map[string][]byte // of files
	links map[string]string // what a symbolic link leads to, from the root
	seen  map[string]bool   // what was found to be there
}

// New makes files that remember, of some that do not.
func New(of tuning.Files) *Files {
	return &Files{of, map[string][]byte{}, map[string]string{}, map[string]bool{}}
}

// Read is a file's content.
func (f *Files) Read(name string) ([]byte, error) {
	b, err := f.of.Read(name)
	if err == nil {
		f.texts[name] = b[:min(len(b), mostFile)]
	}
	return b, err
}

// Text is a file's content without the space around it, "" if it cannot be read.
func (f *Files) Text(name string) string {
	b, err := f.Read(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Exists reports whether something has the path.
func (f *Files) Exists(name string) bool {
	there := f.of.Exists(name)
	if there {
		f.seen[name] = true
	}
	return there
}

// Glob finds paths by a pattern.
func (f *Files) Glob(pattern string) []string {
	found := f.of.Glob(pattern)
	for _, name := range found {
		f.seen[name] = true
	}
	return found
}

// Resolve follows the symbolic links of a path.
func (f *Files) Resolve(name string) (string, error) {
	real, err := f.of.Resolve(name)
	if err == nil {
		if f.seen[real] = true; real != name {
			f.links[name] = real
		}
	}
	return real, err
}

// Entry is a file, a directory or a symbolic link that was looked at.
type Entry struct {
	// Name is its path below the root.
	Name string
	// Text is a file's content.
	Text []byte
	// Link is where a symbolic link leads, from the directory that it is in; "" is none.
	Link string
	// Dir says that it is a directory.
	Dir bool
}

// Entries are what the next one has to find to see the same machine, in the order of
// their names. What was found to be there, and not read, is a directory.
func (f *Files) Entries() []Entry {
	all := map[string]Entry{}
	for name := range f.seen {
		all[f.place(name)] = Entry{Dir: true}
	}
	for name, text := range f.texts {
		all[f.place(name)] = Entry{Text: text}
	}
	for name, real := range f.links {
		if at := f.place(path.Dir(name)) + "/" + path.Base(name); at != real {
			link, err := filepath.Rel(path.Dir(at), real)
			if err == nil {
				all[at] = Entry{Link: link}
			}
		}
	}
	var entries []Entry
	for name, e := range all {
		e.Name = name
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries
}

// place is a path without the links that are known.
func (f *Files) place(name string) string {
	for dir := name; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if real, ok := f.links[dir]; ok {
			return real + strings.TrimPrefix(name, dir)
		}
	}
	return name
}
