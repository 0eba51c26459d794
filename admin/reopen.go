package admin

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/mqd-broker/mqd/node"
)

// OrderHeader has to stand in every order, with any value. A page in a browser cannot
// send it to another host than its own without being asked first.
const OrderHeader = "Mqd-Order"

// reopen carries out the order to open the logs again. It goes on when whoever ordered it
// has gone.
func (s *Server) reopen(w http.ResponseWriter, r *http.Request) {
	if err := mayOrder(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	unlimited(w)
	s.opts.Log.Warn("order to reopen", "from", r.RemoteAddr)
	err := s.opts.Service.Reopen()
	switch {
	case errors.Is(err, node.ErrWorks), errors.Is(err, node.ErrUnderWay):
		http.Error(w, oneLine(err), http.StatusConflict)
	case err != nil:
		http.Error(w, "not reopened: "+oneLine(err), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "reopened")
	}
}

// mayOrder refuses whoever is not on this machine, and pages in a browser that is.
func mayOrder(r *http.Request) error {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("orders are taken from this machine only, over the loopback interface; this one comes from %s", r.RemoteAddr)
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && host != "localhost" {
		return fmt.Errorf("an order names the broker by an IP address or as localhost, not as %q", r.Host)
	}
	if r.Header.Get(OrderHeader) == "" || r.Header.Get("Origin") != "" {
		return fmt.Errorf("an order has the header %s, and does not come from a page", OrderHeader)
	}
	return nil
}
