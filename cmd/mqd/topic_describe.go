package main

import (
	"context"
	"fmt"
	"io"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/internal/quantity"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/spf13/cobra"
)

// topicSummary is a topic in JSON.
type topicSummary struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Class      string `json:"class"`
	Partitions int    `json:"partitions"`
}

func topicSummaries(topics []client.TopicInfo) []topicSummary {
	list := make([]topicSummary, len(topics)) // not nil: an empty list is []
	for i, t := range topics {
		list[i] = topicSummary{t.Name, t.ID.String(), t.Class.String(), t.Partitions}
	}
	return list
}

// topicReport is a described topic in JSON.
type topicReport struct {
	Name         string            `json:"name"`
	ID           string            `json:"id"`
	Class        string            `json:"class"`
	ExposedBytes int64             `json:"exposed_bytes"`
	Partitions   []partitionReport `json:"partitions"`
	Configs      []configReport    `json:"configs"`
}

// partitionReport is a partition in JSON. Messages from start to durable can be
// read; end is behind what is on its way to become durable.
type partitionReport struct {
	Partition    int    `json:"partition"`
	Shard        uint32 `json:"shard"`
	Messages     int64  `json:"messages"` // from start to durable
	Start        int64  `json:"start"`
	Durable      int64  `json:"durable"`
	End          int64  `json:"end"`
	Bytes        int64  `json:"bytes"`
	ExposedBytes int64  `json:"exposed_bytes"`
	Epoch        uint32 `json:"epoch"`
}

// configReport is a setting in JSON.
type configReport struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// sourceNames say where a setting's value comes from.
var sourceNames = map[wire.ConfigSource]string{
	wire.SourceDefault: "default",
	wire.SourceBroker:  "broker",
	wire.SourceTopic:   "topic",
}

func newTopicDescribe(s *server) *cobra.Command {
	format := formatFlag{}
	cmd := &cobra.Command{
		Use:   "describe NAME",
		Short: "Show class, exposure, partitions and settings of a topic",
		Long: `Show class, exposure, partitions and settings of a topic.

MESSAGES is how many can be read. START is the offset of the first one stored, DURABLE
the end of what can be read, END the end of what is stored and may still be on its way to
become durable. Between them may be more offsets than messages: a crash leaves a gap
where offsets had been set aside.
BYTES is what the partition takes on disk. EXPOSED is what is acknowledged and not
flushed yet: a power cut now would take it. It is 0 for class flushed.

With -o jsonl every line is a partition.`,
		Example: `  mqd topic describe orders
  mqd topic describe orders -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			var d client.TopicDescription
			var r *topicReport
			err := s.With(cmd.Context(), func(ctx context.Context, c *client.Client) (err error) {
				if d, err = c.Admin().DescribeTopic(ctx, args[0]); err != nil {
					return err
				}
				r = reportOf(&d)
				return r.count(ctx, c.Admin())
			})
			if err != nil {
				return err
			}
			switch format.text {
			case formatJSON:
				return printJSON(cmd.OutOrStdout(), r)
			case formatLines:
				return printJSONLines(cmd.OutOrStdout(), r.Partitions)
			}
			return r.print(cmd.OutOrStdout(), classPromise[d.Class])
		},
	}
	format.add(cmd, formatTable, formatJSON, formatLines)
	return cmd
}

func reportOf(d *client.TopicDescription) *topicReport {
	r := &topicReport{
		Name: d.Name, ID: d.ID.String(), Class: d.Class.String(),
		Partitions: make([]partitionReport, len(d.Partitions)), Configs: make([]configReport, len(d.Configs)),
	}
	for i, p := range d.Partitions {
		r.Partitions[i] = partitionReport{
			Partition: i, Shard: p.Shard, Start: p.LogStart, Durable: p.Durable, End: p.End,
			Bytes: p.BytesOnDisk, ExposedBytes: p.ExposedBytes, Epoch: p.Epoch,
		}
		r.ExposedBytes += p.ExposedBytes
	}
	for i, c := range d.Configs {
		r.Configs[i] = configReport{c.Key, c.Value, sourceNames[c.Source]}
	}
	return r
}

// count asks how many messages the partitions have, which the distance of their offsets
// does not tell: a crash leaves gaps in those.
func (r *topicReport) count(ctx context.Context, a *client.Admin) error {
	starts := map[int32]int64{}
	for _, p := range r.Partitions {
		if p.Start < p.Durable {
			starts[int32(p.Partition)] = p.Start
		}
	}
	lags, err := a.Lag(ctx, r.Name, starts)
	for _, g := range lags {
		p := &r.Partitions[g.Partition]
		p.Messages = max(0, g.Records-(g.End-p.Durable))
	}
	return err
}

// print writes the report as tables.
func (r *topicReport) print(w io.Writer, promise string) error {
	err := printTable(w, func(w io.Writer) {
		fmt.Fprintf(w, "topic\t%s\nid\t%s\nclass\t%s: %s\nexposed now\t%s\n",
			r.Name, r.ID, r.Class, promise, quantity.Bytes(r.ExposedBytes))
	})
	if err != nil {
		return err
	}
	err = printTable(w, func(w io.Writer) {
		fmt.Fprint(w, "\nPARTITION\tSHARD\tMESSAGES\tSTART\tDURABLE\tEND\tBYTES\tEXPOSED\tEPOCH\n")
		for _, p := range r.Partitions {
			fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", p.Partition, p.Shard, p.Messages, p.Start, p.Durable, p.End, p.Bytes, p.ExposedBytes, p.Epoch)
		}
	})
	if err != nil {
		return err
	}
	return printTable(w, func(w io.Writer) {
		fmt.Fprint(w, "\nSETTING\tVALUE\tFROM\n")
		for _, c := range r.Configs {
			text := c.Value
			if text == "" {
				text = "-"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", c.Key, text, c.Source)
		}
	})
}
