package sim

import "github.com/mqd-broker/mqd/engine/aio/sim/disk"

// Moment is a machine that stands still before a step that may change its disk. What a
// crash would leave now is all that it could leave since the step before: what is in
// flight may have reached the disk or not, and nobody has been told of more than
// now.
type Moment struct {
	w    *World
	subj subject
}

// Watch has f called before every step that may change what is on the disk or what of
// it is durable: those of data operations, of helpers and of blocking calls alike. f may
// make and use other worlds, and must not touch this one. nil ends it.
func (w *World) Watch(f func(*Moment)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch = f
}

// look has a step looked at that is about to be taken; the mutex is held.
func (w *World) look(s *subject) {
	const changes = changing | Flushes | DirSyncs | Opens | Locks
	if w.watch != nil && s.op&changes != 0 && s.d.side == server {
		w.watch(&Moment{w, *s})
	}
}

// Stand has f look at the machine between two steps.
func (w *World) Stand(f func(*Moment)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&Moment{w, subject{}})
}

// Step is the kind of the step that is about to be taken, and the path of its file.
func (m *Moment) Step() (Ops, string) { return m.subj.op, m.subj.path }

// PowerCuts are the disks that a power cut may leave now, and Kills those that the end
// of the processes may. Neither changes anything. They are good during the call that
// got the moment.
func (m *Moment) PowerCuts() *Images {
	return &Images{m.w.tree.PowerCuts(m.w.inFlightWrites()), m.w, false}
}

// Kills are the disks that the end of the processes may leave now.
func (m *Moment) Kills() *Images {
	return &Images{m.w.tree.Kills(m.w.inFlightWrites()), m.w, true}
}

// Images are disks that an end may leave.
type Images struct {
	*disk.Outcomes
	w      *World
	killed bool
}

// Image is the disk that is left where keep says which of the choices survive.
func (i *Images) Image(keep func(choice int) bool) *Image {
	return &Image{i.Outcomes.Image(keep), i.w.mounts, i.w.boot, i.killed}
}

// Image is a disk on which machines can go on, any number of them.
type Image struct {
	disk   *disk.Tree
	mounts uint64
	boot   [16]byte
	killed bool
}

// Sum is a hash of all that a start can know of the image: what there is to read, and
// whether the machine was restarted. It is good in one process, for images of one world.
func (i *Image) Sum() uint64 {
	if !i.killed {
		return i.disk.Sum()
	}
	return mix(i.disk.Sum() ^ mix(i.mounts))
}

// World is a world whose machine has the image as its disk, after a restart unless
// only its processes had ended. o.Capacity means nothing.
func (i *Image) World(o Options) *World { return newWorld(o, i) }
