package redact

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"strings"

	"perigee/internal/lib/lazyregexp"
)

// Value replaces a secret in recordings of HTTP.
const Value = "REDACTED"

// maxName is the maximum length of a name that is compared with the names of secrets, with its
// escapes.
const maxName = 128

// Content returns a text for a recording: the body of a request or an answer, or the value of one
// of its headers. It has Value for the value of each name of a secret (access_token, clientSecret,
// password), and for text that has the form of a provider's credential.
//
// The text may be invalid: it may be a part of JSON, JSON in a string of JSON, events, a form, XML,
// or binary data with any of these in it. A value that the text breaks off in is replaced up to the
// end. Members with an object as their value are not replaced, only the members of that: the schema
// of a tool may describe a password. All other text is unchanged; without secrets, it is the same
// memory.
func Content(text []byte) []byte { return credentials(names(text), false) }

// names replaces the values of names.
func names(text []byte) []byte {
	s := scan{in: text}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ':', '=':
			i = s.separator(i, i+1)
		case '%':
			if i+2 < len(text) && text[i+1] == '3' && strings.IndexByte("dDaA", text[i+2]) >= 0 {
				i = s.separator(i, i+3)
			}
		case '>':
			i = s.tag(i)
		}
	}
	if s.copied == 0 {
		return text
	}
	return append(s.out, text[s.copied:]...)
}

// Binary is Content for data that are not text. Credentials that are recognized only by their form
// keep their length, so that formats with lengths in them can still be decoded.
func Binary(data []byte) []byte { return credentials(names(data), true) }

// A scan copies a text with some parts replaced.
type scan struct {
	in     []byte
	out    []byte
	copied int // bytes of in that are in out, or are replaced
	pair   int // where the value of a pair like {"name":"Cookie","value":"…"} has to begin at the latest, 0 without one
}

// replace writes Value, or other text with it, in place of a part of the text.
func (s *scan) replace(from, to int, with ...string) {
	s.out = append(s.out, s.in[s.copied:from]...)
	for _, text := range with {
		s.out = append(s.out, text...)
	}
	s.copied = to
}

// pairDistance is how far the value of a pair may be from its name.
const pairDistance = 128

// A label is the name before a separator.
type label struct {
	name  []byte
	quote string // the quotation mark behind it, with its escapes; empty without one
	use   use
}

// separator looks at the name before a separator, and replaces the value after it if the name is a
// secret's. It returns the last byte that needs no further look.
func (s *scan) separator(at, after int) int {
	l := s.labelBefore(at)
	if len(l.name) == 0 {
		return after - 1
	}
	var room [maxName]byte
	plain := plainName(l.name, room[:0])
	isPair := string(plain) == "name" || string(plain) == "key"
	isValue := s.pair > 0 && (string(plain) == "value" || string(plain) == "stringvalue")
	isSecret := l.use.secret(plain)
	if !isPair && !isValue && !isSecret {
		return after - 1
	}
	from := s.skipSpace(after, l.quote != "")
	if isValue && from <= s.pair {
		if from < len(s.in) && s.in[from] == '{' {
			return after - 1 // {"key":"authorization","value":{"stringValue":"…"}}
		}
		s.pair = 0
		return s.value(from, l, false)
	}
	if isPair {
		if q := s.quoteAt(from); q.size > 0 {
			end := s.endOf(q, from+q.size)
			if header.secret(plainName(s.in[from+q.size:end], nil)) {
				s.pair = end + pairDistance
			}
		}
	}
	if !isSecret {
		return after - 1
	}
	return s.value(from, l, s.in[at] == ':' && hasEnd(plain, lineEnds))
}

