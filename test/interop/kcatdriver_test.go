package interop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// kcatDriver runs kcat, as often as there is something to do. It administers nothing.
func kcatDriver(b *broker) (driver, error) {
	k := &kcatClient{address: b.kafka}
	l := &library{ops: map[string]func(context.Context, request) (reply, error){
		"hello": k.hello, "produce": k.produce, "open": k.open, "read": k.read, "close": k.shut,
		"create": k.administer, "grow": k.administer, "drop": k.administer, "groups": k.administer,
	}}
	k.work = k.member
	k.serve(l)
	sending(l, k.flow)
	l.stop = append(l.stop, func() { _, _ = k.shut(context.Background(), request{}) })
	return l, nil
}

type kcatClient struct {
	members
	address string
	reader  *kcatProcess
}

// kcatProcess is a kcat that runs.
type kcatProcess struct {
	cmd  *exec.Cmd
	out  *bufio.Scanner
	in   io.WriteCloser
	errs lastBytes
}

func (k *kcatClient) start(args ...string) (*kcatProcess, error) {
	p := &kcatProcess{cmd: exec.Command("kcat", append([]string{"-b", k.address}, args...)...)}
	p.cmd.Stderr = &p.errs
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	return p, p.cmd.Start()
}

// wait waits until it has ended, with what it has said if that was an error.
func (p *kcatProcess) wait() error {
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("kcat: %w: %s", err, p.errs.String())
	}
	return nil
}

func (k *kcatClient) administer(context.Context, request) (reply, error) {
	return reply{}, unsupported("it administers nothing")
}

var kcatVersion = regexp.MustCompile(`Version ([0-9.]+)`)

func (k *kcatClient) hello(ctx context.Context, _ request) (reply, error) {
	out, err := exec.CommandContext(ctx, "kcat", "-V").CombinedOutput()
	m := kcatVersion.FindSubmatch(out)
	if err != nil || m == nil {
		return reply{}, fmt.Errorf("kcat -V: %w: %s", err, out)
	}
	return reply{Version: string(m[1])}, nil
}

// kcatHeader is what kcat can give to all records that it sends, but not to each its own.
const kcatHeader = "n=0"

func (k *kcatClient) produce(ctx context.Context, q request) (reply, error) {
	if q.Codec != "" {
		return reply{}, unsupported("it gives records no times; a test of its own has all codecs")
	}
	var in bytes.Buffer
	for i := q.First; i < q.First+q.N; i++ {
		fmt.Fprintf(&in, "%s|%s\n", record(q.Topic, i).Key, sized(q.Topic, q, i))
	}
	acks := q.Acks
	if acks == "" {
		acks = "all"
	}
	cmd := exec.CommandContext(ctx, "kcat", "-b", k.address, "-P", "-t", q.Topic, "-p", "0", "-K", "|", "-H", kcatHeader, "-X", "acks="+acks, "-X", "message.max.bytes=10000000")
	cmd.Stdin = &in
	if out, err := cmd.CombinedOutput(); err != nil {
		return reply{}, fmt.Errorf("%w: %s", err, out)
	}
	return reply{}, nil
}

func (k *kcatClient) flow(over context.Context, topic string) (int, error) {
	p, err := k.start("-P", "-E", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", "-X", "queue.buffering.max.messages=500",
		"-X", "linger.ms=0", "-X", "retry.backoff.ms=50", "-X", "reconnect.backoff.max.ms=500")
	if err != nil {
		return 0, err
	}
	n := 0
	for ; over.Err() == nil; n++ {
		if _, err := fmt.Fprintf(p.in, "%s\n", record(topic, n).Value); err != nil {
			return n, errors.Join(err, p.wait())
		}
	}
	return n, errors.Join(p.in.Close(), p.wait())
}

var kcatOffset = regexp.MustCompile(`offset (-?[0-9]+)`)

func (k *kcatClient) open(ctx context.Context, q request) (reply, error) {
	at := map[string]int64{"start": -2, "end": -1, "time": q.Time}[q.From]
	out, err := exec.CommandContext(ctx, "kcat", "-b", k.address, "-Q", "-t", fmt.Sprintf("%s:0:%d", q.Topic, at)).CombinedOutput()
	m := kcatOffset.FindSubmatch(out)
	if err != nil || m == nil {
		return reply{}, fmt.Errorf("kcat -Q: %w: %s", err, out)
	}
	position, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		return reply{}, err
	}
	from := strconv.FormatInt(position, 10)
	if position < 0 {
		from = "end"
	}
	args := []string{"-C", "-t", q.Topic, "-p", "0", "-o", from, "-q", "-u", "-f", "%o|%k|%T|%h|%s\n", "-X", "fetch.wait.max.ms=100"}
	if q.Small {
		args = append(args, "-X", "fetch.message.max.bytes=1")
	}
	if q.Committed {
		args = append(args, "-X", "isolation.level=read_committed")
	}
	k.reader, err = k.start(args...)
	return reply{Position: position}, err
}

func (k *kcatClient) read(_ context.Context, q request) (reply, error) {
	var a reply
	for len(a.Records) < q.N {
		if !k.reader.out.Scan() {
			return a, fmt.Errorf("kcat has ended: %s", k.reader.errs.String())
		}
		f := strings.SplitN(k.reader.out.Text(), "|", 5)
		if len(f) != 5 {
			return a, fmt.Errorf("kcat says %q", k.reader.out.Text())
		}
		offset, err := strconv.ParseInt(f[0], 10, 64)
		at, err2 := strconv.ParseInt(f[2], 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return a, err
		}
		a.Records = append(a.Records, got{offset, f[1], f[4], at, strings.TrimPrefix(f[3], "n=")})
	}
	return a, nil
}

func (k *kcatClient) shut(context.Context, request) (reply, error) {
	if k.reader != nil {
		_ = k.reader.cmd.Process.Kill() // gone already: all the better
		_ = k.reader.cmd.Wait()
		k.reader = nil
	}
	return reply{}, nil
}

var kcatAssigned = regexp.MustCompile(`assigned: (.*)`)

// member is a kcat -G, which says on standard error what it is given, and commits what it
// has read when it loses it.
func (k *kcatClient) member(ctx context.Context, q request, m *member) error {
	cmd := exec.Command("kcat", "-b", k.address, "-G", q.Group, "-E", "-u", "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=10000",
		"-X", "heartbeat.interval.ms=500", "-X", "fetch.wait.max.ms=100", "-X", "auto.commit.interval.ms=100", q.Topic)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			if a := kcatAssigned.FindStringSubmatch(lines.Text()); a != nil {
				m.set(strings.Count(a[1], "["))
			}
		}
	}()
	read := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if err := k.note(lines.Bytes()); err != nil {
				read <- err
				return
			}
		}
		read <- lines.Err()
	}()
	select {
	case <-ctx.Done():
	case err := <-read:
		_ = cmd.Process.Kill() // it has closed its output
		<-said
		return errors.Join(errors.New("kcat has ended"), err, cmd.Wait())
	}
	_ = cmd.Process.Signal(os.Interrupt) // it commits and leaves
	grace := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer grace.Stop()
	<-said
	err = <-read
	_ = cmd.Wait() // how it takes the signal differs between versions
	return err
}
