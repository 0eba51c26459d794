package wake

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// device is a file in place of the kernel's device.
func device(t *testing.T) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "cpu_dma_latency")
	if err := os.WriteFile(at, make([]byte, 4), 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestTheLimitIsWrittenAsTheKernelReadsIt(t *testing.T) {
	for most, want := range map[time.Duration]uint32{0: 0, 10 * time.Microsecond: 10, 10 * time.Millisecond: 10_000} {
		at := device(t)
		l, err := Hold(at, most)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(at)
		if err != nil || len(b) != 4 || binary.NativeEndian.Uint32(b) != want || l.Most() != most {
			t.Errorf("%v is written as % x, %v", most, b, err)
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
		if err := l.Release(); err == nil {
			t.Error("the device was not closed")
		}
	}
}

func TestADeviceThatIsNotThereIsAnError(t *testing.T) {
	if _, err := Hold(filepath.Join(t.TempDir(), "none"), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if _, err := Hold(os.DevNull, 5*time.Microsecond); err == nil {
		t.Error("what keeps nothing is taken for a device")
	}
}

// The real device says what holds, for as long as it is open.
func TestTheKernelHoldsItWhileTheDeviceIsOpen(t *testing.T) {
	now := func() int32 {
		b, err := os.ReadFile(Device)
		if err != nil || len(b) != 4 {
			t.Skipf("%s cannot be read here: %v", Device, err)
		}
		return int32(binary.NativeEndian.Uint32(b))
	}
	us := int32(1000 + os.Getpid()%90_000) // that nobody else asks for
	l, err := Hold(Device, time.Duration(us)*time.Microsecond)
	if err != nil {
		t.Skipf("%s cannot be opened here: %v", Device, err)
	}
	if held := now(); held > us {
		t.Errorf("%d us hold", held)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if now() == us {
		t.Error("it holds behind the release")
	}
}
