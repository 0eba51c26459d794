// Package consent has a verb that deletes for good do so only when it is told to: by --yes,
// or by a person at a terminal who is asked.
package consent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// longestAnswer is how much of an answer is read: what is longer is none.
const longestAnswer = 1024

// Help is what the help text of such a verb says about it.
const Help = `A person at a terminal is asked first. Without one nothing is deleted, and the exit status
is 1, unless --yes is given.`

// errNothing is the end of a verb that was not allowed to do anything.
var errNothing = errors.New("nothing has been deleted")

// Consent is whether a verb may delete.
type Consent struct {
	yes      bool
	terminal func(in io.Reader, errs io.Writer) bool
}

// Add gives cmd the flag --yes.
func Add(cmd *cobra.Command) *Consent {
	c := &Consent{terminal: person}
	cmd.Flags().BoolVar(&c.yes, "yes", false, "delete without asking")
	return c
}

// Given reports whether the flag says so already: nobody needs to be asked.
func (c *Consent) Given() bool { return c.yes }

// Get is Ask for what tells, if somebody has to be asked.
func (c *Consent) Get(cmd *cobra.Command, tell func() (string, error)) error {
	if c.yes {
		return nil
	}
	what, err := tell()
	if err != nil {
		return err
	}
	return c.Ask(cmd, what)
}

// Ask asks for the consent to delete what is named, or refuses where nobody can be asked.
func (c *Consent) Ask(cmd *cobra.Command, what string) error {
	if c.yes {
		return nil
	}
	in, errs := cmd.InOrStdin(), cmd.ErrOrStderr()
	if !c.terminal(in, errs) {
		return fmt.Errorf("%w: it would be %s, for good; add --yes to do it", errNothing, what)
	}
	if _, err := fmt.Fprintf(errs, "Delete %s, for good? [y/N] ", what); err != nil {
		return err
	}
	answer, err := bufio.NewReader(io.LimitReader(in, longestAnswer)).ReadString('\n')
	if errors.Is(err, io.EOF) {
		fmt.Fprintln(errs) // the line of the question ends
	} else if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errNothing
}

// person reports whether somebody can be asked: who reads the question and can answer it.
func person(in io.Reader, errs io.Writer) bool { return Terminal(in) && Terminal(errs) }

// Terminal reports whether x is a person's screen or keyboard.
func Terminal(x any) bool {
	f, ok := x.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
