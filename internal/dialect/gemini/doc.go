// Package gemini is the Gemini v1beta dialect: bytes to perigee's words and back, in both directions. The
// HTTP edge uses it for clients that speak Gemini, the Gemini-shaped upstreams for the provider's side of
// the wire. It is pure: no network, no clock, no globals that change.
//
// Reading follows proto-JSON, as the provider does: lowerCamel and snake_case spellings are the same field,
// null is absent. Members without a word in package perigee travel along as Fields.
package gemini

import "strings"

// camel returns the lowerCamel spelling of a proto-JSON field name.
func camel(key []byte) string {
	s := string(key)
	i := strings.IndexByte(s, '_')
	if i <= 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	b = append(b, s[:i]...)
	up := false
	for _, c := range []byte(s[i:]) {
		switch {
		case c == '_':
			up = true
		case up && 'a' <= c && c <= 'z':
			b = append(b, c-'a'+'A')
			up = false
		default:
			b = append(b, c)
			up = false
		}
	}
	return string(b)
}
