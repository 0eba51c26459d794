package mqdtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/internal/messages"
)

// Record writes what a topic holds at the moment to a file, in order of partition and
// offset, each message as a line of JSON, as mqd consume -o jsonl does. A file that is
// there is replaced. Messages have the times that producers gave them, else those of the
// client's clock: in a bubble of testing/synctest they are the same each time, so that the
// file can be compared with one that a test keeps.
func (b *Broker) Record(topic, file string) {
	b.t.Helper()
	var text []byte
	for _, m := range b.ReadAll(topic) {
		text = messages.AppendJSON(text, m.Partition, m.Offset, &m.Record)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		b.t.Fatalf("mqdtest: %v", err)
	}
}

// Replay sends the messages of a file that Record or mqd consume -o jsonl has written,
// such as real ones of a real broker, to a topic, and returns when all are acknowledged.
// They keep their order in each partition, keys, headers and times, and the partition if
// the file names one, which the topic must have. Offsets are new ones.
func (b *Broker) Replay(topic, file string) {
	b.t.Helper()
	in, err := os.Open(file)
	if err != nil {
		b.t.Fatalf("mqdtest: %v", err)
	}
	defer in.Close()
	c := b.dial()
	defer closeAtOnce(c)
	ctx, cancel := b.context()
	defer cancel()
	if err := replay(ctx, c, topic, in); err != nil {
		b.t.Fatalf("mqdtest: %s: %v", file, err)
	}
}

func replay(ctx context.Context, c *client.Client, topic string, in io.Reader) error {
	choice := &messages.Chooser{}
	p, err := c.Producer(topic, client.WithPartitioner(choice.Partition))
	if err != nil {
		return err
	}
	for r := messages.NewJSONReader(in); ; {
		m, err := r.Next()
		if errors.Is(err, io.EOF) {
			return p.Flush(ctx)
		}
		if err != nil {
			return err
		}
		if int(m.Partition) >= p.Partitions() {
			return fmt.Errorf("a message for partition %d, and topic %s has %d partitions", m.Partition, topic, p.Partitions())
		}
		choice.Wanted = m.Partition
		if _, err := p.Append(ctx, m.Record); err != nil {
			return err
		}
	}
}
