package undo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Dir is where records are, below the root. Its parent has to be there. It is not in the
// data directory, which belongs to the broker's user.
const Dir = "var/lib/mqd-tune"

// unfinished is the end of the name of a file that does not have its name yet.
const unfinished = ".mqd-unfinished"

var (
	// ErrChanged: a file has neither the content from before the changes nor that of
	// after them.
	ErrChanged = errors.New("undo: changed by somebody else since")
	// ErrFull: there is no number left for another record.
	ErrFull = errors.New("undo: no number left for a record")
)

// Files are those of a machine, below its root.
type Files interface {
	Read(path string) ([]byte, error)
	Glob(pattern string) []string
	Set(path, value string) error
	Create(path string, content []byte) error
	Rename(from, to string) error
	Remove(path string) error
	Mkdir(path string) error
	Sync(dir string) error
	// Lock keeps other processes out of a directory until it is released, or this one
	// has ended. It fails when another one has it.
	Lock(dir string) (release func(), err error)
}

// Load reads all records, the oldest first.
func Load(f Files) ([]*Record, error) {
	var all []*Record
	for _, name := range f.Glob(Dir + "/*.json") {
		content, err := f.Read(name)
		if err != nil {
			return nil, err
		}
		r, err := decode(name, content)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *Record) int { return a.number - b.number })
	return all, nil
}

// Apply makes the changes of a record, after it has written the record. Old and Existed
// of the changes are filled in. Changes that change nothing are left out, and without
// any nothing is written.
//
// A change that is refused does not stop the others; the error tells of all. Those that
// were made stay, and Revert takes them back.
func Apply(f Files, r *Record) error {
	if err := f.Mkdir(Dir); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	release, err := f.Lock(Dir)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	defer release()
	if err := r.write(f); err != nil {
		return errors.Join(fmt.Errorf("nothing was changed: %w", err), clean(f))
	}
	if len(r.Changes) == 0 {
		return clean(f)
	}
	var errs []error
	for _, c := range r.Changes {
		if err := c.put(f, c.New, true); err != nil {
			errs = append(errs, fmt.Errorf("%s: /%s: %w", c.ID, c.Path, err))
		}
	}
	return errors.Join(errs...)
}

