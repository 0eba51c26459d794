package conn

import "errors"

var (
	// ErrFrameTooLarge: a frame's length is above the connection's limit.
	ErrFrameTooLarge = errors.New("conn: frame too large")

	// ErrOptions: options that cannot work.
	ErrOptions = errors.New("conn: invalid options")
)

// Reason says why a connection ended. The zero Reason is none: it is open.
type Reason uint8

// The reasons.
const (
	reasonNone Reason = iota
	// ReasonPeer: the peer ended the stream or broke the connection.
	ReasonPeer
	// ReasonProtocol: the protocol closed it, or could not go on after what
	// the peer sent.
	ReasonProtocol
	// ReasonHandshake: the protocol's opening took too long.
	ReasonHandshake
	// ReasonIdle: no frame went in either direction for too long.
	ReasonIdle
	// ReasonSlowFrame: a frame that had begun did not arrive in time.
	ReasonSlowFrame
	// ReasonSlowReader: the peer did not take its answers in time.
	ReasonSlowReader
	// ReasonOverload: there was no memory for a frame for too long.
	ReasonOverload
	// ReasonShutdown: the server stops.
	ReasonShutdown
	// ReasonMoved: another shard has it now.
	ReasonMoved

	numReasons
)

var reasonNames = [numReasons]string{
	reasonNone:       "open",
	ReasonPeer:       "closed by peer",
	ReasonProtocol:   "closed by protocol",
	ReasonHandshake:  "handshake timeout",
	ReasonIdle:       "idle timeout",
	ReasonSlowFrame:  "slow frame",
	ReasonSlowReader: "slow reader",
	ReasonOverload:   "overload",
	ReasonShutdown:   "shutdown",
	ReasonMoved:      "moved to another shard",
}

// String is the reason in words.
func (r Reason) String() string {
	if r < numReasons {
		return reasonNames[r]
	}
	return "unknown"
}
