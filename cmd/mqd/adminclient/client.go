package adminclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/admin"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/spf13/cobra"
)

const (
	// defaultAddr is where a broker has its admin HTTP by default.
	defaultAddr = "127.0.0.1:9644"
	// defaultTimeout is how long an answer is waited for.
	defaultTimeout = 10 * time.Second
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 16 << 20
	// mostTrace bounds a trace: the largest trace.size allows no more.
	mostTrace = 1 << 30
)

// broker is the admin HTTP of a broker, as the flags say.
type broker struct {
	addr    string
	given   func() bool // --admin
	timeout time.Duration
	most    int64 // bytes of an answer that are read, 0 for maxAnswer
}

// Broker is the admin HTTP of a broker, for verbs of other packages.
type Broker struct{ b broker }

// AddFlags gives a command the flags that name a broker's admin HTTP.
func AddFlags(cmd *cobra.Command) *Broker {
	b := &Broker{}
	flags := cmd.Flags()
	flags.StringVar(&b.b.addr, "admin", defaultAddr, "`address` of the broker's admin HTTP, host:port ("+settings.AdminVar+")")
	flags.DurationVar(&b.b.timeout, "timeout", defaultTimeout, "longest wait for the broker's answer")
	b.b.given = func() bool { return flags.Changed("admin") }
	return b
}

// Get asks for a path. The error says what to do.
func (b *Broker) Get(ctx context.Context, path string) ([]byte, error) {
	_, answer, err := b.b.call(ctx, http.MethodGet, path, http.StatusOK)
	return answer, err
}

// Ask asks for a path and takes an answer of any status, of which it reads up to most
// bytes. It waits for longer than --timeout says by an extra time.
func (b *Broker) Ask(ctx context.Context, path string, extra time.Duration, most int) (status int, answer []byte, err error) {
	patient := b.b
	patient.timeout += extra
	patient.most = int64(most)
	return patient.call(ctx, http.MethodGet, path)
}

// GetJSON asks for a path and reads the answer into a value.
func (b *Broker) GetJSON(ctx context.Context, path string, into any) error {
	answer, err := b.Get(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("what listens at %s is no admin HTTP of this version of mqd: %s is not to be read: %w", b.b.addr, path, err)
	}
	return nil
}

// Address is host:port of the admin HTTP.
func (b *Broker) Address() (string, error) { return b.b.address() }

// address is host:port of the admin HTTP.
func (b *broker) address() (string, error) {
	addr, from := b.addr, "--admin"
	if env := os.Getenv(settings.AdminVar); env != "" && !b.given() {
		addr, from = env, settings.AdminVar
	}
	_, port, err := net.SplitHostPort(addr)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
		return "", fmt.Errorf("%s is %q, expected host:port with a port of 1 to 65535", from, addr)
	}
	return addr, nil
}

// call asks the broker. Its answer has one of the statuses wanted, any if none is named.
func (b *broker) call(ctx context.Context, method, path string, wanted ...int) (status int, answer []byte, err error) {
	if b.timeout <= 0 {
		return 0, nil, fmt.Errorf("--timeout is %v, expected more than 0", b.timeout)
	}
	// A misspelt variable must not mean another broker.
	if _, err := settings.FromEnv(os.Environ()); err != nil {
		return 0, nil, err
	}
	addr, err := b.address()
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set(admin.OrderHeader, "mqd")
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy
	r, err := transport.RoundTrip(req)
	if err != nil {
		return 0, nil, b.explain(addr, err)
	}
	defer r.Body.Close()
	most := b.most
	if most == 0 {
		most = maxAnswer
	}
	answer, err = io.ReadAll(io.LimitReader(r.Body, most))
	if err != nil {
		return 0, nil, b.explain(addr, err)
	}
	if len(wanted) == 0 {
		return r.StatusCode, answer, nil
	}
	for _, w := range wanted {
		if r.StatusCode == w {
			return r.StatusCode, answer, nil
		}
	}
	return 0, nil, fmt.Errorf("what listens at %s answers %s to %s: it is no admin HTTP of mqd, or of another version; name another with --admin or %s", addr, r.Status, path, settings.AdminVar)
}

// explain turns an error into one that says what to do.
func (b *broker) explain(addr string, err error) error {
	other := "name another with --admin or " + settings.AdminVar
	var dns *net.DNSError
	var none *net.AddrError
	var timeout net.Error
	var broken *net.OpError
	text := ""
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		text = fmt.Sprintf("no broker has its admin HTTP at %s (connection refused); start one with \"mqd serve\", see its --admin-listen, or %s", addr, other)
	case errors.As(err, &dns), errors.As(err, &none):
		text = fmt.Sprintf("the host of %s is not known; %s", addr, other)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		text = fmt.Sprintf("the broker at %s did not answer within %v (--timeout)", addr, b.timeout)
	case errors.As(err, &broken):
		text = fmt.Sprintf("no answer from %s (%v); %s", addr, broken, other)
	default:
		text = fmt.Sprintf("what listens at %s does not speak HTTP, as the admin HTTP of mqd does; name the address of the broker's --admin-listen with --admin or %s", addr, settings.AdminVar)
	}
	return &trouble{text, err}
}

// trouble is an error in the words of the person who caused it.
type trouble struct {
	text string
	err  error
}

func (t *trouble) Error() string { return t.text }
func (t *trouble) Unwrap() error { return t.err }

// status asks for the state.
func (b *broker) status(ctx context.Context) (*admin.Status, error) {
	_, answer, err := b.call(ctx, http.MethodGet, admin.PathStatus, http.StatusOK)
	if err != nil {
		return nil, err
	}
	var st admin.Status
	if err := json.Unmarshal(answer, &st); err != nil || st.State == "" {
		return nil, fmt.Errorf("what listens at %s is no admin HTTP of mqd: its state is not to be read; name another with --admin or %s", b.addr, settings.AdminVar)
	}
	return &st, nil
}

// trace asks for a snapshot of the flight recorder.
func (b *broker) trace(ctx context.Context) ([]byte, error) {
	b.most = mostTrace
	status, answer, err := b.call(ctx, http.MethodGet, admin.PathTrace, http.StatusOK, http.StatusNotFound, http.StatusServiceUnavailable)
	if err == nil && status != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(answer)))
	}
	return answer, err
}

// reopen orders the logs to be opened again.
func (b *broker) reopen(ctx context.Context) error {
	status, answer, err := b.call(ctx, http.MethodPost, admin.PathReopen,
		http.StatusOK, http.StatusConflict, http.StatusForbidden, http.StatusInternalServerError)
	if err == nil && status != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(answer)))
	}
	return err
}
