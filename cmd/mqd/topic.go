package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/cmd/mqd/trim"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/spf13/cobra"
)

func newTopic() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Create, list, describe, alter, trim and delete topics",
	}
	s := addServer(cmd)
	cmd.AddCommand(newTopicCreate(s), newTopicList(s), newTopicDescribe(s), newTopicAlter(s), trim.New(s, s.topicNames), newTopicDelete(s))
	return cmd
}

// classPromise says in a few words what a class promises.
var classPromise = map[client.Class]string{
	client.ClassFlushed: "nothing acknowledged is lost, not even by a power cut",
	client.ClassWritten: "a power cut can lose what was acknowledged in the last moments (flush.interval, flush.bytes)",
	client.ClassMemory:  "a crash of the broker can lose what was acknowledged in the last moments (flush.interval, flush.bytes)",
}

// topicSettingsHelp explains the settings of topics, from the broker's own table.
func topicSettingsHelp() string {
	var b strings.Builder
	b.WriteString("Settings of topics (--config key=value):\n")
	for _, in := range catalog.Settings() {
		limits := strings.Join(in.Words, ", ")
		if in.Min != "" {
			limits = in.Min + " to " + in.Max
		}
		fmt.Fprintf(&b, "\n  %s (%s; default %s)\n      %s\n", in.Name, limits, in.Default, in.Help)
	}
	return strings.TrimRight(b.String(), "\n")
}

// parseConfigs reads key=value pairs.
func parseConfigs(pairs []string) (map[string]string, error) {
	configs := map[string]string{}
	for _, pair := range pairs {
		key, text, ok := strings.Cut(pair, "=")
		if _, twice := configs[key]; !ok || key == "" || twice {
			return nil, fmt.Errorf("--config %q: expected key=value, each key once", pair)
		}
		configs[key] = text
	}
	return configs, nil
}

// parseClass reads a durability class; "" is none.
func parseClass(flag, text string) (client.Class, error) {
	if text == "" {
		return 0, nil
	}
	class, ok := wire.ParseClass(text)
	if !ok {
		return 0, fmt.Errorf("--%s is %q, expected flushed, written or memory", flag, text)
	}
	return class, nil
}

// completeClasses completes the names of classes for a flag.
func completeClasses(cmd *cobra.Command, flag string) {
	// The flag exists: the caller has made it.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions([]string{
		client.ClassFlushed.String(), client.ClassWritten.String(), client.ClassMemory.String(),
	}, cobra.ShellCompDirectiveNoFileComp))
}

func newTopicCreate(s *server) *cobra.Command {
	var partitions int
	var durability string
	var pairs []string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a topic",
		Long: `Create a topic. When the command returns the topic is durable.

The durability class says what an acknowledgement means: flushed (the default),
written or memory; see durability below.

` + topicSettingsHelp(),
		Example: `  mqd topic create orders --partitions 4
  mqd topic create ticks --durability memory --config flush.interval=20ms
  mqd topic create audit --config segment.bytes=1GiB --config max.message.bytes=512KiB`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if partitions < 0 {
				return fmt.Errorf("--partitions is %d, expected 0 or more", partitions)
			}
			spec := client.TopicSpec{Name: args[0], Partitions: partitions}
			var err error
			if spec.Class, err = parseClass("durability", durability); err != nil {
				return err
			}
			if spec.Configs, err = parseConfigs(pairs); err != nil {
				return err
			}
			return s.With(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				if _, err := c.Admin().CreateTopic(ctx, spec); err != nil {
					return err
				}
				d, err := c.Admin().DescribeTopic(ctx, spec.Name)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "created topic %s: partitions %d, class %s (%s)\n",
					d.Name, len(d.Partitions), d.Class, classPromise[d.Class])
				return err
			})
		},
	}
	cmd.Flags().IntVarP(&partitions, "partitions", "p", 0, "`number` of partitions; 0 is the broker's topic.default_partitions")
	cmd.Flags().StringVar(&durability, "durability", "", "durability `class`: flushed, written or memory; none is the broker's default, flushed")
	cmd.Flags().StringArrayVar(&pairs, "config", nil, "setting of the topic, `key=value`; may be repeated")
	completeClasses(cmd, "durability")
	return cmd
}

