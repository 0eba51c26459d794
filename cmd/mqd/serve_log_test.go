package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/cmd/mqd/settings"
)

// A duration has its unit in both forms of the log.
func TestDurationsInTheLogHaveAUnit(t *testing.T) {
	for format, want := range map[string]string{settings.LogJSON: `"took":"1.5s","shards":2}`, "text": "took=1.5s shards=2"} {
		var out bytes.Buffer
		b := broker{cfg: &settings.Config{}}
		b.cfg.LogFormat, b.cfg.LogLevel = format, "info"
		b.openLog(&out)
		b.log.Info("stopped", "took", 1500*time.Millisecond, "shards", 2)
		if line := strings.TrimSpace(out.String()); !strings.HasSuffix(line, want) {
			t.Errorf("%s: %s", format, line)
		}
	}
}
