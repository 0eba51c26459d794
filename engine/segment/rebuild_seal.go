package segment

import "github.com/mqd-broker/mqd/engine/aio"

// SealJob completes the index of a log that its writer has ended: truncated to
// its last batch and flushed. It reads the log back, verifies it as [RebuildJob]
// does, and writes the index with the checksums of the regions. A crash leaves
// the old index file or the new one.
type SealJob struct {
	Log
	// Writer is the index that grew with the log. Nothing may be added to it
	// any more; the job reads it. Size and last offset must be what it says.
	// It may be one of [NewTailIndex]: then the append times before it count as
	// lost.
	Writer *Index

	Report
}

var _ aio.Job = (*SealJob)(nil)

// Run implements aio.Job. An error leaves the index file as it was; damage in the
// log is no error, it is in the quarantine of the index.
func (j *SealJob) Run(fs aio.FS) error {
	j.EndOffset = j.Writer.NextOffset()
	b := build{Log: &j.Log, form: FormSealed, logBytes: j.Writer.End(), writer: j.Writer}
	var err error
	j.Report, err = b.run(fs)
	return err
}
