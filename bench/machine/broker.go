package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// ErrStart: the broker process did not start or did not end in order.
var ErrStart = errors.New("broker process")

// errEnded: it ended by itself before it served.
var errEnded = errors.New("it ended before it served")

const (
	// startWait bounds the start of a broker, stopWait its end.
	startWait = 60 * time.Second
	stopWait  = 40 * time.Second
	readyPoll = 5 * time.Millisecond
)

// Broker is a broker process that a measurement has started for itself.
type Broker struct {
	// Addr is where clients connect, PID its process.
	Addr string
	PID  int

	program string
	args    []string
	ready   string
	dir     string
	log     string
	ended   chan error
	signal  func(sig os.Signal) error
}

// StartBroker starts program with the verb serve, a new data directory below dir
// and further arguments, and waits until clients can connect.
func StartBroker(ctx context.Context, program, dir string, args ...string) (*Broker, error) {
	data, err := os.MkdirTemp(dir, "mqd-bench-")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	b := &Broker{program: program, dir: data, log: filepath.Join(data, "log"), ready: filepath.Join(data, "address"), ended: make(chan error, 1)}
	b.args = append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(data, "data"), "--ready-file", b.ready}, args...)
	if err := b.launch(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrStart, err), os.RemoveAll(data))
	}
	if err := b.await(ctx); errors.Is(err, errEnded) {
		// There is nothing to stop, and its last words have been said.
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrStart, err), os.RemoveAll(data))
	} else if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrStart, err), b.Stop())
	}
	return b, nil
}

// launch starts the process on a thread that lives as long as it does: a child
// ends with the thread that started it (see childEndsWithParent).
func (b *Broker) launch() error {
	logFile, err := os.Create(b.log)
	if err != nil {
		return err
	}
	cmd := exec.Command(b.program, b.args...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	childEndsWithParent(cmd)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			b.ended <- cmd.Wait()
		}
		_ = logFile.Close()
	}()
	if err := <-started; err != nil {
		return err
	}
	b.PID, b.signal = cmd.Process.Pid, cmd.Process.Signal
	return nil
}

// await waits for the file with the broker's address.
func (b *Broker) await(ctx context.Context) error {
	limit := time.NewTimer(startWait)
	defer limit.Stop()
	look := time.NewTicker(readyPoll)
	defer look.Stop()
	for {
		if text, err := os.ReadFile(b.ready); err == nil && bytes.HasSuffix(text, []byte("\n")) {
			b.Addr = strings.TrimSpace(string(text))
			return nil
		}
		select {
		case err := <-b.ended:
			b.ended <- err
			return fmt.Errorf("%w: %w\n%s", errEnded, err, b.logTail())
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("it did not serve within %v\n%s", startWait, b.logTail())
		case <-look.C:
		}
	}
}

// Kafka is where Kafka clients connect to a broker that was started with a flag for that,
// as its log tells.
func (b *Broker) Kafka() (string, error) {
	text, err := os.ReadFile(b.log)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if _, rest, ok := strings.Cut(line, `msg="serving Kafka clients" address=`); ok {
			addr, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			return addr, nil
		}
	}
	return "", fmt.Errorf("%w: its log tells of no address for Kafka clients", ErrStart)
}

// Restart kills the process as kill -9 does, starts it on the same data and tells how
// long it took from there until clients could connect.
func (b *Broker) Restart(ctx context.Context) (time.Duration, error) {
	if err := b.signal(os.Kill); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrStart, err)
	}
	<-b.ended // with the signal's error
	if err := os.Remove(b.ready); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrStart, err)
	}
	began := time.Now()
	if err := b.launch(); err != nil {
		b.ended <- err // Stop finds nothing to end
		return 0, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if err := b.await(ctx); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrStart, err)
	}
	return time.Since(began), nil
}

// Stop ends the process in order, by its id, and removes its data.
func (b *Broker) Stop() error {
	var err error
	select {
	case err = <-b.ended:
		err = fmt.Errorf("it ended by itself: %w\n%s", err, b.logTail())
	default:
		err = b.end()
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrStart, err)
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

func (b *Broker) end() error {
	if err := b.signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	limit := time.NewTimer(stopWait)
	defer limit.Stop()
	select {
	case err := <-b.ended:
		if err != nil {
			return fmt.Errorf("it ended with %w\n%s", err, b.logTail())
		}
		return nil
	case <-limit.C:
		err := fmt.Errorf("it did not end within %v\n%s", stopWait, b.logTail())
		if kerr := b.signal(os.Kill); kerr != nil {
			return errors.Join(err, kerr)
		}
		<-b.ended
		return err
	}
}

// logTail is the end of what the broker has logged.
func (b *Broker) logTail() string {
	const most = 4 << 10
	text, err := os.ReadFile(b.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}
