package undo

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Version is that of the format of records.
const Version = 1

// ErrRecord is a record that cannot be understood.
var ErrRecord = errors.New("undo: record cannot be read")

// Kinds of changes.
const (
	// Kernel is a value of a file that the kernel has made, as in /proc/sys and /sys.
	Kernel = "kernel"
	// File is a whole file.
	File = "file"
)

// Change is what happens to one file.
type Change struct {
	// ID is what it is for, in the words of the caller.
	ID string `json:"id"`
	// Kind is Kernel or File.
	Kind string `json:"kind"`
	// Path is the file's, below the root.
	Path string `json:"path"`
	// Existed says that there was a file before; of Kernel there always is one.
	Existed bool `json:"existed"`
	// Old is what the file had, as it is written back: of a list of words that has the
	// chosen one in brackets, that word.
	Old string `json:"old"`
	// New is what it gets.
	New string `json:"new"`
}

// Record is a set of changes that are made, and taken back, together.
type Record struct {
	Version int       `json:"version"`
	Began   time.Time `json:"began"`
	// Boot is the kernel's id of the boot in which the changes were made. Kernel values
	// that nobody has made permanent end with it.
	Boot string `json:"boot"`
	// Profile and Program tell who decided.
	Profile string   `json:"profile"`
	Program string   `json:"program"`
	Changes []Change `json:"changes"`

	number int
}

// Number is the record's; later ones have higher numbers.
func (r *Record) Number() int { return r.number }

// recordName matches names of records.
var recordName = regexp.MustCompile(`^([0-9]{6})\.json$`)

// mostRecords is the highest number of a record.
const mostRecords = 999_999

func nameOf(number int) string { return fmt.Sprintf("%06d.json", number) }

// decode reads a record as strictly as possible: what it says will be written to files
// of root's.
func decode(name string, content []byte) (*Record, error) {
	r := &Record{}
	if err := json.Unmarshal(content, r); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRecord, name, err)
	}
	if r.Version != Version {
		return nil, fmt.Errorf("%w: %s: version %d, expected %d", ErrRecord, name, r.Version, Version)
	}
	for i, c := range r.Changes {
		if c.Kind != Kernel && c.Kind != File || c.Path != path.Clean(c.Path) || strings.HasPrefix(c.Path, "/") || strings.HasPrefix(c.Path, "..") {
			return nil, fmt.Errorf("%w: %s: change %d of %q has kind %q", ErrRecord, name, i, c.Path, c.Kind)
		}
	}
	m := recordName.FindStringSubmatch(path.Base(name))
	if m == nil {
		return nil, fmt.Errorf("%w: %s: expected a name such as %s", ErrRecord, name, nameOf(1))
	}
	r.number, _ = strconv.Atoi(m[1]) // six digits
	return r, nil
}

// Chosen is the value that a file of the kernel has: of a list of words with brackets
// around one, that one; else the text.
func Chosen(text string) string {
	text = strings.TrimSpace(text)
	for _, word := range strings.Fields(text) {
		if inner, ok := strings.CutPrefix(word, "["); ok {
			if inner, ok = strings.CutSuffix(inner, "]"); ok {
				return inner
			}
		}
	}
	return text
}

// same compares two values of a file of the kernel, which separates numbers by tabs
// where others write spaces.
func same(a, b string) bool { return slices.Equal(strings.Fields(a), strings.Fields(b)) }
