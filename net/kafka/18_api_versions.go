package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions, key 18, versions 0 to 4. Any request of a connection may be this one.
//
// Its answer has a header without tagged fields in every version, because a client
// that does not know yet what the broker speaks must be able to read it. A version
// that is too high is answered in the form of version 0 with UNSUPPORTED_VERSION and
// the row of ApiVersions itself, and the client asks again with a lower one.

// errSoftware: a client calls itself what it may not.
var errSoftware = errors.New("kafka: the name or version of the client's software has characters other than letters, digits, dot and dash")

// apiVersions answers with the table.
func (p *peer) apiVersions(h *header) {
	var q kmsg.ApiVersionsRequest
	if !p.decode(h, &q) {
		return
	}
	r := kmsg.NewPtrApiVersionsResponse()
	r.SetVersion(h.version)
	if h.version >= 3 && !(softwareName(q.ClientSoftwareName) && softwareName(q.ClientSoftwareVersion)) {
		r.ErrorCode = codeInvalidRequest
		p.srv.note(p.c, errSoftware)
		p.reply(h.correlation, r)
		return
	}
	for i := range table {
		a := kmsg.NewApiVersionsResponseApiKey()
		a.ApiKey, a.MinVersion, a.MaxVersion = table[i].Key, table[i].Min, table[i].Max
		r.ApiKeys = append(r.ApiKeys, a)
	}
	p.reply(h.correlation, r)
}

// versionTooHigh answers a version that is not known.
func (p *peer) versionTooHigh(h header) {
	r := kmsg.NewPtrApiVersionsResponse()
	r.ErrorCode = codeUnsupportedVersion
	a := kmsg.NewApiVersionsResponseApiKey()
	a.ApiKey, a.MinVersion, a.MaxVersion = keyAPIVersions, find(keyAPIVersions).Min, find(keyAPIVersions).Max
	r.ApiKeys = append(r.ApiKeys, a)
	p.reply(h.correlation, r)
}

// softwareName reports whether s begins and ends with a letter or digit and has dots
// and dashes beside them.
func softwareName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (c != '.' && c != '-' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return s != ""
}
