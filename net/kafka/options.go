package kafka

import (
	"errors"
	"fmt"
	"time"
)

// ErrOptions: options that cannot work.
var ErrOptions = errors.New("kafka: invalid options")

// Options of a [Server]. Zero fields take the defaults.
type Options struct {
	// IdleTimeout ends a silent connection. Default 10 min.
	IdleTimeout time.Duration
	// MaxRequest is the largest produce request in bytes, its length included; what
	// the connections take bounds it too. Default 16 MiB.
	MaxRequest int
	// MaxInFlightRequests and MaxInFlightBytes bound what a connection may have
	// asked and not been answered. At a bound it is not read. Defaults 1024 and 8
	// MiB.
	MaxInFlightRequests, MaxInFlightBytes int
	// MaxRequests bounds the partitions in the requests in flight of a shard, about
	// 600 bytes each; six bytes of a request of an administrator weigh as much as one, and each byte
	// of one that lists groups. At
	// the bound connections that ask are not read. Fetches and others that weigh more than a
	// sixteenth of it have a bound of the same size of their own, and only those wait for
	// each other there. Default 65,536.
	MaxRequests int
	// MaxPartitions bounds the partitions that one produce or fetch may name.
	// Default 20,000.
	MaxPartitions int
	// MaxPinned bounds the bytes of batches in one answer to a fetch; one batch may
	// be larger. Default 2 MiB.
	MaxPinned int
	// MaxSlowBytes bounds the memory of a shard for long answers that are being made
	// or that peers do not read; above it requests wait for their answers. Default
	// 16 MiB.
	MaxSlowBytes int
	// MaxAutoCreate bounds the topics that one metadata request may create.
	// Default 64.
	MaxAutoCreate int
	// Refused hears why a connection is closed that sent what cannot be answered. It
	// is called on the loop, at most once a second, with the number of those since
	// the last call. Nil for nobody.
	Refused func(remote string, why error, connections int)
}

// WithDefaults returns o with its zero fields set.
func (o Options) WithDefaults() Options {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 10 * time.Minute
	}
	if o.Refused == nil {
		o.Refused = func(string, error, int) {}
	}
	def(&o.MaxRequest, 16<<20)
	def(&o.MaxInFlightRequests, 1024)
	def(&o.MaxInFlightBytes, 8<<20)
	def(&o.MaxRequests, 1<<16)
	def(&o.MaxPartitions, 20_000)
	def(&o.MaxPinned, 2<<20)
	def(&o.MaxSlowBytes, 16<<20)
	def(&o.MaxAutoCreate, 64)
	return o
}

func (o Options) validate() error {
	switch {
	case min(o.MaxInFlightRequests, o.MaxInFlightBytes, o.MaxRequests, o.MaxPartitions, o.MaxPinned, o.MaxSlowBytes, o.MaxAutoCreate) < 1:
		return fmt.Errorf("%w: a limit below 1", ErrOptions)
	case o.MaxRequest < maxCold:
		return fmt.Errorf("%w: requests of %d bytes, expected at least %d", ErrOptions, o.MaxRequest, maxCold)
	case o.IdleTimeout < time.Millisecond:
		return fmt.Errorf("%w: idle timeout of %v, expected at least 1 ms", ErrOptions, o.IdleTimeout)
	}
	return nil
}
