package bundler

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"time"
)

const (
	// mostText, mostFile and mostAll bound a file in which secrets have to be looked for,
	// any file, and all of a bundle before it is compressed, in bytes.
	mostText = 1 << 20
	mostFile = 16 << 20
	mostAll  = 64 << 20
	// form is the manifest's.
	form = "mqd-bundle/1"
	// manifestName is the file that lists the others.
	manifestName = "manifest.json"
)

// errTooLong: something does not fit, and a part of it says nothing.
var errTooLong = errors.New("longer than a bundle takes")

// entry is a file of a bundle, or one that is missing.
type entry struct {
	Name string `json:"name"`
	// What says what it is, in a phrase.
	What  string    `json:"what"`
	At    time.Time `json:"at"`
	Bytes int       `json:"bytes"`
	// Cut says that there was more of it.
	Cut bool `json:"cut,omitempty"`
	// Missing says why it is not there.
	Missing string `json:"missing,omitempty"`

	flag string // that has asked for it, "" for none
	text []byte
	link string
	dir  bool
}

// manifest lists a bundle.
type manifest struct {
	Form    string    `json:"form"`
	Created time.Time `json:"created"`
	Version string    `json:"mqd"`
	// Admin is the address at which the broker was asked, Directory its data directory.
	Admin     string   `json:"admin"`
	Directory string   `json:"data_dir"`
	Entries   []*entry `json:"entries"`
}

// bundle is what has been gathered.
type bundle struct {
	manifest
	used int
}

// kind says what may be done with a file's content.
type kind uint8

const (
	text   kind = iota // may be cut, secrets are hidden
	source             // may be cut, and has only figures, names and code in it
	binary             // whole or not at all
)

// add adds a file, or the reason why there is none.
func (b *bundle) add(name, what string, k kind, content []byte, err error) *entry {
	e := &entry{Name: name, What: what, At: time.Now().UTC()}
	b.Entries = append(b.Entries, e)
	if k == text {
		e.Cut = len(content) > mostText
		content = Hide(content[:min(len(content), mostText)])
	}
	room := min(mostFile, mostAll-b.used)
	switch {
	case err != nil:
		e.Missing, content = string(Hide([]byte(err.Error()))), nil // it may quote a line of a file
	case len(content) > room && (k == binary || room <= 0):
		e.Missing, content = fmt.Sprintf("%v: there was room for %d bytes", errTooLong, max(0, room)), nil
	case len(content) > room:
		e.Cut, content = true, content[:room]
	}
	e.text, e.Bytes = content, len(content)
	b.used += len(content)
	return e
}

// write writes everything below a directory of the name.
func (b *bundle) write(w io.Writer, dir string) error {
	list, err := json.MarshalIndent(&b.manifest, "", "  ")
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(w)
	out := tar.NewWriter(zip)
	all := append([]*entry{{Name: manifestName, At: b.Created, text: append(list, '\n')}}, b.Entries...)
	for _, e := range all {
		if e.Missing == "" {
			err = errors.Join(err, e.write(out, dir))
		}
	}
	return errors.Join(err, out.Close(), zip.Close())
}

// write writes a file.
func (e *entry) write(out *tar.Writer, dir string) error {
	h := &tar.Header{Name: path.Join(dir, e.Name), Mode: 0o600, ModTime: e.At.Truncate(time.Second), Size: int64(len(e.text)), Typeflag: tar.TypeReg}
	switch {
	case e.dir:
		h.Typeflag, h.Mode, h.Name = tar.TypeDir, 0o700, h.Name+"/"
	case e.link != "":
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
	}
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(out, bytes.NewReader(e.text))
	return err
}
