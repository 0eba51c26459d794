package broker

import (
	"github.com/mqd-broker/mqd/broker/catalogfile"
	"github.com/mqd-broker/mqd/broker/options"
)

// Errors of starting a node. They are compared with errors.Is.
var (
	// ErrOptions: an option is out of its bounds.
	ErrOptions = options.Err
	// ErrCatalog: the catalog's log and snapshots do not fit together.
	ErrCatalog = catalogfile.Err
)
