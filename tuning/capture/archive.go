package capture

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
)

// Write writes entries as a tar.gz, to be unpacked below a new directory. What it writes
// depends on nothing but them.
func Write(w io.Writer, all []Entry) error {
	zip, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zip)
	for _, e := range all {
		h := &tar.Header{Name: e.Name, Mode: 0o644, Size: int64(len(e.Text)), Typeflag: tar.TypeReg}
		switch {
		case e.Dir:
			h.Typeflag, h.Mode, h.Name = tar.TypeDir, 0o755, h.Name+"/"
		case e.Link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(e.Text); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), zip.Close())
}
