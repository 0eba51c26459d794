package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	inline  = regexp.MustCompile("`((?:sudo )?mqd [^`]+)`")
	comment = regexp.MustCompile(`\s+#.*$`)
)

// commandsIn are the command lines of mqd in a document: those in blocks for a shell and
// those in the text.
func commandsIn(text string) (all []string) {
	shell, block := false, false
	var prose strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if fence, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			block = !block
			shell = block && fence == "sh"
			continue
		}
		if !block {
			prose.WriteString(strings.TrimSpace(line) + " ")
		}
		if shell {
			for part := range strings.SplitSeq(comment.ReplaceAllString(strings.TrimSpace(line), ""), "|") {
				all = append(all, strings.TrimSpace(part))
			}
		}
	}
	for _, m := range inline.FindAllStringSubmatch(prose.String(), -1) {
		all = append(all, m[1])
	}
	return slices.DeleteFunc(all, func(line string) bool {
		line = strings.TrimPrefix(line, "sudo ")
		return !strings.HasPrefix(line, "mqd ") && !strings.HasPrefix(line, "bin/mqd ")
	})
}

// What a document tells people to type has to be there.
func TestCommandsInDocumentsExist(t *testing.T) {
	files, err := filepath.Glob("../../docs/operating/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandsIn(string(text)) {
			found++
			words, _, _ := strings.Cut(strings.TrimPrefix(line, "sudo "), " > ")
			root := newRoot()
			cmd, rest, err := root.Find(strings.Fields(quoted.ReplaceAllString(words, "q"))[1:])
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil && cmd.Runnable() && strings.Contains(words, "-") {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err == nil && cmd == root {
				t.Errorf("%s: %q names no verb", file, line)
			}
			// A text may name a flag without its value.
			if err != nil && !strings.HasPrefix(err.Error(), "flag needs an argument") {
				t.Errorf("%s: %q: %v", file, line, err)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d commands were found", found)
	}
	if got := commandsIn("say `mqd a\nb`\n```sh\nsudo mqd c | mqd d # e\nls\n```\n```yaml\nmqd f\n```\n"); !slices.Equal(got, []string{"sudo mqd c", "mqd d", "mqd a b"}) {
		t.Errorf("commands %q", got)
	}
}
