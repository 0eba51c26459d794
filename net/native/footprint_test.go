package native

import (
	"reflect"
	"testing"
)

// maxPeer is what this protocol may keep of an idle connection, in bytes, of the 16 KiB that
// one may have in all; net/conn has 10 KiB.
const maxPeer = 1 << 10

// Whatever else a connection has at times, requests and scratch memory, belongs to the
// server and goes to the next one.
func TestAnIdleConnectionIsSmallByHowItIsMade(t *testing.T) {
	// The tenant is the one string that a client gives a connection.
	if n := int(reflect.TypeFor[peer]().Size()) + maxName; n > maxPeer {
		t.Errorf("%d bytes, expected at most %d", n, maxPeer)
	}
}
