package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// Forms of output.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatLines = "jsonl"
	formatValue = "value"
	formatText  = "text"
)

// formatFlag is the flag -o with the forms that a verb has.
type formatFlag struct {
	text    string
	allowed []string
}

// add gives cmd the flag; the first form is the default.
func (f *formatFlag) add(cmd *cobra.Command, forms ...string) {
	f.text, f.allowed = forms[0], forms
	cmd.Flags().VarP(f, "output", "o", "form of the output: "+strings.Join(forms, ", "))
	// The flag exists: it has just been made.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
}

// addForm gives cmd the flag for verbs of other packages.
func addForm(cmd *cobra.Command, forms ...string) func() string {
	f := &formatFlag{}
	f.add(cmd, forms...)
	return f.String
}

func (f *formatFlag) String() string { return f.text }
func (f *formatFlag) Type() string   { return "form" }

func (f *formatFlag) Set(text string) error {
	if !slices.Contains(f.allowed, text) {
		return fmt.Errorf("expected one of %s", strings.Join(f.allowed, ", "))
	}
	f.text = text
	return nil
}

// printTable aligns what fill writes: cells end with tabs, lines with newlines.
func printTable(w io.Writer, fill func(w io.Writer)) error {
	var out bytes.Buffer
	tw := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	fill(tw)
	if err := tw.Flush(); err != nil {
		return err
	}
	for line := range bytes.Lines(out.Bytes()) {
		line = append(bytes.TrimRight(line, " \n"), '\n')
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// printJSON writes one value, indented.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printJSONLines writes each value on a line of its own.
func printJSONLines[T any](w io.Writer, all []T) error {
	enc := json.NewEncoder(w)
	for _, v := range all {
		if err := enc.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

// closing joins the error of closing a file with that of working on it.
func closing(err *error, c io.Closer) { *err = errors.Join(*err, c.Close()) }
