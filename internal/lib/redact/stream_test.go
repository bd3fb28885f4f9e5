package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"perigee"
)

func redactorOf(values ...string) *Redactor {
	var secrets []perigee.Secret
	for _, v := range values {
		secrets = append(secrets, perigee.NewSecret(v))
	}
	return New(secrets...)
}

// inPieces puts a text through a Stream in pieces of the given sizes, over and over.
func inPieces(r *Redactor, text []byte, sizes ...int) string {
	var s Stream
	var out []byte
	for i := 0; len(text) > 0; i++ {
		n := min(max(1, sizes[i%len(sizes)]), len(text))
		out = s.Append(out, r, text[:n])
		text = text[n:]
	}
	return string(s.Close(out, r))
}

func TestStreamReplacesEveryForm(t *testing.T) {
	const secret = "laptop-key/of+ada"
	r := redactorOf(secret, "k1", `odd "one\here`+"\n!", "with a space in it")
	for _, c := range []struct{ name, text, want string }{
		{"plain", "x " + secret + " y", "x [redacted] y"},
		{"inside of a word", "x" + secret + "y", "x[redacted]y"},
		{"JSON escapes", `"a\/laptop-key\/of\u002bada"`, `"a\/[redacted]"`},
		{"all characters escaped", escapeAll(secret, `\u%04x`), "[redacted]"},
		{"capital digits", escapeAll(secret, `\u%04X`), "[redacted]"},
		{"JSON in JSON in JSON in JSON", escapeAll(secret, `\\\\\\\u%04x`), "[redacted]"},
		{"query", "?a=" + url.QueryEscape(secret) + "&b", "?a=[redacted]&b"},
		{"query, encoded again", url.QueryEscape(url.QueryEscape(secret)), "[redacted]"},
		{"query, encoded twice again", url.QueryEscape(url.QueryEscape(url.QueryEscape(secret))), "[redacted]"},
		{"all characters encoded", escapeAll(secret, "%%%02X"), "[redacted]"},
		{"basic authentication", "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:"+secret)) + "!", "Basic YWRhOm[redacted]!"},
		{"space as plus", "with+a+space+in+it", "[redacted]"},
		{"space as %20", "with%20a%20space%20in%20it", "[redacted]"},
		{"quoted", strconv.Quote(`odd "one\here` + "\n!"), `"[redacted]"`},
		{"quoted twice", strconv.Quote(strconv.Quote(`odd "one\here` + "\n!")), `"\"[redacted]\""`},
		{"short", `k1 k12 ak1 a-k1 "k1" \nk1`, `[redacted] k12 ak1 a-k1 "[redacted]" \n[redacted]`},
		{"overlapping", "laptop-key/of+adalaptop-key/of+ada", "[redacted][redacted]"},
		{"a part", "laptop-key/of+ad", "laptop-key/of+ad"},
		{"other escapes", `\u00fc \u003c %s 100% \\ \" \n`, `\u00fc \u003c %s 100% \\ \" \n`},
	} {
		for _, sizes := range [][]int{{1 << 20}, {1}, {7, 3}, {50}} {
			if got := inPieces(r, []byte(c.text), sizes...); got != c.want {
				t.Errorf("%s, in pieces of %v: %q becomes %q, want %q", c.name, sizes, c.text, got, c.want)
			}
		}
		if got := string(r.AppendAll(nil, []byte(c.text))); got != c.want {
			t.Errorf("%s, whole: %q becomes %q, want %q", c.name, c.text, got, c.want)
		}
		if got := string(r.Clean([]byte(c.text))); got != c.want {
			t.Errorf("%s, clean: %q becomes %q, want %q", c.name, c.text, got, c.want)
		}
		if r.Finds([]byte(c.text)) != (c.text != c.want) {
			t.Errorf("%s: Finds(%q) is wrong", c.name, c.text)
		}
	}
}

