package benching

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mqd-broker/mqd/bench/figure"
)

// livePeriod is how often the line of a run under way is written anew.
const livePeriod = time.Second

// liveTo is where that is shown: a terminal, else nowhere.
func liveTo(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return f
		}
	}
	return nil
}

// show writes a line over itself until end is called: how fast and how late messages were
// in the last second. A goroutine that measures nothing does so.
func show(ctx context.Context, w io.Writer, look func() *figure.Glance, every time.Duration) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		began := time.Now()
		last := began
		look() // the first time it only asks
		for {
			select {
			case <-ctx.Done():
				fmt.Fprint(w, "\r\x1b[K") // the result comes in its place
				return
			case now := <-tick.C:
				fmt.Fprintf(w, "\r\x1b[K%4.0f s %s", now.Sub(began).Seconds(), look().String(now.Sub(last)))
				last = now
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
