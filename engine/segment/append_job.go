package segment

import (
	"path/filepath"

	"github.com/mqd-broker/mqd/engine/aio"
)

// AppendJob writes encoded entries into the index file of an open log, and makes
// them durable. It creates the file if it is not there.
type AppendJob struct {
	Path string
	Pos  int64  // of Data in the file, from [EntryAt]; 0 when Data begins with the header
	Data []byte // from [AppendHeader], [AppendEntries]
}

var _ aio.Job = (*AppendJob)(nil)

// Run implements aio.Job.
func (j *AppendJob) Run(fs aio.FS) error {
	f, err := fs.Open(j.Path, aio.OpenWrite|aio.OpenCreate)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(j.Data, j.Pos)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && j.Pos == 0 {
		err = fs.SyncDir(filepath.Dir(j.Path))
	}
	return err
}
