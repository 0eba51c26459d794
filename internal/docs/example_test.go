package docs_test

import (
	"fmt"
	"strings"
)

// exampleFile holds the README's Go examples, each between a line
// "// readme:begin" and a line "// readme:end". There they compile.
const exampleFile = "client/example_readme_test.go"

const (
	beginMark = "// readme:begin"
	endMark   = "// readme:end"
)

// block is a piece of text and the line where it starts.
type block struct {
	text string
	line int
}

// checkExample wants at least one Go block in the README, and each of them to
// be, indentation apart, a marked region of the example file.
func checkExample(readme document, example string) []problem {
	regions, err := regions(example)
	if err != nil {
		return []problem{{exampleFile, 1, err.Error()}}
	}
	blocks := goBlocks(readme)
	if len(blocks) == 0 {
		return []problem{{readme.path, 1, "no ```go block shows how the client is used"}}
	}
	var bad []problem
	for _, b := range blocks {
		found := false
		for _, r := range regions {
			found = found || r == b.text
		}
		if !found {
			bad = append(bad, problem{readme.path, b.line, "this Go block is no marked region of " + exampleFile})
		}
	}
	return bad
}

// goBlocks returns the fenced blocks of Go code, without common indentation.
func goBlocks(doc document) []block {
	var blocks []block
	var lines []string
	start := 0
	for i, l := range strings.Split(doc.text, "\n") {
		mark := strings.TrimSpace(l)
		switch {
		case start == 0 && mark == "```go":
			start, lines = i+1, nil
		case start > 0 && mark == "```":
			blocks = append(blocks, block{dedent(lines), start})
			start = 0
		case start > 0:
			lines = append(lines, l)
		}
	}
	return blocks
}

// regions returns the marked pieces of a Go file, without common indentation.
func regions(src string) ([]string, error) {
	var found []string
	var lines []string
	inside := false
	for l := range strings.Lines(src) {
		l = strings.TrimSuffix(l, "\n")
		switch mark := strings.TrimSpace(l); {
		case mark == beginMark && inside, mark == endMark && !inside:
			return nil, fmt.Errorf("%q without its counterpart", mark)
		case mark == beginMark:
			inside, lines = true, nil
		case mark == endMark:
			inside = false
			found = append(found, dedent(lines))
		case inside:
			lines = append(lines, l)
		}
	}
	if inside {
		return nil, fmt.Errorf("%q without its counterpart", beginMark)
	}
	return found, nil
}

// dedent removes the indentation that all lines share, white space at line ends,
// and empty lines at both ends.
func dedent(lines []string) string {
	shared := -1
	for _, l := range lines {
		body := strings.TrimLeft(l, "\t ")
		if body == "" {
			continue
		}
		if n := len(l) - len(body); shared < 0 || n < shared {
			shared = n
		}
	}
	var b strings.Builder
	for _, l := range lines {
		l = strings.TrimRight(l, "\t ")
		b.WriteString(l[min(len(l), max(shared, 0)):])
		b.WriteByte('\n')
	}
	return strings.Trim(b.String(), "\n")
}
