package consent

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// ask runs a verb with args, and answers it if there is a person.
func ask(t *testing.T, person bool, answer string, args ...string) (asked string, err error) {
	t.Helper()
	var c *Consent
	cmd := &cobra.Command{Use: "delete", SilenceUsage: true, SilenceErrors: true, RunE: func(cmd *cobra.Command, _ []string) error {
		return c.Ask(cmd, "topic orders")
	}}
	c = Add(cmd)
	c.terminal = func(io.Reader, io.Writer) bool { return person }
	var errs bytes.Buffer
	cmd.SetIn(strings.NewReader(answer))
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return errs.String(), err
}

func TestAPersonIsAsked(t *testing.T) {
	const question = "Delete topic orders, for good? [y/N] "
	for answer, agreed := range map[string]bool{
		"y\n": true, "Y\n": true, " yes \n": true, "yes": true, "y": true,
		"\n": false, "": false, "n\n": false, "yess\n": false, "no\nyes\n": false, "orders\n": false,
		strings.Repeat(" ", longestAnswer) + "y\n": false,
	} {
		asked, err := ask(t, true, answer)
		if strings.TrimSuffix(asked, "\n") != question || (err == nil) != agreed {
			t.Errorf("%q: asked %q, ended with %v", answer, asked, err)
		}
		if !agreed && err.Error() != "nothing has been deleted" {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

func TestNobodyIsAskedWhoCannotAnswer(t *testing.T) {
	asked, err := ask(t, false, "yes\n")
	if asked != "" || !errors.Is(err, errNothing) || !strings.HasSuffix(err.Error(), "add --yes to do it") {
		t.Errorf("asked %q, ended with %v", asked, err)
	}
	for _, person := range []bool{true, false} {
		if asked, err = ask(t, person, "n\n", "--yes"); asked != "" || err != nil {
			t.Errorf("with --yes: asked %q, ended with %v", asked, err)
		}
	}
}

func TestFilesAndNothingAreNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Create(t.TempDir() + "/in")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, x := range []any{null, file, strings.NewReader(""), &bytes.Buffer{}, nil} {
		if Terminal(x) {
			t.Errorf("%T %v is taken for a terminal", x, x)
		}
	}
}
