package bench

import (
	"context"
	"fmt"
	"time"
)

// NetOptions are what [Network] measures.
type NetOptions struct {
	// Server and Client are the idle modes, all combined with all.
	Server, Client []Idle
	// Depths are numbers of frames in flight.
	Depths []int
	// Size of messages in bytes, 0: the default mix; BatchMessages in a frame,
	// 0: one.
	Size, BatchMessages int
	// Duration of one case.
	Duration time.Duration
	// ServerCPU and ClientCPU are where the threads are pinned, or NoCPU.
	ServerCPU, ClientCPU int
}

// NetResult is one case of [Network].
type NetResult struct {
	Server  Idle    `json:"server"`
	Client  Idle    `json:"client"`
	Depth   int     `json:"depth"`
	Batch   int     `json:"batch_messages"`
	RTT     Summary `json:"rtt"`
	Rate    float64 `json:"frames_per_second"`
	Seconds float64 `json:"seconds"`
}

// Network measures the TCP floor on the loopback interface: produce frames one
// way, acknowledgements the other, with the client loop that measures brokers.
func Network(ctx context.Context, p Platform, o NetOptions, each func(NetResult)) error {
	for _, server := range o.Server {
		for _, client := range o.Client {
			for _, depth := range o.Depths {
				r, err := PingPong(ctx, p, o, NetResult{Server: server, Client: client, Depth: depth})
				if err != nil {
					return err
				}
				each(r)
			}
		}
	}
	return nil
}

// PingPong measures one case of [Network].
func PingPong(ctx context.Context, p Platform, o NetOptions, r NetResult) (NetResult, error) {
	load := Load{
		BatchMessages: o.BatchMessages, Depth: r.Depth, Size: o.Size, Client: r.Client,
		Duration: o.Duration, Warmup: o.Duration / 5, CPUs: cpuList(o.ClientCPU),
	}.withDefaults()
	e, err := StartEcho(p, o.ServerCPU, r.Server, load.frameBytes())
	if err != nil {
		return r, err
	}
	res, err := Run(ctx, p, Target{Addr: e.Addr, Echo: true}, load)
	if serr := e.Stop(); err == nil {
		err = serr
	}
	if err != nil {
		return r, fmt.Errorf("ping-pong, server %s, client %s, depth %d: %w", r.Server, r.Client, r.Depth, err)
	}
	r.Batch = load.BatchMessages
	r.RTT, r.Rate, r.Seconds = res.Ack, res.Rate/float64(load.BatchMessages), load.Duration.Seconds()
	return r, nil
}

func cpuList(cpu int) []int {
	if cpu == NoCPU {
		return nil
	}
	return []int{cpu}
}

// NetHeader is the first line of the table of [NetResult.Row].
func NetHeader() string {
	return fmt.Sprintf("%-9s %-7s %5s  %12s  %10s %10s %10s", "server", "client", "depth", "frames/s", "p50", "p99", "p99.9")
}

// Row is the result as one line.
func (r NetResult) Row() string {
	return fmt.Sprintf("%-9s %-7s %5d  %12.0f  %10s %10s %10s", r.Server, r.Client, r.Depth, r.Rate,
		Micros(r.RTT.P50), Micros(r.RTT.P99), Micros(r.RTT.P999))
}
