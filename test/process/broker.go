package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Config says which broker is started.
type Config struct {
	// Binary is the path of mqd.
	Binary string
	// Dir is the data directory.
	Dir string
	// Args are further arguments of mqd serve. Without --listen among them the
	// broker takes a free port of the loopback interface; without --admin-listen it
	// has no admin HTTP.
	Args []string
	// Env are variables, as "NAME=value", beside those of this process.
	Env []string
	// Log, if it is not nil, gets what the broker writes to standard error, by
	// lines. The newest of it is in [Broker.LogTail] in any case.
	Log io.Writer
}

// ErrEnded: the broker has ended before clients could connect.
var ErrEnded = errors.New("broker ended before it was ready")

// Broker is a running mqd serve. Kill or Stop ends it; one of them must be
// called. Where the system can, the child is killed when this process dies.
type Broker struct {
	cmd   *exec.Cmd
	ready chan readiness // holds one value when it is known
	began time.Time
	log   *tail
	done  chan struct{} // closed when the process is gone
	end   sync.Once
}

type readiness struct {
	addr string
	took time.Duration
	err  error
}

// Start starts a broker. It does not wait until it is ready.
func Start(c Config) (*Broker, error) {
	args := []string{"serve", "--data-dir", c.Dir, "--ready-fd", "3"}
	if !hasFlag(c.Args, "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	if !hasFlag(c.Args, "--admin-listen") {
		args = append(args, "--admin-listen=")
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &Broker{
		cmd:   exec.Command(c.Binary, append(args, c.Args...)...),
		ready: make(chan readiness, 1), done: make(chan struct{}), log: &tail{to: c.Log},
	}
	b.cmd.Env = append(environment(), c.Env...)
	b.cmd.Stderr = b.log
	b.cmd.ExtraFiles = []*os.File{write}
	b.cmd.SysProcAttr = Attributes()
	// What a child of the child keeps open must not hold up Wait.
	b.cmd.WaitDelay = time.Minute
	err = b.launch()
	if err := errors.Join(err, write.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.Binary, err), read.Close())
	}
	go b.listen(read)
	return b, nil
}

// launch starts the child and has it waited for. The kernel takes the death of
// the thread that started a child for the death of its parent, so that thread
// stays until the child is gone.
func (b *Broker) launch() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		b.began = time.Now()
		err := b.cmd.Start()
		started <- err
		if err == nil {
			_ = b.cmd.Wait() // how it ended is in ProcessState
			close(b.done)
		}
	}()
	return <-started
}

// environment is this process's, without the names that tests give to themselves: a
// broker refuses what looks like a setting and is none. Settings have two underscores.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return strings.HasPrefix(name, "MQD_") && !strings.Contains(name, "__")
	})
}

func hasFlag(args []string, name string) bool {
	for _, a := range args {
		if a == name || strings.HasPrefix(a, name+"=") {
			return true
		}
	}
	return false
}

// listen reads the address, which the broker writes when it is ready. When it
// ends before, the pipe ends.
func (b *Broker) listen(pipe *os.File) {
	line, err := bufio.NewReader(pipe).ReadString('\n')
	took := time.Since(b.began)
	_ = pipe.Close() // only read from
	if err != nil {
		b.ready <- readiness{err: ErrEnded}
		return
	}
	b.ready <- readiness{addr: strings.TrimSpace(line), took: took}
}

// Ready waits until clients can connect and returns the address, host:port, and
// how long it took since Start. The error is [ErrEnded], with what the broker
// said, or ctx's.
func (b *Broker) Ready(ctx context.Context) (addr string, took time.Duration, err error) {
	select {
	case r := <-b.ready:
		b.ready <- r
		if r.err == nil {
			return r.addr, r.took, nil
		}
		<-b.done
		return "", 0, fmt.Errorf("%w (%v): %s", r.err, b.cmd.ProcessState, strings.TrimSpace(b.LogTail()))
	case <-ctx.Done():
		return "", 0, fmt.Errorf("broker not ready: %w; it said: %s", ctx.Err(), b.LogTail())
	}
}

