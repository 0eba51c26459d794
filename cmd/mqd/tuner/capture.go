package tuner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/mqd-broker/mqd/internal/quantity"
	"github.com/mqd-broker/mqd/tuning/capture"
)

// capture writes what a check reads of the machine to a new file.
func (s *subject) capture(w io.Writer, name string) (err error) {
	dir, err := filepath.Abs(s.needs.DataDir(s.dir))
	if err != nil {
		return err
	}
	m, err := s.machine()
	if err != nil {
		return err
	}
	all := capture.Take(m, []string{dir}, m.Text("proc/sys/kernel/hostname"))
	var archive bytes.Buffer
	if err := capture.Write(&archive, all); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(archive.Bytes())
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s has %s of this machine; look through it before you send it\n"+
		"to check the machine elsewhere: mkdir machine && tar -xzf %s -C machine && mqd check --root machine --data-dir %s\n",
		name, quantity.Of(len(all), "file", "files"), name, dir)
	return err
}
