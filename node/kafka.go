package node

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/kafka"
)

// Memory for Kafka's large requests: producers put batches for many partitions into
// one, and know no limit but the broker's.
const (
	minKafkaRequest = 1 << 20
	maxKafkaRequest = 256 << 20
	kafkaRequests   = 2 // of each shard, at a time
)

// openKafka adds Kafka's door to the shard's connections, if it is wanted.
func (s *member) openKafka() error {
	n := s.n
	if n.cfg.KafkaListen == "" {
		return nil
	}
	s.kafka = kafka.NewServer(s.broker, s.conns, kafka.Options{
		IdleTimeout: n.cfg.KafkaIdleTimeout, MaxRequest: n.cfg.KafkaRequestBytes, MaxPinned: n.maxPinned(),
		Refused: func(remote string, why error, connections int) {
			n.cfg.Log.Warn("a connection of a Kafka client is closed", "from", remote, "reason", why, "connections", connections)
		},
	})
	var err error
	if s.kafkaDoor, err = s.kafka.Open(); err != nil {
		return fmt.Errorf("shard %d: %w", s.id, err)
	}
	return nil
}

// listenKafka opens Kafka's port on every shard.
func (n *Node) listenKafka() error {
	if n.cfg.KafkaListen == "" {
		return nil
	}
	err := n.shards[0].do(func(s *member) (err error) {
		n.kafkaAddr, err = conn.Probe(s.drv, n.cfg.KafkaListen)
		return err
	})
	if err != nil {
		return fmt.Errorf("listen on %s: %w", n.cfg.KafkaListen, err)
	}
	host, port, err := advertised(n.cfg.KafkaAdvertise, n.kafkaAddr, net.InterfaceAddrs)
	if err != nil {
		return err
	}
	n.kafkaTold = net.JoinHostPort(host, strconv.Itoa(int(port)))
	for _, s := range n.shards {
		err := s.do(func(s *member) error {
			s.kafka.Advertise(host, port)
			_, err := s.kafkaDoor.Listen(n.kafkaAddr)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// advertised is what Kafka clients are told to connect to: what was configured, else
// the address that is listened on. Nobody can connect to "every address", so that for
// it the first address stands that other machines know this one by, or the loopback.
func advertised(configured, bound string, interfaces func() ([]net.Addr, error)) (host string, port int32, err error) {
	host, text, err := net.SplitHostPort(bound)
	if err != nil {
		return "", 0, err
	}
	if configured != "" {
		given := ""
		if host, given, err = net.SplitHostPort(configured); err != nil {
			return "", 0, fmt.Errorf("kafka.advertise is %q, expected host:port", configured)
		}
		if given != "0" {
			text = given
		}
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || number == 0 {
		return "", 0, fmt.Errorf("kafka.advertise: port %q, expected 1 to 65535", text)
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		if configured != "" {
			return "", 0, fmt.Errorf("kafka.advertise: %q is an address to listen on, and nobody can connect to it", configured)
		}
		host = ownAddress(interfaces)
	}
	return host, int32(number), nil
}

// ownAddress is an address of this machine, one that others may know if there is one.
func ownAddress(interfaces func() ([]net.Addr, error)) string {
	all, err := interfaces()
	if err != nil {
		return "127.0.0.1"
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

// KafkaAddr is the address of the Kafka protocol that is listened on, "" for none.
func (n *Node) KafkaAddr() string { return n.kafkaAddr }

func (s *member) kafkaCounters() *kafka.Counters {
	if s.kafka == nil {
		return nil
	}
	return s.kafka.Counters()
}
