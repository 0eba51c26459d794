package docs_test

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	// inlineLink matches [text](target) and ![text](target "title").
	inlineLink = regexp.MustCompile(`\]\(\s*<?([^)\s>]*)>?(?:\s+"[^"]*")?\s*\)`)
	// linkDefinition matches "[name]: target".
	linkDefinition = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)`)
	codeSpan       = regexp.MustCompile("`[^`]*`")
	scheme         = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
	// linkText matches a link in a heading, of which only the text counts.
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// checkLinks finds links within the repository whose file or heading is missing.
func checkLinks(repo fs.FS, doc document) []problem {
	var bad []problem
	for i, line := range doc.prose() {
		line = codeSpan.ReplaceAllString(line, "")
		matches := inlineLink.FindAllStringSubmatch(line, -1)
		matches = append(matches, linkDefinition.FindAllStringSubmatch(line, -1)...)
		for _, m := range matches {
			if err := follow(repo, doc, m[1]); err != nil {
				bad = append(bad, problem{doc.path, i + 1, err.Error()})
			}
		}
	}
	return bad
}

func follow(repo fs.FS, doc document, link string) error {
	if scheme.MatchString(link) {
		return nil
	}
	file, anchor, _ := strings.Cut(link, "#")
	target := doc
	if file != "" {
		if strings.HasPrefix(file, "/") {
			return fmt.Errorf("link %s: use a relative path", link)
		}
		name := path.Join(path.Dir(doc.path), file)
		if _, err := fs.Stat(repo, name); err != nil {
			return fmt.Errorf("link %s: %s does not exist", link, name)
		}
		if anchor == "" {
			return nil
		}
		if path.Ext(name) != ".md" {
			return fmt.Errorf("link %s: only Markdown files have headings", link)
		}
		data, err := fs.ReadFile(repo, name)
		if err != nil {
			return err
		}
		target = document{name, string(data)}
	}
	if anchor == "" {
		return fmt.Errorf("link %q leads nowhere", link)
	}
	if !slices.Contains(anchors(target), anchor) {
		return fmt.Errorf("link %s: %s has no such heading", link, target.path)
	}
	return nil
}

// anchors are the names that a Markdown viewer gives to the headings: lower
// case, spaces as hyphens, other punctuation dropped, repeats numbered.
func anchors(doc document) []string {
	var names []string
	count := map[string]int{}
	for _, line := range doc.prose() {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name := strings.Map(anchorRune, strings.ToLower(linkText.ReplaceAllString(m[1], "$1")))
		n := count[name]
		count[name]++
		if n > 0 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		names = append(names, name)
	}
	return names
}

func anchorRune(r rune) rune {
	switch {
	case r == ' ':
		return '-'
	case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
		return r
	}
	return -1
}
