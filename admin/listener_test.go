package admin

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// connect opens a connection to a front and says something.
func connect(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWhoeverTricklesKeepsNobodyOut(t *testing.T) {
	r := newRig(t)
	for range 5 * maxConns {
		connect(t, r.front.Addr(), "GET /healthz/live HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	}
	r.mustSay(PathLive, 200, "live")
	// One that has been answered and stays goes before others are refused, too.
	for range 2 * maxConns {
		c := connect(t, r.front.Addr(), "GET /healthz/live HTTP/1.1\r\nHost: x\r\n\r\n")
		if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", res, err)
		}
	}
	r.mustSay(PathReady, 503, "being recovered")
}

// names are the guests' by the order in which they were made.
func names(c *crowd, all []*guest) (in []int) {
	for _, g := range c.conns {
		in = append(in, slices.Index(all, g))
	}
	return in
}

func TestTheOldestOfTheMostNumerousGoes(t *testing.T) {
	c := gather(nil, 4)
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	all := []*guest{{from: a}, {from: b}, {from: b}, {from: a, busy: true}, {from: a}, {from: b}, {from: a}}
	for _, g := range all[:4] {
		if out := c.enter(g); out != nil {
			t.Fatalf("guest %d goes although there is room", slices.Index(all, out))
		}
	}
	for _, step := range []struct {
		comes, goes int
		stay        []int
	}{
		{4, 1, []int{0, 2, 3, 4}}, // of b two wait, of a one
		{5, 0, []int{2, 3, 4, 5}}, // of a two wait, of b one
	} {
		out := c.enter(all[step.comes])
		if got := slices.Index(all, out); got != step.goes || !slices.Equal(names(c, all), step.stay) {
			t.Errorf("for %d guest %d goes and %v stay, expected %d and %v", step.comes, got, names(c, all), step.goes, step.stay)
		}
	}
	for _, g := range c.conns {
		g.busy = true
	}
	if out := c.enter(all[6]); out != all[6] || len(c.conns) != 4 {
		t.Errorf("while all are answered guest %d goes", slices.Index(all, out))
	}
}
