package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// request is what a client is asked to do. A program has it as a line of JSON.
type request struct {
	// Op is one of
	//
	//	hello                which version the client has
	//	produce              send records First to First+N and wait until they are acknowledged
	//	start, stop          send records from 0 on, idempotently, at most 500 unacknowledged, until told to stop
	//	open, read, close    read partition 0 of a topic without a group
	//	join, leave          start and end Member of Group, which reads Topic from its start and commits what it has read
	//	group, forget        what the members have and have read; forget what they have read
	//	create, grow, delete a topic with Partitions and Config, more partitions, none
	//	topics               the names of all topics
	//	config, alter        what a topic's setting Name is; make it Value
	//	groups, drop         the names of all groups; delete Group
	//	run, halt            start and end instance Member of the application Group, which counts Topic's records, with the guarantee Value
	//	state                what such an instance is (Value), how many records of its state it has read back (N), its failures (Names)
	//	erase                remove what it keeps on disk
	Op         string            `json:"op"`
	Topic      string            `json:"topic,omitempty"`
	Group      string            `json:"group,omitempty"`
	Member     string            `json:"member,omitempty"`
	Codec      string            `json:"codec,omitempty"` // none, gzip, snappy, lz4, zstd
	Acks       string            `json:"acks,omitempty"`  // 0, 1, all
	Size       int               `json:"size,omitempty"`  // of a value, where it is longer than what record says
	First      int               `json:"first"`
	N          int               `json:"n"`
	From       string            `json:"from,omitempty"`      // start, end, time
	Time       int64             `json:"time,omitempty"`      // ms, with from time
	Small      bool              `json:"small,omitempty"`     // ask for one byte of a partition at a time
	Committed  bool              `json:"committed,omitempty"` // read_committed
	Partitions int               `json:"partitions,omitempty"`
	Config     map[string]string `json:"config,omitempty"`
	Name       string            `json:"name,omitempty"`
	Value      string            `json:"value,omitempty"`
}

// reply is what a client has done. One of the first two says why it has not.
type reply struct {
	Error       string         `json:"error"`
	Unsupported string         `json:"unsupported"` // the client, as it is used here, has no such thing
	Version     string         `json:"version"`
	Position    int64          `json:"position"` // of what is read first; -1 where a time has nothing
	Records     []got          `json:"records"`
	N           int            `json:"n"`
	Owns        map[string]int `json:"owns"`  // partitions by member
	Seen        []int          `json:"seen"`  // numbers of records, each once
	Reads       int            `json:"reads"` // records, each as often as it came
	Names       []string       `json:"names"`
	Value       string         `json:"value"`
}

// got is a record as a client has it.
type got struct {
	Offset int64  `json:"o"`
	Key    string `json:"k"`
	Value  string `json:"v"`
	Time   int64  `json:"t"`
	Header string `json:"h"` // the one with the key n
}

// driver runs a client.
type driver interface {
	// do does it. The error is that of the driver itself, which is of no use then.
	do(ctx context.Context, q request) (reply, error)
	// end ends it, and returns what it has said beside its answers.
	end() string
}

// program is a client in a process of its own: it reads a request from a line of standard
// input and answers with a line of standard output.
type program struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte // closed when there are no more
	errs  lastBytes
}

// start starts a program with the broker's address as its argument.
func startProgram(args ...string) (*program, error) {
	p := &program{cmd: exec.Command(args[0], args[1:]...), lines: make(chan []byte)}
	p.cmd.Stderr = &p.errs
	p.cmd.WaitDelay = 10 * time.Second
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 16<<20)
		for s.Scan() {
			p.lines <- bytes.Clone(s.Bytes())
		}
	}()
	return p, nil
}

func (p *program) do(ctx context.Context, q request) (reply, error) {
	line, err := json.Marshal(q)
	if err != nil {
		return reply{}, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return reply{}, fmt.Errorf("%s: the program has ended: %w", q.Op, err)
	}
	select {
	case line, ok := <-p.lines:
		if !ok {
			return reply{}, fmt.Errorf("%s: the program has ended", q.Op)
		}
		var a reply
		if err := json.Unmarshal(line, &a); err != nil {
			return reply{}, fmt.Errorf("%s: %w in %q", q.Op, err, line)
		}
		return a, nil
	case <-ctx.Done():
		return reply{}, fmt.Errorf("%s: no answer: %w", q.Op, ctx.Err())
	}
}

func (p *program) end() string {
	_ = p.cmd.Process.Kill() // gone already: all the better
	for range p.lines {
	}
	_ = p.cmd.Wait() // that it was killed is known
	return p.errs.String()
}

// lastBytes keeps the newest of what is written.
type lastBytes struct {
	mu sync.Mutex
	b  []byte
}

const keptBytes = 8 << 10

func (l *lastBytes) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, b...)
	if over := len(l.b) - keptBytes; over > 0 {
		l.b = append(l.b[:0], l.b[over:]...)
	}
	return len(b), nil
}

func (l *lastBytes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}
