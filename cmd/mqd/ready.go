package main

import (
	"errors"
	"fmt"
	"os"
)

// readiness is how mqd serve tells whoever waits for it that clients can connect,
// and where.
type readiness struct {
	path string // of a file, "" for none
	fd   int    // an open file, -1 for none

	part string   // the file under its first name, while it is empty
	pipe *os.File // of fd
}

// prepare finds out, before anything else is done, whether it will be possible to
// tell.
func (r *readiness) prepare() error {
	if r.fd < -1 {
		return fmt.Errorf("--ready-fd is %d, expected a file descriptor that is open for writing", r.fd)
	}
	if r.fd >= 0 {
		r.pipe = os.NewFile(uintptr(r.fd), fmt.Sprintf("descriptor %d", r.fd))
		// Nothing is written, but only to what can be written to.
		if _, err := r.pipe.Write(nil); err != nil {
			return fmt.Errorf("--ready-fd is %d, which is not open for writing: %w", r.fd, err)
		}
	}
	if r.path == "" {
		return nil
	}
	if info, err := os.Stat(r.path); err == nil && info.IsDir() {
		return fmt.Errorf("--ready-file: %s is a directory", r.path)
	}
	part := r.path + ".part"
	if err := os.WriteFile(part, nil, 0o644); err != nil {
		return fmt.Errorf("--ready-file: %w", err)
	}
	r.part = part
	return nil
}

// tell tells the address. Whoever sees the file sees all of it.
func (r *readiness) tell(addr string) error {
	line := []byte(addr + "\n")
	if r.part != "" {
		err := os.WriteFile(r.part, line, 0o644)
		if err == nil {
			err = os.Rename(r.part, r.path)
		}
		if err != nil {
			return fmt.Errorf("--ready-file: %w", err)
		}
		r.part = ""
	}
	if r.pipe != nil {
		_, err := r.pipe.Write(line)
		if err := errors.Join(err, r.pipe.Close()); err != nil {
			return fmt.Errorf("--ready-fd %d: %w", r.fd, err)
		}
	}
	return nil
}

// forget removes what was prepared and not told.
func (r *readiness) forget() {
	if r.part != "" {
		_ = os.Remove(r.part) // nobody reads it
	}
}
