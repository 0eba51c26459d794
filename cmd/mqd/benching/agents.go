package benching

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/agent"
	host "github.com/mqd-broker/mqd/bench/machine"
	"github.com/spf13/cobra"
)

// agentFlags say which agents produce and consume instead of this process.
type agentFlags struct {
	produce, consume []string
	token            string
}

func (a *agentFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&a.produce, "produce-on", nil, "`addresses` of agents that produce, instead of this process: see mqd bench agent")
	flags.StringSliceVar(&a.consume, "consume-on", nil, "`addresses` of agents that consume")
	flags.StringVar(&a.token, "token-file", "", "`file` with the agents' token")
}

// any reports whether agents measure.
func (a *agentFlags) any() bool { return len(a.produce)+len(a.consume) > 0 }

// far names an agent that is on another machine, if there is one.
func (a *agentFlags) far() (addr string, ok bool) {
	for _, addr := range slices.Concat(a.produce, a.consume) {
		if !loopback(addr) {
			return addr, true
		}
	}
	return "", false
}

// colocated reports whether a broker shares its machine with a client, as far as
// addresses tell: own says that the broker is on this one.
func (a *agentFlags) colocated(server string, own bool) bool {
	if !a.any() {
		return own
	}
	name, _, err := net.SplitHostPort(server)
	for _, addr := range slices.Concat(a.produce, a.consume) {
		there, _, aerr := net.SplitHostPort(addr)
		if err != nil || aerr != nil || there == name || own && loopback(addr) {
			return true
		}
	}
	return false
}

// dial connects to the agents of a session.
func (s *session) dial(a *agentFlags) error {
	if !a.any() {
		return nil
	}
	token, err := readToken(a.token)
	if err != nil {
		return err
	}
	if s.fleet, err = agent.Dial(s.ctx, s.p, token, a.produce, a.consume); err != nil {
		return err
	}
	s.doc.Agents = s.fleet.Agents()
	for _, a := range s.doc.Agents {
		s.tool.line(s.out, agentLine(a))
	}
	return nil
}

// agentLine is an agent in one line.
func agentLine(a *agent.Agent) string {
	return fmt.Sprintf("agent    %s at %s, kernel %s, %d × %s", a.Role, a.Addr, a.Host.Kernel, a.Host.CPUs, a.Host.CPU)
}

func readToken(path string) ([]byte, error) {
	if path == "" {
		return nil, errors.New("--token-file is missing: agents work for those who know their token")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	token := bytes.TrimSpace(text)
	if len(token) < agent.MinToken {
		return nil, fmt.Errorf("%s: a token of %d bytes, expected %d or more", path, len(token), agent.MinToken)
	}
	return token, nil
}

func (t *tool) newAgent() *cobra.Command {
	var listen, token, ready string
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Produce or consume for measurements that another machine makes",
		Long: `Wait for mqd bench run, sweep or max on another machine, or on this one, and do a part of
their measurements: produce, with --produce-on there, or consume, with --consume-on.
The broker is the one at --server there; this agent must reach it under the same address.

Both ends prove that they know the token, 16 bytes or more, which does not travel.
Nothing is encrypted: on a network that others use, go through a tunnel.`,
		Example: `  head -c 32 /dev/urandom | base64 > token
  mqd bench agent --token-file token --listen 10.0.0.7:7879
  mqd bench run --server 10.0.0.5:7878 --produce-on 10.0.0.7:7879 --consume-on 10.0.0.8:7879 --token-file token --rate 100000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			secret, err := readToken(token)
			if err != nil {
				return err
			}
			return t.agent(cmd, listen, ready, secret)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", "127.0.0.1:7879", "`address` to listen on, host:port")
	flags.StringVar(&token, "token-file", "", "`file` with the token that a coordinator must know")
	flags.StringVar(&ready, "ready-file", "", "`file` to write the address to when it listens")
	return cmd
}

// networkOf is where an address of --listen is listened on: an address of IPv4 there alone,
// and not on all of both kinds, as Go has it for 0.0.0.0.
func networkOf(listen string) (string, error) {
	at, port, err := net.SplitHostPort(listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", fmt.Errorf("--listen is %q, expected host:port, with a port of 0 to 65535", listen)
	}
	if ip, err := netip.ParseAddr(at); err == nil && ip.Is4() {
		return "tcp4", nil
	}
	return "tcp", nil
}

func (t *tool) agent(cmd *cobra.Command, listen, ready string, token []byte) error {
	ctx, end, p, err := t.begin(cmd)
	if err != nil {
		return err
	}
	defer end()
	network, err := networkOf(listen)
	if err != nil {
		return err
	}
	l, err := net.Listen(network, listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port in use: another program listens on %s; stop it, or name another address with --listen", listen)
	} else if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	addr := l.Addr().String()
	fmt.Fprintf(cmd.ErrOrStderr(), "an agent at %s\n", addr)
	if ready != "" {
		if err := os.WriteFile(ready, []byte(addr+"\n"), 0o644); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	return agent.Serve(ctx, l, p, agent.Options{
		Token: token, CPUs: t.clientCPU,
		Host: func() host.Host { return host.ReadHost("/", t.dir, bench.NoCPU, t.needs.Revision()) },
		Log:  func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) },
	})
}
