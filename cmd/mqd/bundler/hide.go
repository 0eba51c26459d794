package bundler

import "regexp"

// hidden stands for what was hidden.
const hidden = "(hidden)"

var (
	// named is a value whose name says that it is a secret: name=value, name: value, in
	// quotes or without.
	named = regexp.MustCompile(`(?i)((?:password|passwd|passphrase|secret|token|credential|api[_-]?key|private[_-]?key)[\w.-]*["']?[ \t]*[=:][ \t]*)("[^"\n]*"|'[^'\n]*'|[^\s,;&"']+)`)
	// user is a name with a password in an address, bearer a header of HTTP.
	user   = regexp.MustCompile(`(://)[^/\s@"']+:[^/\s@"']*@`)
	bearer = regexp.MustCompile(`(?i)\b(bearer|basic)[ \t]+[a-z0-9+/._~=-]{8,}`)
)

// Hide puts a word in place of what looks like a secret: values whose name says so, and
// names with passwords in addresses.
func Hide(text []byte) []byte {
	text = named.ReplaceAll(text, []byte("${1}"+hidden))
	text = user.ReplaceAll(text, []byte("${1}"+hidden+"@"))
	return bearer.ReplaceAll(text, []byte("${1} "+hidden))
}
