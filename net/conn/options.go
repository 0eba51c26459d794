package conn

import (
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/stage"
)

// The two smaller sizes of frame memory in bytes; the largest is MaxFrame. They
// are far apart on purpose: a frame that outgrows one is copied to the next, so
// the copy costs at most a sixteenth of what follows.
const (
	smallBytes  = 4 << 10
	mediumBytes = 64 << 10
)

// Options size a [Server]. Zero fields take the defaults.
type Options struct {
	// MaxFrame is the largest frame of any door in bytes, its length field
	// included. Default 1 MiB + 64 KiB, at least 64 KiB.
	MaxFrame int
	// SmallFrames, MediumFrames and LargeFrames are the numbers of pieces of
	// frame memory of 4 KiB, 64 KiB and MaxFrame. Defaults 256, 64 and 8.
	SmallFrames, MediumFrames, LargeFrames int
	// JumboFrame is the size of the largest frame of doors whose protocols know no
	// limit, and JumboFrames the number of pieces of frame memory of that size. 0, the
	// defaults, are for none: then no frame is larger than MaxFrame.
	JumboFrame, JumboFrames int
	// SendBuffers is the number of pieces of send memory, 4 KiB each.
	// Default 1024.
	SendBuffers int
	// SpillBytes bounds the memory on the Go heap to which unread bytes of
	// connections that wait are moved when receive buffers become scarce.
	// Default 16 MiB.
	SpillBytes int
	// MaxHandover bounds the unread bytes with which a connection may move to
	// another shard; with more it stays. Default 256 KiB.
	MaxHandover int
	// Waiting tells how many wait for memory that was lent to answers; nil for
	// never any. While there are some, connections that have not taken such an
	// answer for a second give way.
	Waiting func() int
	// TurnFrames bounds the frames handed to protocols in one turn, and
	// VisitFrames those of one connection before others have theirs. Defaults
	// 4096 and 256.
	TurnFrames, VisitFrames int
	// Stages takes the times of sends; nil: a clock that nobody reads.
	Stages *stage.Clock
}

func setDefault[T int | time.Duration](p *T, v T) {
	if *p == 0 {
		*p = v
	}
}

// WithDefaults returns o with its zero fields set.
func (o Options) WithDefaults() Options {
	if o.Stages == nil {
		o.Stages = new(stage.Clock)
	}
	setDefault(&o.MaxFrame, 1<<20+64<<10)
	setDefault(&o.SmallFrames, 256)
	setDefault(&o.MediumFrames, 64)
	setDefault(&o.LargeFrames, 8)
	setDefault(&o.SendBuffers, 1024)
	setDefault(&o.SpillBytes, 16<<20)
	setDefault(&o.MaxHandover, 256<<10)
	setDefault(&o.TurnFrames, 4096)
	setDefault(&o.VisitFrames, 256)
	return o
}

// Memory is the number of bytes that a server takes from its driver.
func (o Options) Memory() int64 {
	o = o.WithDefaults()
	return int64(o.SmallFrames)*smallBytes + int64(o.MediumFrames)*mediumBytes +
		int64(o.LargeFrames)*int64(blocks(o.MaxFrame)) + int64(o.JumboFrames)*int64(blocks(o.JumboFrame)) +
		int64(o.SendBuffers)*sendBytes
}

// largest is the largest frame of any door in bytes.
func (o *Options) largest() int { return max(o.MaxFrame, o.JumboFrame) }

func (o Options) validate() error {
	switch {
	case o.JumboFrames < 0 || (o.JumboFrames > 0) != (o.JumboFrame > o.MaxFrame):
		return fmt.Errorf("%w: %d jumbo frames of %d bytes, expected them to be larger than %d", ErrOptions, o.JumboFrames, o.JumboFrame, o.MaxFrame)
	case o.MaxFrame < mediumBytes:
		return fmt.Errorf("%w: frames of %d bytes, expected at least %d", ErrOptions, o.MaxFrame, mediumBytes)
	case min(o.SmallFrames, o.MediumFrames, o.LargeFrames, o.SendBuffers) < 1:
		return fmt.Errorf("%w: frame and send memory has at least one piece of each size", ErrOptions)
	case o.SpillBytes < 0 || o.MaxHandover < 0 || o.TurnFrames < 1 || o.VisitFrames < 1:
		return fmt.Errorf("%w: spill of %d bytes, hand-over of %d, %d frames a turn, %d a visit", ErrOptions, o.SpillBytes, o.MaxHandover, o.TurnFrames, o.VisitFrames)
	}
	return nil
}

