package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio/hostfs"
	"github.com/mqd-broker/mqd/inspect"
	"github.com/spf13/cobra"
)

func newInspect() *cobra.Command {
	format := formatFlag{}
	cmd := &cobra.Command{
		Use:   "inspect PATH",
		Short: "Show what is in the files of a data directory",
		Long: `Show what is in a file of a data directory, or in all files of a directory, in the
order of their names: anchors, rounds and entries of a journal and what ends it, the
batches of a segment, the entries of an index, a checkpoint, the catalog and its
commands, the node file.

A damaged file is shown up to the damage, and a journal, a segment or an index behind
it too. What a file is, is told by how it begins, else by its name. With -o jsonl, or
json, every line is an object with a type and what belongs to it. What of a directory
cannot be read does not end it, and is named at the end with status 1.

Nothing is changed and no lock is taken, so that a file may change under the eyes of
whoever looks at a running broker. Whether everything is whole is told by mqd verify.`,
		Example: `  mqd inspect ./data/journals/journal-0
  mqd inspect ./data/topics/orders.1b2c3d4e/0 -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return inspectPath(cmd.OutOrStdout(), args[0], format.text != formatText)
		},
	}
	format.add(cmd, formatText, formatJSON, formatLines)
	return cmd
}

// inspectPath writes what is in a file or directory, a line for each item.
func inspectPath(w io.Writer, path string, asJSON bool) error {
	out := bufio.NewWriterSize(w, 64<<10)
	err := inspect.Path(hostfs.New(), path, func(it *inspect.Item) error {
		if !asJSON {
			_, err := fmt.Fprintln(out, it)
			return err
		}
		b, err := json.Marshal(it)
		if err == nil {
			_, err = out.Write(append(b, '\n'))
		}
		return err
	})
	err = errors.Join(err, out.Flush())
	if errors.Is(err, syscall.EPIPE) {
		return nil // whoever reads has enough, as with head
	}
	return err
}
