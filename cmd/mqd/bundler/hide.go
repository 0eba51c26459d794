package bundler

import "regexp"

// hidden stands for what was hidden.
const hidden = "(hidden)"

var (
	// named is a value whose name says that it is a secret: name=value, name: value, in
	// quotes, in quotes within quotes, or without; or a flag and its value.
	named = regexp.MustCompile(`(?i)((?:` + names + `)[\w.-]*\\?["']?[ \t]*[=:][ \t]*|--?[\w-]*(?:` + names + `)[\w-]*[ \t]+)(\\"[^"\n]*"|"[^"\n]*"|'[^'\n]*'|[^\s,;&"'-][^\s,;&"']*)`)
	// user is a name with a password in an address, bearer a header of HTTP, cookie
	// another.
	user   = regexp.MustCompile(`(://)[^/\s@"']+:[^/\s@"']*@`)
	bearer = regexp.MustCompile(`(?i)\b(bearer|basic)[ \t]+[a-z0-9+/._~=-]{8,}`)
	cookie = regexp.MustCompile(`(?i)(cookie:[ \t]*)[^\n]+`)
	// block is a private key in PEM, also one that has been cut; hash is a password as
	// crypt leaves it.
	block = regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END|$)`)
	hash  = regexp.MustCompile(`\$(?:[0-9a-z]{1,2}|argon2[a-z]*)\$[\w./$,=+-]{8,}`)
)

// names are those of secrets.
const names = `password|passwd|passphrase|\bpwd|secret|token|credential|api[_-]?key|private[_-]?key`

// Hide puts a word in place of what looks like a secret: values whose name says so, names
// with passwords in addresses, headers of HTTP, private keys and hashes of passwords.
func Hide(text []byte) []byte {
	text = block.ReplaceAll(text, []byte("${1}"+hidden+"${2}"))
	text = named.ReplaceAll(text, []byte("${1}"+hidden))
	text = user.ReplaceAll(text, []byte("${1}"+hidden+"@"))
	text = cookie.ReplaceAll(text, []byte("${1}"+hidden))
	text = hash.ReplaceAll(text, []byte(hidden))
	return bearer.ReplaceAll(text, []byte("${1} "+hidden))
}