// PID is the process's number.
func (b *Broker) PID() int { return b.cmd.Process.Pid }

// Done is closed when the process is gone.
func (b *Broker) Done() <-chan struct{} { return b.done }

// Kill kills the process with SIGKILL, and waits until it is gone. A broker that
// had ended by itself before is an error with what it said.
func (b *Broker) Kill() error {
	var err error
	b.end.Do(func() {
		select {
		case <-b.done:
			err = fmt.Errorf("broker had ended before it was killed (%v): %s", b.cmd.ProcessState, b.LogTail())
			return
		default:
		}
		if e := b.cmd.Process.Kill(); e != nil && !errors.Is(e, os.ErrProcessDone) {
			err = e
		}
		<-b.done
		status, ok := b.cmd.ProcessState.Sys().(syscall.WaitStatus)
		if ok && !status.Signaled() {
			err = fmt.Errorf("broker had ended before it was killed (%v): %s", b.cmd.ProcessState, b.LogTail())
		}
	})
	<-b.done
	return err
}

// Stop has the broker end in order, with SIGTERM, and waits until it is gone. When
// ctx ends first it is killed. Anything but exit status 0 is an error.
func (b *Broker) Stop(ctx context.Context) error {
	var err error
	b.end.Do(func() {
		_ = b.cmd.Process.Signal(syscall.SIGTERM) // gone already: told by done
		select {
		case <-b.done:
		case <-ctx.Done():
			_ = b.cmd.Process.Kill()
			<-b.done
			err = fmt.Errorf("broker did not end in order: %w; it said: %s", ctx.Err(), b.LogTail())
			return
		}
		if !b.cmd.ProcessState.Success() {
			err = fmt.Errorf("broker ended with %v: %s", b.cmd.ProcessState, b.LogTail())
		}
	})
	<-b.done
	return err
}

// Signal sends the process a signal. One that is gone gets none.
func (b *Broker) Signal(s os.Signal) error {
	if err := b.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Ended says how the process ended, as package os does: "exit status 0". It is
// gone.
func (b *Broker) Ended() string { return b.cmd.ProcessState.String() }

// LogTail is the newest of what the broker has written to standard error. That comes
// through a pipe of its own: what a test has to find there it waits for, with Said.
func (b *Broker) LogTail() string { return b.log.String() }

// Said waits until the newest of what the broker has written has a whole line with text in
// it, and returns the first one. The error says that the broker has ended without, or is
// ctx's.
func (b *Broker) Said(ctx context.Context, text string) (string, error) {
	for gone := false; ; {
		more := b.log.next()
		for line := range strings.Lines(b.LogTail()) {
			if strings.Contains(line, text) && strings.HasSuffix(line, "\n") {
				return line, nil
			}
		}
		if gone {
			return "", fmt.Errorf("broker ended (%v) and did not say %q; it said: %s", b.cmd.ProcessState, text, b.LogTail())
		}
		select {
		case <-more:
		case <-b.done: // all that it has written is there
			gone = true
		case <-ctx.Done():
			return "", fmt.Errorf("broker does not say %q: %w; it said: %s", text, ctx.Err(), b.LogTail())
		}
	}
}

// tail keeps the end of a log.
type tail struct {
	to io.Writer

	mu   sync.Mutex
	kept []byte
	more chan struct{} // closed when there is more; nil if nobody waits
}

// tailBytes is how much of a log is kept.
const tailBytes = 64 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.kept = append(t.kept, p...)
	if n := len(t.kept) - tailBytes; n > tailBytes {
		t.kept = append(t.kept[:0], t.kept[n:]...)
	}
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
	t.mu.Unlock()
	if t.to != nil {
		return t.to.Write(p)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept[max(0, len(t.kept)-tailBytes):])
}

// next is closed when there is more than now.
func (t *tail) next() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more == nil {
		t.more = make(chan struct{})
	}
	return t.more
}
