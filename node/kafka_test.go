package node

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/broker/classic"
)

func TestKafkaClientsAreNeverToldAnAddressThatNobodyCanConnectTo(t *testing.T) {
	none := func() ([]net.Addr, error) { return nil, errors.New("no interfaces") }
	some := func() ([]net.Addr, error) {
		return []net.Addr{
			&net.IPNet{IP: net.IPv4(127, 0, 0, 1)}, &net.IPNet{IP: net.ParseIP("fe80::1")}, &net.IPNet{IP: net.IPv4(10, 1, 2, 3)},
		}, nil
	}
	for _, x := range []struct {
		configured, bound string
		interfaces        func() ([]net.Addr, error)
		host              string
		port              int32 // 0: refused
	}{
		{"", "127.0.0.1:9092", some, "127.0.0.1", 9092},
		{"", "0.0.0.0:9092", some, "10.1.2.3", 9092},
		{"", "[::]:9092", some, "10.1.2.3", 9092},
		{"", "0.0.0.0:9092", none, "127.0.0.1", 9092},
		{"broker.example:19092", "0.0.0.0:9092", some, "broker.example", 19092},
		{"broker.example:0", "127.0.0.1:41234", some, "broker.example", 41234},
		{"0.0.0.0:9092", "127.0.0.1:9092", some, "", 0},
		{":9092", "127.0.0.1:9092", some, "", 0},
		{"broker.example", "127.0.0.1:9092", some, "", 0},
		{"broker.example:70000", "127.0.0.1:9092", some, "", 0},
	} {
		host, port, err := advertised(x.configured, x.bound, x.interfaces)
		if (err == nil) != (x.port != 0) || err == nil && (host != x.host || port != x.port) {
			t.Errorf("configured %q, listening on %s: %s, %d, %v", x.configured, x.bound, host, port, err)
		}
	}
}

// Large messages need larger frames than Kafka's requests: then those have no memory of
// their own.
func TestMemoryForRequestsOfKafkaClientsFitsTheFrames(t *testing.T) {
	for _, x := range []struct {
		message, request int
		frames           int
	}{
		{1 << 20, 0, 2}, {1 << 20, 1 << 20, 0}, {64 << 20, 0, 0}, {64 << 20, 128 << 20, 2},
	} {
		n := &Node{cfg: Config{Dir: "d", KafkaListen: "127.0.0.1:0", MaxMessageBytes: x.message, KafkaRequestBytes: x.request}.withDefaults()}
		o := n.connOptions()
		if o.JumboFrames != x.frames || (o.JumboFrame > o.MaxFrame) != (o.JumboFrames > 0) {
			t.Errorf("messages of %d bytes, requests of %d: %d frames of %d, others of %d", x.message, x.request, o.JumboFrames, o.JumboFrame, o.MaxFrame)
		}
	}
}

func TestSessionTimeoutsOfKafkaClientsAreInOrder(t *testing.T) {
	c := Config{Dir: "d", Listen: "l", Classic: classic.Limits{MinSession: time.Minute, MaxSession: time.Second}}.withDefaults()
	if err := c.validate(); err == nil || err.Error() != "kafka.min_session_timeout is 1m0s, expected 1ms to kafka.max_session_timeout, 1s" {
		t.Errorf("a shortest session timeout above the longest: %v", err)
	}
}
