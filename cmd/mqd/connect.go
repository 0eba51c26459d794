package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/cmd/mqd/signals"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/spf13/cobra"
)

const (
	// serverVar names the broker where --server does not.
	serverVar = settings.ServerVar
	// defaultServer is where mqd serve listens by default.
	defaultServer = "127.0.0.1:7878"
	defaultPort   = "7878"
)

// server is the broker that a verb talks to, as its flags say.
type server struct {
	addr    string
	timeout time.Duration
	set     func() bool // --server was given
	alone   bool        // and the environment is not looked at
}

// defaultTimeout is how long a broker's answer is waited for.
const defaultTimeout = 10 * time.Second

// reach looks whether a broker answers at addr, for verbs where --server alone names one,
// and returns its host:port.
func reach(ctx context.Context, addr string) (string, error) {
	s := &server{addr: addr, timeout: defaultTimeout, set: func() bool { return true }, alone: true}
	c, err := s.dial(ctx)
	if err != nil {
		return "", err
	}
	s.close(c)
	return s.address(), nil
}

// addServer gives cmd, and the verbs below it, the flags that say which broker.
func addServer(cmd *cobra.Command) *server {
	s := &server{}
	flags := cmd.PersistentFlags()
	flags.StringVarP(&s.addr, "server", "s", defaultServer, "`address` of the broker, host:port ("+serverVar+")")
	flags.DurationVar(&s.timeout, "timeout", defaultTimeout, "longest wait for the broker's answer")
	s.set = func() bool { return flags.Changed("server") }
	return s
}

// named is how another broker is named.
func (s *server) named() string {
	if s.alone {
		return "--server"
	}
	return "--server or " + serverVar
}

// address is host:port of the broker.
func (s *server) address() string {
	addr := s.addr
	if env := os.Getenv(serverVar); env != "" && !s.set() {
		addr = env
	}
	if _, _, err := net.SplitHostPort(addr); err != nil && !strings.HasSuffix(addr, ":") {
		return net.JoinHostPort(strings.Trim(addr, "[]"), defaultPort)
	}
	return addr
}

// dial connects to the broker.
func (s *server) dial(ctx context.Context, opts ...client.Option) (*client.Client, error) {
	if s.timeout <= 0 {
		return nil, fmt.Errorf("--timeout is %v, expected more than 0", s.timeout)
	}
	// A misspelt MQD_SERVER must not mean another broker.
	if _, err := settings.FromEnv(os.Environ()); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(s.address())
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
		return nil, fmt.Errorf("the broker's address (%s) is %q, expected host:port with a port of 1 to 65535", s.named(), s.address())
	}
	opts = append([]client.Option{client.WithClientID("mqd " + version), client.WithTimeout(s.timeout)}, opts...)
	c, err := client.Dial(ctx, []string{s.address()}, opts...)
	if err != nil {
		return nil, s.explain(err)
	}
	return c, nil
}

// With connects, has f work with the broker within the timeout, and closes.
func (s *server) With(ctx context.Context, f func(ctx context.Context, c *client.Client) error) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = s.explain(f(ctx, c))
	s.close(c)
	return err
}

// close ends a client that has nothing more to send.
func (s *server) close(c *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // everything that matters has been waited for
}

// trouble is an error in the words of the person who caused it.
type trouble struct {
	text string
	err  error
}

func (t *trouble) Error() string { return t.text }
func (t *trouble) Unwrap() error { return t.err }

// explain turns an error of the client into one that says what to do.
func (s *server) explain(err error) error {
	var known *trouble
	if err == nil || errors.As(err, &known) {
		return err
	}
	text := s.advice(err)
	if text == "" {
		return err
	}
	return &trouble{text, err}
}

// opsByID name a topic by the identity that it had a moment before.
var opsByID = []string{wire.OpFetch.String(), wire.OpProduce.String(), wire.OpListOffsets.String()}

func (s *server) advice(err error) string {
	addr := s.address()
	other := "name another broker with " + s.named()
	var e *client.Error
	if !errors.As(err, &e) {
		e = &client.Error{}
	}
	var dns *net.DNSError
	var none *net.AddrError // as for .onion
	var timeout net.Error
	switch {
	case errors.Is(err, client.ErrUnknownTopic) && slices.Contains(opsByID, e.Op):
		return fmt.Sprintf("topic %q was deleted meanwhile; see those that exist with: mqd topic list", e.Topic)
	case errors.Is(err, client.ErrUnknownTopic):
		return fmt.Sprintf("topic %q does not exist; see those that do with: mqd topic list, or create it with: mqd topic create %s", e.Topic, e.Topic)
	case errors.Is(err, client.ErrTopicExists):
		return fmt.Sprintf("topic %q exists already; see it with: mqd topic describe %s", e.Topic, e.Topic)
	case errors.Is(err, client.ErrUnknownPartition):
		return fmt.Sprintf("topic %q has no partition %d; see those it has with: mqd topic describe %s", e.Topic, e.Partition, e.Topic)
	case e.Err != nil && (e.Code == wire.CodeInvalidConfig || e.Code == wire.CodeInvalidPartitions || e.Code == wire.CodeInvalidTopic):
		return fmt.Sprintf("topic %q: %v", e.Topic, e.Err)
	case errors.Is(err, client.ErrInvalid):
		return strings.TrimPrefix(strings.TrimPrefix(err.Error(), client.ErrInvalid.Error()+": "), "wire: ")
	case e.Code == wire.CodeCorrupt && e.ValidLow > e.Offset:
		return fmt.Sprintf("topic %s partition %d: what the broker has stored from offset %d to %d is damaged; go on behind it with --partition %d --from %d; mqd verify --server %s finds all damage, and mqd salvage gives it up",
			e.Topic, e.Partition, e.Offset, e.ValidLow-1, e.Partition, e.ValidLow, addr)
	case errors.Is(err, signals.ErrInterrupted):
		return signals.ErrInterrupted.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no broker listens at %s (connection refused); start one with \"mqd serve\", or %s", addr, other)
	case errors.As(err, &dns), errors.As(err, &none):
		return fmt.Sprintf("the host of %s is not known; %s", addr, other)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("the broker at %s did not answer within %v (--timeout); %s", addr, s.timeout, other)
	case e.Op == "dial" && errors.Is(err, client.ErrProtocol):
		return fmt.Sprintf("what listens at %s speaks another protocol than a broker to its clients; name the address of its --listen with %s", addr, s.named())
	case e.Op == "dial" && errors.Is(err, io.EOF):
		return fmt.Sprintf("what listens at %s ends the connection without an answer, as no mqd broker does; %s", addr, other)
	case errors.Is(err, client.ErrDisconnected):
		return fmt.Sprintf("no connection to the broker at %s: %v", addr, e.Err)
	}
	return ""
}

// topicNames completes the names of topics on the command line.
func (s *server) topicNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const patience = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var names []string
	err := s.With(ctx, func(ctx context.Context, c *client.Client) error {
		topics, err := c.Admin().ListTopics(ctx)
		for _, t := range topics {
			names = append(names, t.Name)
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