// blocks rounds n bytes up to whole blocks.
func blocks(n int) int { return (n + aio.BlockSize - 1) &^ (aio.BlockSize - 1) }

// MaxPrefix is the largest [DoorOptions].PrefixBytes.
const MaxPrefix = 16

// DoorOptions describe a [Door]. Zero fields take the defaults.
type DoorOptions struct {
	// Name is the protocol's, for people.
	Name string
	// PrefixBytes is how much of a frame [Protocol].FrameSize looks at: 1 to
	// 16, and not more than the shortest frame has. Default 4.
	PrefixBytes int
	// FrameLimit bounds the frames of a new connection in bytes, until the
	// protocol sets another limit. Default 64 KiB.
	FrameLimit int
	// IdleTimeout ends a connection on which no frame went in either direction
	// while nothing was in the works. Default 120 s.
	IdleTimeout time.Duration
	// HandshakeTimeout ends one that was not established in time. Default 10 s.
	HandshakeTimeout time.Duration
	// FrameTimeout ends one whose frame has begun and does not come to its
	// end; a frame of n bytes has at least n / MinFrameRate. Default 10 s.
	FrameTimeout time.Duration
	// MinFrameRate in bytes a second. Default 16 KiB.
	MinFrameRate int
	// WriteTimeout ends one whose peer did not take a send. Default 30 s.
	WriteTimeout time.Duration
	// LingerTimeout is for how long what a peer still sends is thrown away
	// after an answer that ends the connection; a close with bytes unread
	// would destroy that answer. Default 1 s.
	LingerTimeout time.Duration
	// MaxOutput is the number of answered bytes that wait to be sent above
	// which a connection is not read. Default 1 MiB.
	MaxOutput int
}

// WithDefaults returns o with its zero fields set.
func (o DoorOptions) WithDefaults() DoorOptions {
	setDefault(&o.PrefixBytes, 4)
	setDefault(&o.FrameLimit, 64<<10)
	setDefault(&o.IdleTimeout, 120*time.Second)
	setDefault(&o.HandshakeTimeout, 10*time.Second)
	setDefault(&o.FrameTimeout, 10*time.Second)
	setDefault(&o.MinFrameRate, 16<<10)
	setDefault(&o.WriteTimeout, 30*time.Second)
	setDefault(&o.LingerTimeout, time.Second)
	setDefault(&o.MaxOutput, 1<<20)
	return o
}

func (o DoorOptions) validate(s Options) error {
	switch {
	case o.PrefixBytes < 1 || o.PrefixBytes > MaxPrefix:
		return fmt.Errorf("%w: door %s: prefix of %d bytes, expected 1 to %d", ErrOptions, o.Name, o.PrefixBytes, MaxPrefix)
	case o.FrameLimit < o.PrefixBytes || o.FrameLimit > s.largest():
		return fmt.Errorf("%w: door %s: frame limit of %d bytes, expected %d to %d", ErrOptions, o.Name, o.FrameLimit, o.PrefixBytes, s.largest())
	case o.MinFrameRate < 1 || o.MaxOutput < 1:
		return fmt.Errorf("%w: door %s: frame rate %d, output %d, expected at least 1", ErrOptions, o.Name, o.MinFrameRate, o.MaxOutput)
	case min(o.IdleTimeout, o.HandshakeTimeout, o.FrameTimeout, o.WriteTimeout, o.LingerTimeout) < 0:
		return fmt.Errorf("%w: door %s: a negative timeout", ErrOptions, o.Name)
	}
	return nil
}
