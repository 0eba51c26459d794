package agent

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/figure"
	"github.com/mqd-broker/mqd/bench/machine"
)

// version names the protocol; ends of different ones do not talk.
const version = "mqd-bench-agent/2"

const (
	// largest is the longest frame, in bytes.
	largest = 256 << 20
	// beforeProof is the longest frame that is read from a stranger.
	beforeProof = 4 << 10
	// MinToken is the length of the shortest token, in bytes.
	MinToken = 16
	nonceLen = 16
)

// handshakeWait bounds how long a stranger may take.
const handshakeWait = 10 * time.Second

var (
	// ErrAgent: an agent could not do what it was asked.
	ErrAgent = errors.New("bench agent")
	// ErrToken: the two ends do not have the same token.
	ErrToken = errors.New("bench agent: not the same token")
)

// kind says what a frame is.
type kind string

const (
	hello   kind = "hello"   // agent: here is a nonce
	prove   kind = "prove"   // coordinator: its nonce and its proof
	welcome kind = "welcome" // agent: its proof, and what it is
	ping    kind = "ping"    // coordinator: what time is it?
	pong    kind = "pong"
	plan    kind = "plan" // coordinator: connect for a part
	ready   kind = "ready"
	begin   kind = "begin" // coordinator: start at a time of the agent's clock
	ended   kind = "ended" // coordinator: all producers have ended
	found   kind = "found" // agent: the part's result
	failed  kind = "failed"
	glance  kind = "glance" // agent: what happened in the last second
)

// frame is what travels.
type frame struct {
	Kind    kind           `json:"kind"`
	Version string         `json:"version,omitempty"`
	Nonce   string         `json:"nonce,omitempty"`
	Proof   string         `json:"proof,omitempty"`
	Host    *machine.Host  `json:"host,omitempty"`
	At      int64          `json:"at,omitempty"` // of the agent's clock, nanoseconds
	Plan    *bench.Plan    `json:"plan,omitempty"`
	Acked   []int64        `json:"acked,omitempty"` // by partition
	Found   *bench.Found   `json:"found,omitempty"`
	Glance  *figure.Glance `json:"glance,omitempty"`
	Error   string         `json:"error,omitempty"`
}

// conn sends and receives frames. One goroutine may read while others write.
type conn struct {
	nc    net.Conn
	r     *bufio.Reader
	limit uint32
	mu    sync.Mutex // of writes
}

func newConn(nc net.Conn) *conn {
	return &conn{nc: nc, r: bufio.NewReader(nc), limit: beforeProof}
}

func (c *conn) write(f frame) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

func (c *conn) read() (f frame, err error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return f, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > c.limit {
		return f, fmt.Errorf("%w: a frame of %d bytes, expected at most %d", ErrAgent, n, c.limit)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(c.r, text); err != nil {
		return f, err
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("%w: %w", ErrAgent, err)
	}
	return f, nil
}

// expect reads a frame of a kind.
func (c *conn) expect(want kind) (frame, error) {
	f, err := c.read()
	switch {
	case err != nil:
		return f, err
	case f.Kind == failed:
		return f, fmt.Errorf("%w: %s", ErrAgent, f.Error)
	case f.Kind != want:
		return f, fmt.Errorf("%w: a frame %q, expected %q", ErrAgent, f.Kind, want)
	}
	return f, nil
}

// proof is what only somebody with the token can make of two nonces.
func proof(token []byte, who, agents, coordinators string) string {
	m := hmac.New(sha256.New, token)
	for _, part := range []string{version, who, agents, coordinators} {
		fmt.Fprintf(m, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(m.Sum(nil))
}

func nonce() string {
	var b [nonceLen]byte
	_, _ = rand.Read(b[:]) // never fails: see its documentation
	return hex.EncodeToString(b[:])
}

// errBusy: the agent works for another coordinator.
var errBusy = errors.New("it works for another coordinator")

// greet is the agent's side of the handshake. It tells whoever knows the token that it is
// busy, if it is.
func (c *conn) greet(token []byte, host machine.Host, free func() bool) error {
	mine := nonce()
	if err := c.write(frame{Kind: hello, Version: version, Nonce: mine}); err != nil {
		return err
	}
	f, err := c.expect(prove)
	if err != nil {
		return err
	}
	if f.Version != version || !hmac.Equal([]byte(f.Proof), []byte(proof(token, "coordinator", mine, f.Nonce))) {
		return errors.Join(ErrToken, c.write(frame{Kind: failed, Error: "not the same token, or another version than " + version}))
	}
	if !free() {
		return errors.Join(errBusy, c.write(frame{Kind: failed, Error: errBusy.Error()}))
	}
	c.limit = largest
	return c.write(frame{Kind: welcome, Proof: proof(token, "agent", mine, f.Nonce), Host: &host})
}

// introduce is the coordinator's side; it returns what the agent is.
func (c *conn) introduce(token []byte) (machine.Host, error) {
	f, err := c.expect(hello)
	if err != nil {
		return machine.Host{}, err
	}
	if f.Version != version {
		return machine.Host{}, fmt.Errorf("%w: it speaks %q, expected %q", ErrAgent, f.Version, version)
	}
	mine, theirs := nonce(), f.Nonce
	if err := c.write(frame{Kind: prove, Version: version, Nonce: mine, Proof: proof(token, "coordinator", theirs, mine)}); err != nil {
		return machine.Host{}, err
	}
	if f, err = c.expect(welcome); err != nil {
		return machine.Host{}, err
	}
	if !hmac.Equal([]byte(f.Proof), []byte(proof(token, "agent", theirs, mine))) || f.Host == nil {
		return machine.Host{}, ErrToken
	}
	c.limit = largest
	return *f.Host, nil
}
