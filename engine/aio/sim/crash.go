package sim

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim/disk"
)

// Keep says what a power cut leaves of what is not durable.
type Keep = disk.Keep

// The values of Keep; see package disk.
const (
	KeepNone   = disk.KeepNone
	KeepAll    = disk.KeepAll
	KeepRandom = disk.KeepRandom
	KeepPrefix = disk.KeepPrefix
)

// Crash cuts the power of the machine: its drivers are dead, what was in flight
// and what lay in the cache is kept as keep says, sector by sector. The calls
// that a caller makes on a dead driver fail with ErrClosed, and its operations
// never complete. New drivers find the disk as it is after the restart.
func (w *World) Crash(keep Keep) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutPower(keep)
}

func (w *World) cutPower(keep Keep) {
	flight := w.shuffled(w.inFlightWrites())
	w.killDrivers()
	for _, f := range flight {
		f.File.Fly(f.Data, f.Off)
	}
	w.tree.PowerCut(keep)
	w.reboot()
}

// Kill ends the processes of the machine and nothing else: completed writes stay
// in the cache and are seen by the next drivers, those in flight are seen wholly,
// partly or not at all.
func (w *World) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endProcesses()
}

func (w *World) endProcesses() {
	flight := w.shuffled(w.inFlightWrites())
	w.killDrivers()
	for _, f := range flight {
		f.File.Tear(f.Data, f.Off, &w.rng)
	}
	w.tree.Restart()
}

// inFlightWrites lists the writes in flight that could reach the disk.
func (w *World) inFlightWrites() []disk.Flight {
	var list []disk.Flight
	for _, d := range w.drivers {
		if d.side != server {
			continue
		}
		for i := range d.slots {
			s := &d.slots[i]
			if s.op == nil || s.over || s.op.Kind != aio.KindWrite {
				continue
			}
			op := s.op
			h := d.handle(op.File)
			if h == nil || h.mode&aio.OpenWrite == 0 || h.checkIO(op.Buf, op.Off) != nil {
				continue
			}
			list = append(list, disk.Flight{File: h.ino, Data: op.Buf[op.Drv.Done:], Off: op.Off + int64(op.Drv.Done)})
		}
	}
	return list
}

// shuffled brings writes into some order: none is promised.
func (w *World) shuffled(list []disk.Flight) []disk.Flight {
	for i := len(list) - 1; i > 0; i-- {
		j := w.rng.Below(int64(i + 1))
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// killDrivers ends every driver of the machine.
func (w *World) killDrivers() {
	w.epoch++
	for i := 0; i < len(w.drivers); {
		if w.drivers[i].side == server {
			w.drivers[i].kill()
		} else {
			i++
		}
	}
	for _, s := range w.net.socks {
		if s != nil && s.side == server {
			s.die()
		}
	}
}
