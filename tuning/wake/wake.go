// Package wake keeps the CPUs of a machine out of idle states from which they wake slowly.
//
// The kernel takes such a wish through a device: it holds as long as the device is open, so
// that nothing of it is left when the process ends, however that happens.
package wake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
)

// Device is the kernel's, see Documentation/power/pm_qos_interface.rst there.
const Device = "/dev/cpu_dma_latency"

// ErrRefused: the kernel has another opinion.
var ErrRefused = errors.New("wake: the kernel does not hold the limit")

// Limit is a limit that is held.
type Limit struct {
	file *os.File
	most time.Duration
}

// Hold has no CPU of the machine take longer than most to wake, which is in whole
// microseconds. It asks device, and looks whether it was heard.
func Hold(device string, most time.Duration) (*Limit, error) {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	l := &Limit{file: f, most: most}
	if err := l.ask(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", device, err), f.Close())
	}
	return l, nil
}

// ask writes the limit, as four bytes in the machine's order, and reads what holds: the
// least that anybody on the machine has asked for.
func (l *Limit) ask() error {
	word := binary.NativeEndian.AppendUint32(nil, uint32(l.most.Microseconds()))
	if _, err := l.file.Write(word); err != nil {
		return err
	}
	if _, err := l.file.ReadAt(word, 0); err != nil {
		return err
	}
	if us := int32(binary.NativeEndian.Uint32(word)); us < 0 || time.Duration(us)*time.Microsecond > l.most {
		return fmt.Errorf("%w: %d us hold, asked for were %v", ErrRefused, us, l.most)
	}
	return nil
}

// Most is the limit.
func (l *Limit) Most() time.Duration { return l.most }

// Release gives it up.
func (l *Limit) Release() error { return l.file.Close() }
