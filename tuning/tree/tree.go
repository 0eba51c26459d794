// Package tree reads and changes the files of a machine below a root directory:
// those of /proc and /sys, which are the kernel's, and those of /etc and /var. Tests
// give it a directory that looks like a machine.
//
// Paths have no slash at their beginning: "proc/sys/vm/swappiness".
package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// What is made can be read by everybody: there are no secrets in it.
const (
	fileMode = 0o644
	dirMode  = 0o755
)

// maxFile bounds what is read of a file, in bytes: /proc has some without an end.
const maxFile = 4 << 20

// ErrLocked: another process works in the directory.
var ErrLocked = errors.New("tree: another process works here")

// ErrTooLong is a file of more bytes than anybody should read.
var ErrTooLong = errors.New("tree: file is too long")

// Tree is a machine's files.
type Tree struct{ root string }

// New makes a tree of what is below root: "/" is this machine.
func New(root string) *Tree { return &Tree{root: root} }

// Root is the directory.
func (t *Tree) Root() string { return t.root }

func (t *Tree) at(path string) string { return filepath.Join(t.root, filepath.FromSlash(path)) }

// Read is a file's content.
func (t *Tree) Read(path string) ([]byte, error) {
	f, err := os.Open(t.at(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%w: %s has more than %d bytes", ErrTooLong, path, maxFile)
	}
	return b, err
}

// Text is a file's content without the space around it, "" if it cannot be read.
func (t *Tree) Text(path string) string {
	b, err := t.Read(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Exists reports whether something has the path.
func (t *Tree) Exists(path string) bool {
	_, err := os.Stat(t.at(path))
	return err == nil
}

// Glob finds paths by a pattern of path.Match, sorted: first by length, so that the
// second of eleven things comes before the tenth.
func (t *Tree) Glob(pattern string) []string {
	found, err := filepath.Glob(t.at(pattern))
	if err != nil {
		return nil
	}
	var paths []string
	for _, f := range found {
		if rel, err := filepath.Rel(t.root, f); err == nil {
			paths = append(paths, filepath.ToSlash(rel))
		}
	}
	slices.SortFunc(paths, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return paths
}

// Resolve follows the symbolic links of a path.
func (t *Tree) Resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(t.at(path))
	if err != nil {
		return "", err
	}
	root, err := filepath.EvalSymlinks(t.root)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("tree: %s leads to %s, outside %s", path, real, t.root)
	}
	return filepath.ToSlash(rel), nil
}

// Set writes to a file of the kernel, which takes a value in one write.
func (t *Tree) Set(path, value string) (err error) {
	f, err := os.OpenFile(t.at(path), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.WriteString(value)
	return err
}

// Create writes a new file, or one anew, and has the device write it.
func (t *Tree) Create(path string, content []byte) (err error) {
	f, err := os.OpenFile(t.at(path), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}

// Rename gives a file another name, in place of whatever has it.
func (t *Tree) Rename(from, to string) error { return os.Rename(t.at(from), t.at(to)) }

// Remove removes a file or an empty directory. One that is not there is no error.
func (t *Tree) Remove(path string) error {
	if err := os.Remove(t.at(path)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Mkdir makes a directory. One that is there is no error.
func (t *Tree) Mkdir(path string) error {
	if err := os.Mkdir(t.at(path), dirMode); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Sync has the device write which files a directory has.
func (t *Tree) Sync(dir string) (err error) {
	f, err := os.Open(t.at(dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Sync()
}

// Lock keeps other processes that ask for it out of a directory, until it is released or
// this process ends.
func (t *Tree) Lock(dir string) (release func(), err error) {
	f, err := os.Open(t.at(dir))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: %s", ErrLocked, dir)
		}
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // nothing was written through it
}
