package main

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestALimitOnWakingIsHeldOnlyWhenItWasAskedFor(t *testing.T) {
	device := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	var w wakeState
	w.hold(-1, device, logger)
	if _, held := w.held(); held || log.Len() > 0 || len(w.warnings()) > 0 {
		t.Errorf("without the setting: %s", log.String())
	}
	w.hold(10*time.Microsecond, device, logger)
	b, err := os.ReadFile(device)
	if most, held := w.held(); err != nil || len(b) != 4 || binary.NativeEndian.Uint32(b) != 10 || !held || most != 10*time.Microsecond || !strings.Contains(log.String(), "limit=10") {
		t.Errorf("% x, %v, log %s", b, err, log.String())
	}
	w.release()
}

func TestALimitThatCannotBeHeldIsSaid(t *testing.T) {
	var log bytes.Buffer
	var w wakeState
	w.hold(0, filepath.Join(t.TempDir(), "none"), slog.New(slog.NewTextHandler(&log, nil)))
	if _, held := w.held(); held || len(w.warnings()) != 1 || !strings.Contains(w.warnings()[0], "--pm-qos) is not held: open ") || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("%q, log %s", w.warnings(), log.String())
	}
	w.release()
}