func escapeAll(text, format string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// Without secrets, a Stream passes everything on at once.
func TestStreamWithoutSecrets(t *testing.T) {
	for _, r := range []*Redactor{nil, New()} {
		var s Stream
		if got := string(s.Close(s.Append(nil, r, []byte("abc")), r)); got != "abc" || r.Finds([]byte("abc")) {
			t.Errorf("got %q", got)
		}
	}
}

// Copy redacts a text of any size, wherever its reader splits it.
func TestCopy(t *testing.T) {
	r := redactorOf("a-secret-of-a-client")
	text := strings.Repeat("some text, ", 20_000) + "a-secret-of-a-client" + strings.Repeat(" and more", 20_000)
	for name, from := range map[string]io.Reader{"whole": strings.NewReader(text), "in bytes": iotest.OneByteReader(strings.NewReader(text))} {
		var got strings.Builder
		if err := r.Copy(&got, from); err != nil || got.String() != strings.Replace(text, "a-secret-of-a-client", Mark, 1) {
			t.Errorf("%s: %d bytes, %v", name, got.Len(), err)
		}
	}
	broken := errors.New("the disk is broken")
	if err := r.Copy(io.Discard, iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// Secrets become known while a text flows. What is held back then is searched for the new ones as
// well.
func TestStreamLearnsSecrets(t *testing.T) {
	first, second := redactorOf("the first secret of all"), redactorOf("the first secret of all", "ya29.a-new-access-token")
	var s Stream
	out := s.Append(nil, first, []byte("token: ya29.a-new-"))
	out = s.Append(out, second, []byte("access-token, and the first secret of all."))
	if got, want := string(s.Close(out, second)), "token: [redacted], and [redacted]."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStreamHoldsLittleBack(t *testing.T) {
	r := redactorOf(strings.Repeat("0123456789", 20))
	var s Stream
	var out []byte
	written := 0
	for range 1000 {
		text := []byte(strings.Repeat("text of an answer, ", 5))
		written += len(text)
		out = s.Append(out, r, text)
		if held := written - len(out); held > 1200 {
			t.Fatalf("%d bytes are held", held)
		}
	}
}

func manySecrets(n int) (values []string) {
	random := rand.New(rand.NewPCG(1, 2))
	for range n {
		var token [120]byte
		for i := range token {
			token[i] = byte(random.Uint32())
		}
		values = append(values, "ya29."+base64.RawURLEncoding.EncodeToString(token[:]))
	}
	return values
}

// sampleBody is a request with code and a schema in it.
func sampleBody(size int) []byte {
	line := "func (s *Store) Watch(call *perigee.Call) perigee.Watcher {\n\tif s.keep <= 0 {\n\t\treturn nil // \"none\"\n\t}\n}\n"
	body, _ := json.Marshal(map[string]string{"content": strings.Repeat(line, size/len(line))})
	return body
}

// With a thousand accounts the text is still searched in one pass.
func TestAThousandSecretsAreFound(t *testing.T) {
	values := manySecrets(1000)
	r := redactorOf(values...)
	for i, v := range values {
		if i%50 != 0 {
			continue
		}
		text := "before " + v + " behind"
		if got := inPieces(r, []byte(text), 100); got != "before [redacted] behind" {
			t.Errorf("got %q", got)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	text := sampleBody(100 << 10)
	urls := bytes.Repeat([]byte(`"https:\/\/host.example\/a%2Fb?x=\u003cy\u003e",`), len(text)/50)
	for _, c := range []struct {
		name    string
		secrets int
		text    []byte
	}{{"10 secrets", 10, text}, {"2000 secrets", 2000, text}, {"10 secrets, escapes", 10, urls}} {
		b.Run(c.name, func(b *testing.B) {
			r := redactorOf(manySecrets(c.secrets)...)
			r.index()
			out := make([]byte, 0, 2*len(c.text))
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				out = r.AppendAll(out[:0], c.text)
			}
		})
	}
}

func BenchmarkNewIndex(b *testing.B) {
	values := manySecrets(2000)
	for b.Loop() {
		newIndex(values)
	}
}

// Base64 is found in lines, however their ends are written.
func TestBase64InLines(t *testing.T) {
	r := redactorOf("laptop-key/of+ada-lovelace", "sixteen-letters!", strings.Repeat("a long secret ", 20))
	checked := 0
	for _, secret := range []string{"laptop-key/of+ada-lovelace", "sixteen-letters!", strings.Repeat("a long secret ", 20)} {
		for _, width := range []int{60, 64, 76} {
			for _, end := range []string{"\n", "\r\n", `\n`, `\r\n`, `\\n`, `\\\r\\\n`, "\n    ", "%0A", "%0D%0A"} {
				for before := 0; before < 80; before += 3 { // wherever the lines end
					text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + secret + "yz"))
					var lines []string
					for len(text) > width {
						lines, text = append(lines, text[:width]), text[width:]
					}
					wrapped := "(" + strings.Join(append(lines, text), end) + ")"
					for _, got := range []string{string(r.AppendAll(nil, []byte(wrapped))), inPieces(r, []byte(wrapped), 10)} {
						if checked++; strings.Count(got, Mark) != 1 {
							t.Fatalf("%q becomes %q", wrapped, got)
						}
					}
				}
			}
		}
	}
	if checked < 4_000 {
		t.Errorf("only %d texts", checked)
	}
	for _, text := range []string{`bGFwdG9wLWtleS9vZithZ \ GEtbG92ZWxhY2`, "bGFwdG9wLWtleS9vZith GEtbG92ZWxhY2", "ZGEtbG92ZWxhY2U"} {
		if r.Finds([]byte(text)) {
			t.Errorf("%q is found", text)
		}
	}
}

// A reference is the definition of what is found, without regard to time.
type reference struct {
	words, plain, decoded []string
	base64                []string // those of plain that may be in lines
	chars                 string   // of plain, without words
}

func newReference(values []string) (f reference) {
	for _, v := range values {
		if len(v) < shortSecret {
			f.words = append(f.words, v)
			continue
		}
		f.plain = append(f.plain, v)
		for shift := range 3 {
			for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				// The characters that are the same whatever stands before and behind the secret.
				a := e.EncodeToString([]byte(strings.Repeat("\x00", shift) + v + "\x00\x00"))
				b := e.EncodeToString([]byte(strings.Repeat("\xff", shift) + v + "\xff\xff"))
				start := 0
				for start < len(a) && (shift > 0 && start <= shift) {
					start++
				}
				end := start
				for end < len(a) && a[end] == b[end] {
					end++
				}
				f.plain = append(f.plain, a[start:end])
				if end-start >= 2*minPiece {
					f.base64 = append(f.base64, a[start:end])
				}
			}
		}
	}
	f.chars = strings.Join(f.plain, "")
	for _, p := range f.plain {
		text, _, _ := f.decode(p)
		f.decoded = append(f.decoded, text)
	}
	return f
}

var escapes = regexp.MustCompile(`(?s)^(?:\\{1,7}(?:u([0-9a-fA-F]{4})|(.))|%(?:25){0,2}([0-9a-fA-F]{2})|(%25))`)

// decode removes escapes of characters in f.chars. start and end are where each byte was.
func (f reference) decode(text string) (decoded string, start, end []int) {
	var b []byte
	for i := 0; i < len(text); {
		chars, size := text[i:i+1], 1
		if m := escapes.FindStringSubmatch(text[i:]); m != nil {
			if found := f.unescape(m); found != "" {
				chars, size = found, len(m[0])
				if m[3] != "" && found == "%" && !strings.HasSuffix(m[0], "25") {
					size = 3
				}
			}
		}
		switch {
		case chars == " " && strings.Contains(f.chars, " "):
			chars = "+"
		case chars == `\` && strings.Contains(f.chars, `\`):
			chars = ""
		}
		b = append(b, chars...)
		for range len(chars) {
			start, end = append(start, i), append(end, i+size)
		}
		i += size
	}
	return string(b), start, end
}

var lineBreak = regexp.MustCompile(`^(?:[ \t\r\n]|\\{1,8}[nrt]|%0[AaDd9])+`)

// inLines returns where a form ends that begins at i; 0 means it does not. One of its last two
// parts has to be in one line.
func inLines(text string, i int, form string) int {
	part := min(len(form)/2, minLine/2)
	broken := [2]bool{}
	for at := 0; at < len(form); at++ {
		if i < len(text) && text[i] == form[at] {
			i++
			continue
		}
		found := lineBreak.FindString(text[min(i, len(text)):])
		i += len(found)
		if at == 0 || found == "" || len(found) > maxBreak || !regexp.MustCompile(`\n|\\n|%0[Aa]`).MatchString(found) ||
			i == len(text) || text[i] != form[at] {
			return 0
		}
		i++
		broken[0] = broken[0] || at > len(form)-2*part && at < len(form)-part
		broken[1] = broken[1] || at > len(form)-part
	}
	if broken[0] && broken[1] {
		return 0
	}
	return i
}

func (f reference) unescape(m []string) string {
	switch {
	case m[1] != "":
		n, _ := strconv.ParseUint(m[1], 16, 32)
		chars := string(utf8.AppendRune(nil, rune(n)))
		if strings.Contains(f.chars, chars[:1]) {
			return chars
		}
	case m[2] != "":
		c := m[2]
		special := map[string]string{"n": "\n", "t": "\t", "r": "\r"}[c]
		if special != "" {
			c = special
		}
		if c == `\` {
			return ""
		}
		if strings.Contains(f.chars, `\`) && c[0] < utf8.RuneSelf || (special != "" || strings.Contains(`/"'`, c)) && strings.Contains(f.chars, c) {
			return c
		}
	case m[3] != "":
		n, _ := strconv.ParseUint(m[3], 16, 8)
		if strings.IndexByte(f.chars, byte(n)) >= 0 {
			return string([]byte{byte(n)})
		}
		if len(m[0]) > 3 && strings.Contains(f.chars, "%") {
			return "%"
		}
	}
	return ""
}

func (f reference) replace(text string) string {
	type found struct{ start, end int }
	var list []found
	all := func(text string, forms []string, place func(start, end int) (int, int)) {
		for _, form := range forms {
			for i := 0; form != "" && i+len(form) <= len(text); i++ {
				if text[i:i+len(form)] == form {
					s, e := place(i, i+len(form))
					list = append(list, found{s, e})
				}
			}
		}
	}
	all(text, f.plain, func(s, e int) (int, int) { return s, e })
	for _, form := range f.base64 {
		for i := range text {
			if end := inLines(text, i, form); end > 0 {
				list = append(list, found{i, end})
			}
		}
	}
	if len(f.plain) > 0 {
		decoded, start, end := f.decode(text)
		all(decoded, f.decoded, func(s, e int) (int, int) { return start[s], end[e-1] })
	}
	for _, w := range f.words {
		for i := 0; i+len(w) <= len(text); i++ {
			e := i + len(w)
			if text[i:e] == w && !(i > 0 && isWordByte(text[i-1]) && !(i > 1 && text[i-2] == '\\')) && !(e < len(text) && isWordByte(text[e])) {
				list = append(list, found{i, e})
			}
		}
	}
	slices.SortFunc(list, func(a, b found) int { return a.start - b.start })
	var b strings.Builder
	at := 0
	for _, l := range list {
		if l.start >= at {
			b.WriteString(text[at:l.start] + Mark)
		}
		at = max(at, l.end)
	}
	b.WriteString(text[at:])
	return b.String()
}

// FuzzStream compares a Stream with the reference, for texts of pieces that are likely to be found,
// wherever they are split.
func FuzzStream(f *testing.F) {
	f.Add("a-secret-token", "another/secret+one", []byte("xasxbxc\\u0061"), 3, 5)
	f.Add("aaaaaaaaab", "aaaaaaaa", []byte("aaaaaaaaaaaaaaaaaaaaaaaaaa"), 1, 1)
	f.Add(`back\slash "quoted"`, "per%20cent%41", []byte("\x01\x02\x03\x04\x05\x06\x07"), 2, 30)
	f.Add("k", "sp ace sp ace", []byte("k sp+ace\x02%20"), 7, 1)
	f.Fuzz(func(t *testing.T, one, two string, recipe []byte, first, second int) {
		values := []string{one, two}
		if one == "" || two == "" || len(one)+len(two) > 200 || len(recipe) > 2000 {
			return
		}
		text := cook(values, recipe)
		r := redactorOf(values...)
		if strings.ContainsAny(one+two, `\%`) {
			// The reference reads backslashes and percent signs of secrets otherwise at their ends.
			for _, v := range values {
				got := string(r.AppendAll(nil, text))
				foreign := byte(0) // the end of the text before a mark and the mark may be a secret
				for strings.IndexByte(v, foreign) >= 0 {
					foreign++
				}
				rest := strings.ReplaceAll(got, r.mark, string([]byte{foreign}))
				if len(v) >= shortSecret && strings.Contains(rest, v) {
					t.Fatalf("secrets %q: %q becomes\n%q", values, text, got)
				}
			}
			return
		}
		want := newReference(values).replace(string(text))
		if got := string(r.Clean(text)); got != want {
			t.Fatalf("Clean: %q with secrets %q\nbecomes %q, want %q", text, values, got, want)
		}
		if got := string(r.AppendAll(nil, text)); got != want {
			t.Fatalf("secrets %q, whole: %q becomes\n%q, want\n%q", values, text, got, want)
		}
		if got := inPieces(r, text, first%100, second%2000); got != want {
			t.Fatalf("secrets %q, pieces of %d and %d: %q becomes\n%q, want\n%q", values, first%100, second%2000, text, got, want)
		}
	})
}

// cook makes a text: bytes below 16 stand for a secret, or a part of one, in some form.
func cook(values []string, recipe []byte) (text []byte) {
	for i, c := range recipe {
		v := values[int(c)%2]
		switch c / 2 {
		case 0:
			text = append(text, v...)
		case 1:
			text = append(text, escapeAll(v, `\u%04x`)...)
		case 2:
			text = append(text, url.QueryEscape(v)...)
		case 3:
			text = append(text, base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", i%3)+v+"y"))...)
		case 4:
			text = append(text, strconv.Quote(v)...)
		case 5:
			text = append(text, v[:i%len(v)]...)
		case 6:
			text = append(text, escapeAll(v, `%%25%02x`)...)
		case 7:
			text = append(text, escapeAll(v, `\\\u%04X`)...)
		default:
			text = append(text, c)
		}
	}
	return text
}

// encodings are the forms that Stream documents, of a whole text.
var encodings = map[string]func(string) string{
	"plain":               func(s string) string { return s },
	"query":               url.QueryEscape,
	"query, twice":        func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
	"query, three times":  func(s string) string { return url.QueryEscape(url.QueryEscape(url.QueryEscape(s))) },
	"path":                url.PathEscape,
	"path, twice":         func(s string) string { return url.PathEscape(url.PathEscape(s)) },
	"plus for a space":    func(s string) string { return strings.ReplaceAll(s, " ", "+") },
	"every character":     func(s string) string { return escapeAll(s, "%%%02x") },
	"JSON":                inJSON,
	"JSON in JSON":        func(s string) string { return inJSON(inJSON(s)) },
	"JSON in JSON, twice": func(s string) string { return inJSON(inJSON(inJSON(s))) },
	"JSON of a query":     func(s string) string { return inJSON(url.QueryEscape(s)) },
	"base64":              func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
}

func inJSON(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted[1 : len(quoted)-1])
}

// odd is a secret of characters that are escaped, and of parts of escapes.
func odd(random *rand.Rand) string {
	pieces := []string{`\`, `"`, "'", "%", "+", " ", "/", "=", "&", "<", "é", "\t", "|", "t", "n", "u", "25", "41", "2", "x9"}
	var b strings.Builder
	for b.Len() < 12 || random.IntN(6) > 0 {
		b.WriteString(pieces[random.IntN(len(pieces))])
	}
	return b.String()
}

// Secrets with backslashes, percent signs, spaces and the like are found in every form, beside any
// other secret.
func TestOddSecretsAreFoundInEveryForm(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	found := 0
	for range 600 {
		values := []string{odd(random), odd(random), `q"uo\te'd<sec>ret|9Z1`, "with a blank, and more"}
		r := redactorOf(values...)
		for _, v := range values {
			for name, encode := range encodings {
				text := "(" + encode(v) + ")"
				if found++; !r.Finds([]byte(text)) {
					t.Fatalf("%s: %q is not found in %q, beside %q", name, v, text, values)
				}
			}
		}
	}
	if found < 30_000 {
		t.Errorf("only %d texts", found)
	}
}

// A text without secrets is not copied, and a secret is found wherever it is in a long one.
func TestClean(t *testing.T) {
	r := redactorOf("a-secret-token", "k1")
	text := bytes.Repeat([]byte(`text \u0061, `), 10_000)
	if got := r.Clean(text); &got[0] != &text[0] || len(got) != len(text) {
		t.Error("a text without secrets is copied")
	}
	for _, at := range []int{0, 1, piece - 20, piece - 7, piece, piece + 3, 2*piece - 100, len(text)} {
		for _, secret := range []string{"a-secret-token", " k1 "} {
			secretly := slices.Concat(text[:at], []byte(secret), text[at:])
			if got := r.Clean(secretly); bytes.Contains(got, []byte(secret)) || !bytes.Equal(got, r.AppendAll(nil, secretly)) {
				t.Errorf("%q at %d is left", secret, at)
			}
		}
	}
}

// What is left of a text has no secret that a search for it alone finds, whatever surrounds it and
// wherever the text is split.
func TestNothingIsLeftOfOddSecrets(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 4))
	words := []string{"a word ", "x+y ", `\n`, `\"`, `%20`, "text, ", `{"a":"b"}`, `\u003c`, "%2B"}
	around := func() string {
		var b strings.Builder
		for range random.IntN(200) {
			b.WriteString(words[random.IntN(len(words))])
		}
		return b.String()
	}
	for range 60 {
		values := []string{odd(random), odd(random), `q"uo\te'd<sec>ret|9Z1`, "with a blank, and more", "plain-key-of-a-client-1234"}
		r := redactorOf(values...)
		for name, encode := range encodings {
			v := values[random.IntN(len(values))]
			text := []byte(around() + "(" + encode(v) + ")" + around())
			for _, left := range []string{inPieces(r, text, 1+random.IntN(200)), string(r.AppendAll(nil, text))} {
				if redactorOf(v).Finds([]byte(left)) {
					t.Fatalf("%s: %q beside %q:\n%s", name, v, values, left)
				}
			}
		}
	}
}
