package groups

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/spf13/cobra"
)

// noDefault leaves the default of a list, which is none, out of the help.
func noDefault(cmd *cobra.Command, flag string) { cmd.Flags().Lookup(flag).DefValue = "" }

// lookUp describes a group; one without a name does not exist.
func lookUp(ctx context.Context, a *client.Admin, group string) (client.GroupDescription, error) {
	d, err := a.DescribeGroup(ctx, group)
	if e := (*client.Error)(nil); errors.As(err, &e) && e.Code == wire.CodeUnknownGroup {
		return client.GroupDescription{}, nil
	}
	return d, err
}

// assign gives partitions to an instance, or to nobody, and returns what else that has
// changed, in lines.
func assign(ctx context.Context, a *client.Admin, group, instance, topic string, partitions []int32) (string, error) {
	was, err := lookUp(ctx, a, group)
	if err != nil {
		return "", err
	}
	if err := a.AssignPartitions(ctx, group, instance, topic, partitions...); err != nil {
		return "", err
	}
	note := ""
	if was.Name == "" {
		note = fmt.Sprintf("group %s did not exist, and was made\n", group)
	}
	if was.Mode == wire.GroupManual || instance == "" {
		return note, nil
	}
	now, err := a.DescribeGroup(ctx, group)
	if err != nil {
		return "", err
	}
	t, err := a.DescribeTopic(ctx, topic)
	if err != nil {
		return "", err
	}
	note += fmt.Sprintf("the partitions of group %s are assigned by hand from now on", group)
	if left := without(&now, topic, len(t.Partitions)); len(left) > 0 {
		note += fmt.Sprintf("; nobody reads %s of topic %s", numbers(left), topic)
	}
	return note + "\nthe group divides them by itself again after: " + freeing(&now) + "\n", nil
}

// without are those of n partitions of a topic that are not in the table of d.
func without(d *client.GroupDescription, topic string, n int) []int32 {
	has := map[int32]bool{}
	for _, t := range d.Table {
		if t.Topic == topic {
			has[t.Partition] = true
		}
	}
	var left []int32
	for p := range int32(n) {
		if !has[p] {
			left = append(left, p)
		}
	}
	return left
}

// numbers names partitions, the first ones of many.
func numbers(list []int32) string {
	const most = 8
	if len(list) == 1 {
		return "partition " + join(list)
	}
	if rest := len(list) - most; rest > 0 {
		return fmt.Sprintf("partitions %s and %d more", join(list[:most]), rest)
	}
	return "partitions " + join(list)
}

func join(list []int32) string {
	var words []string
	for _, p := range list {
		words = append(words, strconv.Itoa(int(p)))
	}
	return strings.Join(words, ",")
}

// freeing are the commands that empty the table of d, which is in order of topic.
func freeing(d *client.GroupDescription) string {
	var commands []string
	table := d.Table
	for len(table) > 0 {
		var list []int32
		topic := table[0].Topic
		for len(table) > 0 && table[0].Topic == topic {
			list = append(list, table[0].Partition)
			table = table[1:]
		}
		commands = append(commands, fmt.Sprintf("mqd group assign %s --topic %s --partition %s --nobody", d.Name, topic, join(list)))
	}
	return strings.Join(commands, "; ")
}

// NotJoined is err, with which a member that shares the partitions of a group was kept
// out, in the words of an operator if the cause is how the group has them divided.
func NotJoined(ctx context.Context, a *client.Admin, group string, err error) error {
	var e *client.Error
	if !errors.As(err, &e) || e.Code != wire.CodeGroupWrongMode {
		return err
	}
	d, failed := a.DescribeGroup(ctx, group)
	if failed != nil {
		return err
	}
	switch {
	case d.Mode == wire.GroupKafka:
		return fmt.Errorf("the members of group %q are Kafka clients; stop them first, see them with: mqd group describe %s, or read with another group", group, group)
	case len(d.Table) == 0:
		return fmt.Errorf("the members of group %q have their partitions by hand; stop them first, see them with: mqd group describe %s, or read with another group", group, group)
	}
	return fmt.Errorf("the partitions of group %q are assigned by hand, and this command has none; see them with: mqd group describe %s; "+
		"without members it divides them by itself again after: %s", group, group, freeing(&d))
}
