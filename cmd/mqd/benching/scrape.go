package benching

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/admin"
	"github.com/mqd-broker/mqd/bench"
	"github.com/spf13/cobra"
)

// errScrape: metrics could not be fetched while a load was measured.
var errScrape = errors.New("--scrape")

// sampling is how often broker and client are looked at.
func (f *runFlags) sampling(cmd *cobra.Command) time.Duration {
	if f.out == "" && !cmd.Flags().Changed("samples") {
		return 0
	}
	return f.samples
}

// findAdmin makes sure that there is an address to fetch metrics from, if a load wants
// that. A broker that is started gets one in the flags of serve unless they have it.
func (f *runFlags) findAdmin(loads []bench.Load, serve *[]string) error {
	wanted := false
	for _, l := range loads {
		if l.Scrape < 0 {
			return fmt.Errorf("%w: %v, expected 0s or more", errScrape, l.Scrape)
		}
		wanted = wanted || l.Scrape > 0
	}
	if f.server != "" {
		if wanted && f.admin == "" {
			return fmt.Errorf("%w: name the broker's admin HTTP with --admin", errScrape)
		}
		return nil
	}
	for i, arg := range *serve {
		if name, value, _ := strings.Cut(arg, "="); name == "--admin-listen" {
			if f.admin = value; arg == name && i+1 < len(*serve) {
				f.admin = (*serve)[i+1]
			}
			return nil
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		return err
	}
	f.admin = l.Addr().String()
	*serve = append(*serve, "--admin-listen", f.admin)
	return l.Close()
}

// scrape fetches the broker's metrics at once and then in every interval, as Prometheus
// does, until end is called or something is wrong: then the context ends, and end says
// what it was.
func (s *session) scrape(ctx context.Context, every time.Duration) (scraped context.Context, end func() error) {
	if every <= 0 {
		return ctx, func() error { return nil }
	}
	scraped, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		client := http.Client{Transport: &http.Transport{}} // no proxy
		defer client.CloseIdleConnections()
		for {
			if err := fetch(scraped, &client, "http://"+s.admin+admin.PathMetrics); err != nil {
				cancel(fmt.Errorf("%w: %w", errScrape, err))
			}
			select {
			case <-scraped.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return scraped, func() error {
		cancel(nil)
		<-done
		if err := context.Cause(scraped); errors.Is(err, errScrape) && ctx.Err() == nil {
			return err
		}
		return nil
	}
}

// fetch reads an answer to its end.
func fetch(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := client.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, r.Status)
	}
	return nil
}
