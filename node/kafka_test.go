package node

import (
	"errors"
	"net"
	"testing"
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
