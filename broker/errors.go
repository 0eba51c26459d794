package broker

import (
	"errors"

	"github.com/mqd-broker/mqd/broker/options"
)

// Errors of starting a node. They are compared with errors.Is.
var (
	// ErrOptions: an option is out of its bounds.
	ErrOptions = options.Err
	// ErrCatalog: the catalog's log and snapshots do not fit together.
	ErrCatalog = errors.New("catalog not usable")
)
