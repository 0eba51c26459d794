package sim

// Fuse ends the machine, or the processes on it, after a number of steps: of data
// operations that are performed and of calls of the filesystem, wherever they come
// from. So the end can fall between any two of them, within a start as well.
type Fuse struct {
	// Steps is the number of steps that are still taken.
	Steps int
	// PowerCut ends the machine as [World.Crash] does, with Keep; otherwise it is
	// [World.Kill].
	PowerCut bool
	Keep     Keep
}

// Light lights a fuse. It takes the place of one that burns already.
func (w *World) Light(f Fuse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fuse, w.blown = &f, false
}

// Blown puts the fuse out and reports whether it had burnt down.
func (w *World) Blown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fuse = nil
	return w.blown
}

// burn is one step; the mutex is held.
func (w *World) burn() {
	f := w.fuse
	if f == nil {
		return
	}
	if f.Steps--; f.Steps >= 0 {
		return
	}
	w.fuse, w.blown = nil, true
	if f.PowerCut {
		w.cutPower(f.Keep)
	} else {
		w.endProcesses()
	}
}