// value replaces the value at from; one without quotation marks up to the end of its line, or of
// its word.
func (s *scan) value(from int, l label, line bool) int {
	if from >= len(s.in) {
		return len(s.in)
	}
	if q := s.quoteAt(from); q.size > 0 {
		start := from + q.size
		if l.quote == "" && s.continues(start) || q.escapes < strings.Count(l.quote, `\`) {
			return start - 1 // {"url":"https://example.com/?key=","next":1}, or {"piece":"password\":","next":1}
		}
		end := s.endOf(q, start)
		if end > start {
			s.replace(start, end, Value)
		}
		return end + q.size - 1
	}
	switch c := s.in[from]; {
	case c == '{':
		return from - 1
	case c == '[' && l.quote != "":
		end := s.endOfArray(from)
		s.replace(from, end, l.quote, Value, l.quote)
		return end - 1
	case l.quote != "":
		return s.literal(from, l)
	}
	end := s.endOfWord(from, line)
	if end > from {
		s.replace(from, end, Value)
	}
	return end - 1
}

// continues reports whether the text at i is JSON after the end of a string: a comma or a colon with
// a value, or the end of a container.
func (s *scan) continues(i int) bool {
	i = s.skipEscaped(i)
	if i == len(s.in) {
		return true
	}
	switch c := s.in[i]; c {
	case '}', ']':
		i = s.skipEscaped(i + 1)
		return i == len(s.in) || strings.IndexByte(",}]", s.in[i]) >= 0 || s.quoteAt(i).size > 0
	case ',', ':':
		i = s.skipEscaped(i + 1)
		return i == len(s.in) || strings.IndexByte("{[-0123456789", s.in[i]) >= 0 || s.quoteAt(i).size > 0 ||
			bytes.HasPrefix(s.in[i:], []byte("null")) || bytes.HasPrefix(s.in[i:], []byte("true")) || bytes.HasPrefix(s.in[i:], []byte("false"))
	}
	return false
}

// skipEscaped skips white space, also with the escapes of JSON in a string of JSON.
func (s *scan) skipEscaped(i int) int {
	for i = s.skipSpace(i, true); i < len(s.in) && s.in[i] == '\\'; i = s.skipSpace(i, true) {
		at := i
		for at < len(s.in) && s.in[at] == '\\' {
			at++
		}
		if at == len(s.in) || strings.IndexByte("nrt", s.in[at]) < 0 {
			return i
		}
		i = at + 1
	}
	return i
}

// literal replaces a number. The other values without quotation marks cannot be secrets.
func (s *scan) literal(from int, l label) int {
	end := from
	for end < len(s.in) && strings.IndexByte(" \t\r\n,}]\\\"'&;", s.in[end]) < 0 {
		end++
	}
	switch string(s.in[from:end]) {
	case "", "null", "true", "false", "None", "True", "False":
	default:
		s.replace(from, end, l.quote, Value, l.quote)
	}
	return end - 1
}

// labelBefore returns the name before a separator. It is empty if there is none.
func (s *scan) labelBefore(at int) label {
	end := at
	for end > s.copied && isSpace(s.in[end-1]) {
		end--
	}
	if q := s.quoteBefore(end); q.size > 0 {
		quote := string(s.in[end-q.size : end])
		end -= q.size
		start := end
		for start > s.copied && end-start <= maxName && s.quoteBefore(start).mark != q.mark {
			start--
		}
		return label{s.in[start:end], quote, member}
	}
	start := end
	for start > s.copied && end-start <= maxName && isNameByte(s.in[start-1]) {
		start--
	}
	name, before := s.in[start:end], byte(0)
	if start > 0 {
		before = s.in[start-1]
	}
	// The name may be &key= written as \u0026key= in JSON, or as %26key%3D in another URL.
	if bytes.IndexByte(name, '\\') >= 0 || bytes.IndexByte(name, '%') >= 0 {
		name = unescape(name)
		if cut := bytes.LastIndexAny(name, "?&;=/#,: \n\t\""); cut >= 0 {
			before, name = name[cut], name[cut+1:]
		}
	}
	if strings.IndexByte("?&;", before) >= 0 && s.in[at] != ':' {
		return label{name, "", parameter}
	}
	return label{name, "", member}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func isNameByte(c byte) bool {
	switch c {
	case '_', '-', '.', '[', ']', '$', '%', '\\':
		return true
	}
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// skipSpace skips spaces, and the ends of lines if lines is set.
func (s *scan) skipSpace(i int, lines bool) int {
	for i < len(s.in) && isSpace(s.in[i]) && (lines || s.in[i] == ' ' || s.in[i] == '\t') {
		i++
	}
	return i
}

// A quotation is a quotation mark with its escapes. JSON in a string of JSON has a backslash before
// it, or is written as \u0022; a further level has more of them.
type quotation struct {
	mark    byte // " or '
	escapes int  // backslashes before it
	size    int  // 0 if there is none
}

// quoteAt returns the quotation mark that begins at i.
func (s *scan) quoteAt(i int) quotation {
	n := 0
	for i+n < len(s.in) && s.in[i+n] == '\\' {
		n++
	}
	mark, size := s.markAt(i+n, n)
	if size == 0 {
		return quotation{}
	}
	return quotation{mark, n, n + size}
}

// markAt returns the quotation mark at i, after some backslashes, without these.
func (s *scan) markAt(i, escapes int) (mark byte, size int) {
	switch rest := s.in[min(i, len(s.in)):]; {
	case len(rest) == 0:
	case rest[0] == '"' || rest[0] == '\'':
		return rest[0], 1
	case escapes > 0 && bytes.HasPrefix(rest, []byte("u0022")):
		return '"', 5
	case escapes > 0 && bytes.HasPrefix(rest, []byte("u0027")):
		return '\'', 5
	}
	return 0, 0
}

// quoteBefore returns the quotation mark that ends before end.
func (s *scan) quoteBefore(end int) quotation {
	if end <= s.copied {
		return quotation{}
	}
	size := 1
	switch s.in[end-1] {
	case '"', '\'':
	case '2', '7':
		size = len("u0022")
	default:
		return quotation{}
	}
	at, n := end-size, 0
	for at-n > s.copied && s.in[at-n-1] == '\\' {
		n++
	}
	if at < s.copied {
		return quotation{}
	}
	if mark, found := s.markAt(at, n); found == size {
		return quotation{mark, n, n + size}
	}
	return quotation{}
}

// endOf returns the end of a string that begins at from, after the quotation mark. It is the end of
// the text, or of the string of JSON that it is in, if the string has none.
func (s *scan) endOf(q quotation, from int) int {
	for i := from; i < len(s.in); i++ {
		n := 0
		for i < len(s.in) && s.in[i] == '\\' {
			n, i = n+1, i+1
		}
		mark, size := s.markAt(i, n)
		switch {
		case mark == '"' && q.mark == '\'' && s.continues(i+size):
			return i - n // {"command":"export KEY='","next":1}
		case mark != q.mark:
		case size == q.size-q.escapes && n%(2*(q.escapes+1)) == q.escapes:
			return i - q.escapes
		case size == 1:
			for e := 0; e < q.escapes; e = 2*e + 1 { // the end of a string that this one is in
				if n%(2*(e+1)) == e {
					return i - e
				}
			}
		}
	}
	return len(s.in)
}

// endOfArray returns the end of the array that begins at from.
func (s *scan) endOfArray(from int) int {
	depth := 0
	for i := from; i < len(s.in); i++ {
		if q := s.quoteAt(i); q.size > 0 {
			i = s.endOf(q, i+q.size) + q.size - 1
			continue
		}
		switch s.in[i] {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s.in)
}

// endOfWord returns the end of a value without quotation marks: of a parameter, of a header to the
// end of its line, or of another word.
func (s *scan) endOfWord(from int, line bool) int {
	for i := from; i < len(s.in); i++ {
		switch c := s.in[i]; {
		case c == '\r' || c == '\n' || c == '"' || c < ' ' && c != '\t':
			return i
		case c == '\\':
			rest := s.in[i:]
			if q := s.quoteAt(i); q.size > 0 && q.mark == '"' {
				return i
			}
			rest = bytes.TrimLeft(rest, `\`)
			if len(rest) > 0 && strings.IndexByte("nrt", rest[0]) >= 0 || bytes.HasPrefix(rest, []byte("u0026")) {
				return i
			}
		case line:
		case isSpace(c), c == '&', c == '\'', c == '<', c == '>':
			return i
		case c == '%' && i+2 < len(s.in) && s.in[i+1] == '2' && s.in[i+2] == '6':
			return i
		}
	}
	return len(s.in)
}

// tag replaces the text of an XML element that has the name of a secret. at is the end of its first
// tag.
func (s *scan) tag(at int) int {
	start := bytes.LastIndexByte(s.in[max(s.copied, at-2*maxName):at], '<')
	if start < 0 {
		return at
	}
	name, _, _ := bytes.Cut(s.in[max(s.copied, at-2*maxName)+start+1:at], []byte(" "))
	if len(name) == 0 || name[0] == '/' || name[len(name)-1] == '/' || !member.secret(plainName(name, nil)) {
		return at
	}
	end := at + 1
	for end < len(s.in) && s.in[end] != '<' {
		end++
	}
	if strings.TrimSpace(string(s.in[at+1:end])) != "" {
		s.replace(at+1, end, Value)
	}
	return end - 1
}

// forms are credentials that their own form shows. JSON may escape slashes; any other backslash
// belongs to the next character, such as the end of a string in a string.
var forms = lazyregexp.New(`\b(?:sk-|1\\/\\/|` + prefixed + `)(?:[A-Za-z0-9._/-]|\\+/){6,}|\b` + jwt)

// binaryForms are forms in binary data, where the byte before one may be a letter: it is a length.
var binaryForms = lazyregexp.New(
	`(?:sk-[A-Za-z0-9_-]{10}|` + prefixed + `)[A-Za-z0-9._/-]{6,}|` + jwt)

// formBeginnings are searched for first, because a search for forms takes longer.
var formBeginnings = [][]byte{
	[]byte("ya29."), []byte("1//"), []byte(`1\/\/`), []byte("AIza"), []byte("GOCSPX-"), []byte("sk-"), []byte("gho_"), []byte("ghp_"),
	[]byte("ghs_"), []byte("ghu_"), []byte("github_pat_"), []byte("xox"), []byte("eyJ"),
}

var (
	bearers = lazyregexp.New(`(?i)\b(bearer(?:\s+|%20|\+))([a-z0-9._~+/=-]{8,})`)
	basics  = lazyregexp.New(`(?i)\b(basic(?:\s+|%20|\+))([a-z0-9+/_=-]{4,})`)
)

// credentials replaces text that has the form of a credential; with pad, by as many bytes.
func credentials(text []byte, pad bool) []byte {
	shapes := forms
	if pad {
		shapes = binaryForms
	}
	for _, beginning := range formBeginnings {
		if bytes.Contains(text, beginning) {
			text = shapes().ReplaceAllFunc(text, func(found []byte) []byte {
				if pad {
					return append([]byte(Value), bytes.Repeat([]byte("*"), len(found)-len(Value))...)
				}
				return []byte(Value)
			})
			break
		}
	}
	if containsFold(text, "earer") {
		text = replaceIf(text, bearers(), func(word []byte) bool {
			// A word without any of these is part of a sentence.
			return bytes.ContainsAny(bytes.TrimRight(word, "."), "0123456789._~+/=-")
		})
	}
	if containsFold(text, "asic") {
		text = replaceIf(text, basics(), func(word []byte) bool {
			plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(word), "="))
			return err == nil && bytes.IndexByte(plain, ':') >= 0
		})
	}
	return text
}

func containsFold(text []byte, lower string) bool {
	return bytes.Contains(text, []byte(lower)) || bytes.Contains(text, []byte(strings.ToUpper(lower)))
}

// replaceIf replaces the second group of an expression with two where it is accepted.
func replaceIf(text []byte, re *regexp.Regexp, accept func(word []byte) bool) []byte {
	return re.ReplaceAllFunc(text, func(match []byte) []byte {
		groups := re.FindSubmatch(match)
		if groups == nil || !accept(groups[2]) {
			return match
		}
		return append(bytes.Clone(groups[1]), Value...)
	})
}
