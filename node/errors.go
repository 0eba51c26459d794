package node

import (
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/engine"
)

// Errors of a node and of a service. They are compared with errors.Is.
var (
	// ErrNotEnded: shards of a node that was told to end at once are still there, as when
	// a device does not answer.
	ErrNotEnded = errors.New("the node has not ended")
	// ErrWorks: there is nothing to open again, because every log works.
	ErrWorks = errors.New("nothing to reopen: every log works")
	// ErrUnderWay: the node is being started, opened again, or ended.
	ErrUnderWay = errors.New("a start, a reopening or an end is under way")

	// errNoNode: there was none to end in order.
	errNoNode = errors.New("nothing was served at the end, the next start recovers")

	// errDevice is the failure of logs that have not run into it themselves.
	errDevice = fmt.Errorf("%w: a flush has failed on the device", engine.ErrStorage)
)
