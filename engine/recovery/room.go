package recovery

import (
	"fmt"
	"path/filepath"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/ballast"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

// makeRoom removes the ballast file if the disk may have too little room for a start.
func (r *recovery) makeRoom() error {
	entries, err := r.fs.ReadDir(r.path(layout.JournalsDir))
	if err != nil {
		return err
	}
	journals, free := int64(0), r.out.Identity.FreeBytes
	for _, e := range entries {
		journals += e.Size
	}
	if r.short = ballast.Short(free, journals); !r.short {
		return nil
	}
	if r.out.Stats.BallastReleased, err = ballast.Remove(r.fs, r.opts.Dir); err != nil {
		return fmt.Errorf("%w: %w", layout.ErrBadDataDir, err)
	}
	if r.out.Stats.BallastReleased {
		r.opts.Report("%s removed, to have room for this start: %d bytes were free, the journals have %d",
			r.path(ballast.Name), free, journals)
	}
	return nil
}

// cutTail gives back, where room is short, what a partition's newest segments have behind
// the bytes that the checkpoint speaks of. That is space allocated in advance, and bytes
// that the journals have too: a start writes those again whatever the files hold. Where
// anything is damaged, or a journal is lost, the files are left as they are.
func (r *recovery) cutTail(p *replayed) error {
	if !r.short || r.out.Stats.Damaged > 0 || r.checkpointOf(p.shard).Lost != nil || len(r.forsaken) > 0 {
		return nil
	}
	for i := range p.files {
		s, end := &p.files[i], int64(0)
		if p.has && s.Base < p.seg.Base {
			continue
		}
		if p.has && s.Base == p.seg.Base {
			end = (p.seg.Size + aio.BlockSize - 1) &^ (aio.BlockSize - 1)
		}
		if s.LogBytes <= end {
			continue
		}
		f, err := r.fs.Open(filepath.Join(p.dir, segment.LogName(s.Base)), aio.OpenWrite)
		if err != nil {
			return err
		}
		err = f.Truncate(end)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		s.LogBytes = end
	}
	return nil
}
