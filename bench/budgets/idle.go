package budgets

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/net/wire"
)

const (
	// idleConnections are opened, of which each may have idleBytes of the broker.
	idleConnections = 5000
	idleBytes       = 16 << 10
	// helloWait bounds the answer to the one request that such a connection makes.
	helloWait = 10 * time.Second
)

// idle measures what connections cost that have said who they are, and nothing since.
func (d *doors) idle(ctx context.Context, door int) error {
	what := fmt.Sprintf("%d idle connections, %s, resident memory each", idleConnections, doorNames[door])
	d.s.o.Progress(what)
	addr, hello := d.at[door].Addr, helloNative()
	if door == kafka {
		addr, hello = d.at[door].Kafka, helloKafka()
	}
	row, err := d.idleRow(ctx, what, addr, hello)
	if err != nil {
		row = missing(what, err.Error())
	}
	d.s.rep.Rows = append(d.s.rep.Rows, row)
	return ctx.Err()
}

func (d *doors) idleRow(ctx context.Context, what, addr string, hello []byte) (row Row, err error) {
	conns := make([]net.Conn, 0, idleConnections)
	defer func() {
		for _, c := range conns {
			err = errors.Join(err, c.Close())
		}
	}()
	var memory, kernel [2]int64
	look := func(i int) (err error) {
		// Nothing tells when the broker is done with what was before.
		if err := sleep(ctx, min(settle, d.s.o.Long)); err != nil {
			return err
		}
		if memory[i], err = machine.ResidentMemory("/", d.broker.PID); err != nil {
			return err
		}
		kernel[i], err = machine.SocketMemory("/")
		return err
	}
	if err := look(0); err != nil {
		return row, err
	}
	for range idleConnections {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return row, err
		}
		conns = append(conns, c)
		if err := greet(c, hello); err != nil {
			return row, err
		}
	}
	if err := look(1); err != nil {
		return row, err
	}
	each := func(v [2]int64) float64 { return float64(v[1]-v[0]) / idleConnections / 1024 }
	row = atMost(what, each(memory), idleBytes/1024, 1, "KiB", "after one request and its answer")
	row.Note = fmt.Sprintf("and %.2f KiB each of the kernel's buffers of TCP, of both ends", each(kernel))
	return row, nil
}

// greet sends a request and waits for its answer, which begins with its length.
func greet(c net.Conn, hello []byte) error {
	if err := c.SetDeadline(time.Now().Add(helloWait)); err != nil {
		return err
	}
	if _, err := c.Write(hello); err != nil {
		return err
	}
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(length[:])))
	return err
}

func helloNative() []byte {
	return wire.AppendHelloRequest(nil, 1, wire.HelloRequest{
		MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, WantedShard: wire.AnyShard, ClientID: "mqd bench",
	})
}

// helloKafka asks for the versions of Kafka's APIs, as all its clients do first.
func helloKafka() []byte {
	const apiVersions = 18
	b := binary.BigEndian.AppendUint16(make([]byte, 4), apiVersions)
	b = append(b, 0, 0, 0, 0, 0, 1) // version 0, correlation id
	b = append(b, 0, 4)
	b = append(b, "idle"...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}