// write writes the record, if it has changes that change something.
func (r *Record) write(f Files) error {
	if err := sweep(f); err != nil {
		return err
	}
	earlier, err := Load(f)
	if err != nil {
		return err
	}
	r.Version, r.number = Version, 1
	if n := len(earlier); n > 0 {
		r.number = earlier[n-1].number + 1
	}
	if r.number > mostRecords {
		return fmt.Errorf("%w: %s", ErrFull, nameOf(r.number))
	}
	if err := r.look(f); err != nil || len(r.Changes) == 0 {
		return err
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := f.Sync(path.Dir(Dir)); err != nil {
		return err
	}
	return replace(f, path.Join(Dir, nameOf(r.number)), append(content, '\n'))
}

// look fills in what the files have.
func (r *Record) look(f Files) error {
	var real []Change
	for _, c := range r.Changes {
		content, err := f.Read(c.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && c.Kind == File:
			c.Old, c.Existed = "", false
		case err != nil:
			return fmt.Errorf("%s: %w", c.ID, err)
		case c.Kind == Kernel:
			c.Old, c.Existed = Chosen(string(content)), true
		default:
			c.Old, c.Existed = string(content), true
		}
		if c.is(c.Old, c.Existed, c.New, true) {
			continue
		}
		real = append(real, c)
	}
	r.Changes = real
	return nil
}

// is compares two states of the file.
func (c *Change) is(a string, hasA bool, b string, hasB bool) bool {
	if c.Kind == Kernel {
		return same(a, b)
	}
	return hasA == hasB && a == b
}

// put gives the file a content, or removes it.
func (c *Change) put(f Files, content string, exists bool) error {
	switch {
	case c.Kind == Kernel:
		return f.Set(c.Path, content)
	case exists:
		return replace(f, c.Path, []byte(content))
	}
	if err := f.Remove(c.Path); err != nil {
		return err
	}
	return f.Sync(path.Dir(c.Path))
}

// Revert takes a record's changes back, the last one first, and removes the record.
// Files that somebody else has changed since are left, and the record stays, unless
// force is set. So they are when the kernel refuses a value. Where the kernel has a value
// follow another one, as the number of requests follows the scheduler, it is looked at
// again when that one is back.
func Revert(f Files, r *Record, force bool) error {
	release, err := f.Lock(Dir)
	if err != nil {
		return err
	}
	defer release()
	if err := sweep(f); err != nil {
		return err
	}
	if err := r.takeBack(f, force); err != nil {
		return err
	}
	if err := f.Remove(path.Join(Dir, nameOf(r.number))); err != nil {
		return err
	}
	if err := f.Sync(Dir); err != nil {
		return err
	}
	return clean(f)
}

// takeBack gives every file what it had.
func (r *Record) takeBack(f Files, force bool) error {
	foreign := map[string]bool{}
	for _, c := range slices.Backward(r.Changes) {
		foreign[c.Path] = errors.Is(c.revert(f, force), ErrChanged)
	}
	// What was ours and is otherwise now has followed another value of ours; what was not
	// may have come back with one.
	var errs []error
	for _, c := range slices.Backward(r.Changes) {
		if err := c.revert(f, force || !foreign[c.Path]); err != nil {
			errs = append(errs, fmt.Errorf("%s: /%s: %w", c.ID, c.Path, err))
		}
	}
	return errors.Join(errs...)
}

// Clean removes what an Apply or a Revert that was killed has left behind beside
// records, and the directory of records when there is none.
func Clean(f Files) error {
	if len(f.Glob(Dir)) == 0 {
		return nil
	}
	release, err := f.Lock(Dir)
	if err != nil {
		return err
	}
	defer release()
	return clean(f)
}

func clean(f Files) error {
	if err := sweep(f); err != nil {
		return err
	}
	if len(f.Glob(Dir+"/*")) > 0 {
		return nil
	}
	if err := f.Remove(Dir); err != nil {
		return err
	}
	return f.Sync(path.Dir(Dir))
}

// State says what a change's file has now.
type State string

// States.
const (
	// Made: what the change has put there.
	Made State = "made"
	// Back: what was there before.
	Back State = "taken back"
	// Other: neither.
	Other State = "changed since"
	// Gone: there is no such file any more, as of a drive that was removed.
	Gone State = "gone"
)

// State looks at the change's file.
func (c *Change) State(f Files) (State, error) {
	state, _, err := c.state(f)
	return state, err
}

func (c *Change) state(f Files) (State, string, error) {
	content, err := f.Read(c.Path)
	exists := err == nil
	switch {
	case !exists && !errors.Is(err, fs.ErrNotExist):
		return "", "", err
	case !exists && c.Kind == Kernel:
		return Gone, "", nil
	}
	now := string(content)
	if c.Kind == Kernel {
		now = Chosen(now)
	}
	switch {
	case c.is(now, exists, c.Old, c.Existed):
		return Back, now, nil
	case c.is(now, exists, c.New, true):
		return Made, now, nil
	}
	return Other, now, nil
}

func (c *Change) revert(f Files, force bool) error {
	if c.Kind == File {
		if err := f.Remove(c.Path + unfinished); err != nil {
			return err
		}
	}
	state, now, err := c.state(f)
	switch {
	case err != nil:
		return err
	case state == Back, state == Gone: // the values of a device go with it
		return nil
	case state == Other && !force:
		return fmt.Errorf("%w: found %q, expected %q; before it was %q", ErrChanged, clip(now), clip(c.New), clip(c.Old))
	}
	return c.put(f, c.Old, c.Existed)
}

// clip keeps a value short for an error.
func clip(text string) string {
	const most = 80
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// replace gives a file a content, so that it has the old or the new one whatever
// happens.
func replace(f Files, name string, content []byte) error {
	if err := f.Create(name+unfinished, content); err != nil {
		return err
	}
	if err := f.Rename(name+unfinished, name); err != nil {
		return err
	}
	return f.Sync(path.Dir(name))
}

// sweep removes records that never got their name: nothing was changed by them.
func sweep(f Files) error {
	for _, name := range f.Glob(Dir + "/*" + unfinished) {
		if err := f.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
