package broker

import "errors"

// Errors of starting a node. They are compared with errors.Is.
var (
	// ErrOptions: an option is out of its bounds.
	ErrOptions = errors.New("broker option out of range")
	// ErrCatalog: the catalog's log and snapshots do not fit together.
	ErrCatalog = errors.New("catalog not usable")
)