// checkAlter checks that there is something to change, and the number of partitions if
// there are to be more.
func checkAlter(configs int, more bool, partitions int) error {
	switch {
	case configs == 0 && !more:
		return errors.New("nothing to change; give --partitions, --durability, --config or --unset")
	case more && partitions < 1:
		return fmt.Errorf("--partitions is %d, expected 1 or more, and not fewer than the topic has", partitions)
	}
	return nil
}

func newTopicAlter(s *server) *cobra.Command {
	var partitions int
	var durability string
	var pairs, unset []string
	cmd := &cobra.Command{
		Use:   "alter NAME",
		Short: "Change settings of a topic, or give it more partitions",
		Long: `Change settings of a topic. What is not named stays as it is. When the command
returns the change is in force; a stronger durability class then holds for
everything that the topic has acknowledged before as well.

A topic can get more partitions, and never fewer. What is stored stays where it is.
Messages with a key that come afterwards may go to another partition than those
before: where the order of a key's messages matters, stop the producers and let the
consumers come to the end first. Clients that are running find the new partitions
within their time for that: a minute for mqd's own, often 5 for Kafka's.

` + topicSettingsHelp(),
		Example: `  mqd topic alter ticks --durability flushed
  mqd topic alter ticks --config segment.bytes=64MiB --unset flush.interval
  mqd topic alter orders --partitions 8`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			configs, err := parseConfigs(pairs)
			if err != nil {
				return err
			}
			class, err := parseClass("durability", durability)
			if err != nil {
				return err
			}
			if class != 0 {
				if _, twice := configs["durability"]; twice {
					return errors.New("durability is given twice")
				}
				configs["durability"] = class.String()
			}
			for _, key := range unset {
				if _, twice := configs[key]; twice {
					return fmt.Errorf("%s is set and unset at once", key)
				}
				configs[key] = ""
			}
			more := cmd.Flags().Changed("partitions")
			if err := checkAlter(len(configs), more, partitions); err != nil {
				return err
			}
			return s.With(cmd.Context(), func(ctx context.Context, c *client.Client) (err error) {
				if len(configs) > 0 {
					err = c.Admin().AlterTopic(ctx, args[0], configs)
				}
				if more && err == nil {
					err = c.Admin().AddPartitions(ctx, args[0], partitions)
				}
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "altered topic %s\n", args[0])
				}
				return err
			})
		},
	}
	cmd.Flags().IntVarP(&partitions, "partitions", "p", 0, "`number` of partitions that the topic is to have, not fewer than it has")
	cmd.Flags().StringVar(&durability, "durability", "", "durability `class`: flushed, written or memory")
	cmd.Flags().StringArrayVar(&pairs, "config", nil, "setting of the topic, `key=value`; may be repeated")
	cmd.Flags().StringArrayVar(&unset, "unset", nil, "setting, by its `key`, that goes back to its default; may be repeated")
	completeClasses(cmd, "durability")
	return cmd
}

func newTopicList(s *server) *cobra.Command {
	format := formatFlag{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List topics",
		Example: `  mqd topic list
  mqd topic list -o json --server broker1:7878`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var topics []client.TopicInfo
			err := s.With(cmd.Context(), func(ctx context.Context, c *client.Client) (err error) {
				topics, err = c.Admin().ListTopics(ctx)
				return err
			})
			if err != nil {
				return err
			}
			switch format.text {
			case formatJSON:
				return printJSON(cmd.OutOrStdout(), topicSummaries(topics))
			case formatLines:
				return printJSONLines(cmd.OutOrStdout(), topicSummaries(topics))
			}
			return printTable(cmd.OutOrStdout(), func(w io.Writer) {
				fmt.Fprint(w, "NAME\tPARTITIONS\tCLASS\tID\n")
				for _, t := range topics {
					fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", t.Name, t.Partitions, t.Class, t.ID)
				}
			})
		},
	}
	format.add(cmd, formatTable, formatJSON, formatLines)
	return cmd
}
