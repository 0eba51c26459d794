package engine

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

// adviceDriver is a driver whose filesystem takes advice.
type adviceDriver struct {
	aio.Driver
	spread *[]string
}

func (d *adviceDriver) FS() aio.FS { return adviceFS{d.Driver.FS(), d.spread} }

type adviceFS struct {
	aio.FS
	spread *[]string
}

// Spread notes path, if it is there.
func (f adviceFS) Spread(path string) {
	if _, err := f.ReadDir(path); err == nil {
		*f.spread = append(*f.spread, path)
	}
}

func TestAStartAdvisesToPlaceTopicsApart(t *testing.T) {
	var spread []string
	newRig(t, rigOptions{wrap: func(d aio.Driver) aio.Driver { return &adviceDriver{d, &spread} }})
	if len(spread) != 1 || spread[0] != rigDir+"/topics" {
		t.Fatalf("advised for %q", spread)
	}
}
