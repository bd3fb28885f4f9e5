package redact

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// A use is the context of a name. It decides which names are names of secrets: "key" has a
// credential in a URL, and the name of anything in JSON.
type use int

const (
	member    use = iota // of JSON, XML or another text
	parameter            // of a URL or a form
	header
)

// secretEnds are the ends of names of secrets in small letters, without the marks between their
// words: access_token, X-Goog-Api-Key and clientSecret end in one.
var secretEnds = []string{
	"token", "secret", "password", "passwd", "passphrase", "apikey", "privatekey", "secretkey", "accesskey", "accesskeyid", "signingkey",
	"sessionkey", "encryptionkey", "authkey", "authorization", "cookie", "credential", "assertion", "codeverifier", "jwt", "bearer",
}

// secretLists are names of several secrets.
var secretLists = []string{"secrets", "passwords", "apikeys", "cookies", "credentials", "accesstokens", "refreshtokens"}

// harmlessEnds end in one of secretEnds, and are of no use to another person: the place in a list,
// or a part of a text.
var harmlessEnds = []string{"pagetoken", "synctoken", "continuationtoken", "stoptoken", "bostoken", "eostoken"}

// parameterNames are further names of secrets in URLs and forms.
var parameterNames = []string{
	"key", "code", "auth", "sig", "signature", "pass", "pwd", "session", "sid", "xgoogsignature", "xamzsignature", "xamzcredential",
	"sessionid", "ticket", "samlresponse", "devicecode", "otp",
}

// headerNames are further names of headers with secrets.
var headerNames = []string{"setcookie2", "authenticationinfo", "proxyauthenticationinfo", "xauth", "xamzsignature"}

// lineEnds are the ends of names with values that extend to the end of their line.
var lineEnds = []string{"authorization", "cookie"}

// secret reports whether values of a plain name are secrets.
func (u use) secret(plain []byte) bool {
	if hasEnd(plain, secretEnds) || slices.Contains(secretLists, string(plain)) {
		return !hasEnd(plain, harmlessEnds)
	}
	switch u {
	case parameter:
		return slices.Contains(parameterNames, string(plain))
	case header:
		return slices.Contains(headerNames, string(plain))
	}
	return false
}

// plainName appends a name to room in small letters and digits. Escapes of JSON and of URLs are
// decoded. The result is empty if the text is too long for a name.
func plainName(name, room []byte) []byte {
	if len(name) > maxName {
		return nil
	}
	if bytes.IndexByte(name, '\\') >= 0 || bytes.IndexByte(name, '%') >= 0 {
		name = unescape(name)
	}
	for _, c := range name {
		switch {
		case c >= 'A' && c <= 'Z':
			room = append(room, c+'a'-'A')
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			room = append(room, c)
		}
	}
	return room
}

// unescape decodes \u005f with any number of backslashes, and %5F.
func unescape(text []byte) []byte {
	var b []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+5 < len(text) && text[i+1] == 'u' && isHex(text[i+2:i+6]):
			b = utf8.AppendRune(b, rune(hexValue(text[i+2:i+6])))
			i += 5
		case c == '\\':
		case c == '%' && i+2 < len(text) && isHex(text[i+1:i+3]):
			b = append(b, byte(hexValue(text[i+1:i+3])))
			i += 2
		default:
			b = append(b, c)
		}
	}
	return b
}

func isHex(s []byte) bool { return len(bytes.Trim(s, "0123456789abcdefABCDEF")) == 0 }

func hexValue(digits []byte) (n int) {
	for _, c := range digits {
		c |= 0x20
		if c >= 'a' {
			c -= 'a' - '0' - 10
		}
		n = n<<4 | int(c-'0')
	}
	return n
}

func hasEnd(name []byte, ends []string) bool {
	for _, end := range ends {
		if n := len(name) - len(end); n >= 0 && string(name[n:]) == end {
			return true
		}
	}
	return false
}

// Header returns the value of a header for a recording: Value for headers with credentials, and
// Content of any other.
func Header(name, value string) string {
	if value != "" && IsHeader(name) {
		return Value
	}
	return string(Content([]byte(value)))
}

// URL returns a URL for a recording: without the password, and with Value for parameters that have
// credentials.
func URL(u *url.URL) string {
	if u == nil {
		return ""
	}
	shown := *u
	if _, ok := u.User.Password(); ok {
		shown.User = url.UserPassword(u.User.Username(), Value)
	}
	shown.RawQuery, shown.ForceQuery, shown.Fragment, shown.RawFragment = "", false, "", ""
	text := string(Content([]byte(shown.String())))
	if u.RawQuery != "" || u.ForceQuery {
		text += "?" + Query(u.RawQuery)
	}
	if u.Fragment != "" {
		text += "#" + Query(u.EscapedFragment())
	}
	return text
}

// Query returns the parameters of a URL, or of a form in a body, with Value for those that have
// credentials. All else is unchanged, also the order.
func Query(raw string) string {
	if raw == "" {
		return ""
	}
	var b strings.Builder
	for from := 0; from <= len(raw); {
		end := strings.IndexAny(raw[from:], "&;")
		if end < 0 {
			end = len(raw)
		} else {
			end += from
		}
		b.WriteString(pair(raw[from:end]))
		if end < len(raw) {
			b.WriteByte(raw[end])
		}
		from = end + 1
	}
	return b.String()
}

// pair returns one parameter.
func pair(text string) string {
	name, value, ok := strings.Cut(text, "=")
	switch {
	case !ok:
		return string(Content([]byte(text)))
	case value != "" && IsParameter(name):
		return name + "=" + Value
	}
	// A parameter may be a URL itself, or JSON.
	if plain, err := url.QueryUnescape(value); err == nil && plain != value {
		if clean := string(Content([]byte(plain))); clean != plain {
			return name + "=" + url.QueryEscape(clean)
		}
		return text
	}
	return name + "=" + string(Content([]byte(value)))
}

// IsHeader reports whether a header of this name has a credential.
func IsHeader(name string) bool { return header.secret(plainName([]byte(name), nil)) }

// IsParameter reports whether a parameter of this name, in a URL or a form, has a credential.
func IsParameter(name string) bool { return parameter.secret(plainName([]byte(name), nil)) }
