package native

import (
	"errors"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// ErrOptions: options that cannot work.
var ErrOptions = errors.New("native: invalid options")

// Options of a [Server]. Zero fields take the defaults.
type Options struct {
	// Version is the program's version, which clients are told.
	Version string
	// IdleTimeout ends a silent connection. Default 120 s.
	IdleTimeout time.Duration
	// MaxInFlightRequests and MaxInFlightBytes bound what a connection may have
	// asked and not been answered: requests, long polls among them, and bytes
	// of produce frames. At a bound the connection is not read. Defaults 4096
	// and 8 MiB.
	MaxInFlightRequests, MaxInFlightBytes int
	// MaxRequests bounds the requests in flight of a shard, about 600 bytes
	// each. At the bound connections that ask are not read. Default 65,536.
	MaxRequests int
	// MaxPinned is the number of bytes lent by the engine and not yet sent on
	// one connection above which further answers to fetches wait. Default 2 MiB.
	MaxPinned int
	// MaxSlowBytes bounds the memory of a shard for long answers (metadata,
	// descriptions) that are being made or that peers do not read; above it
	// such requests are refused with Backpressure. Default 16 MiB.
	MaxSlowBytes int
	// MaxAutoCreate bounds the topics that one metadata request may create.
	// Default 64.
	MaxAutoCreate int
}

// WithDefaults returns o with its zero fields set.
func (o Options) WithDefaults() Options {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 120 * time.Second
	}
	def(&o.MaxInFlightRequests, 4096)
	def(&o.MaxInFlightBytes, 8<<20)
	def(&o.MaxRequests, 1<<16)
	def(&o.MaxPinned, 2<<20)
	def(&o.MaxSlowBytes, 16<<20)
	def(&o.MaxAutoCreate, 64)
	return o
}

func (o Options) validate() error {
	switch {
	case min(o.MaxInFlightRequests, o.MaxInFlightBytes, o.MaxRequests, o.MaxPinned, o.MaxSlowBytes, o.MaxAutoCreate) < 1:
		return fmt.Errorf("%w: a limit below 1: %+v", ErrOptions, o)
	case o.IdleTimeout < time.Millisecond:
		return fmt.Errorf("%w: idle timeout of %v, expected at least 1 ms", ErrOptions, o.IdleTimeout)
	case len(o.Version) > wire.MaxString:
		return fmt.Errorf("%w: version of %d bytes, expected at most %d", ErrOptions, len(o.Version), wire.MaxString)
	}
	return nil
}
