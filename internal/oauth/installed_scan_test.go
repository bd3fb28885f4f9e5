package oauth

import (
	"bytes"
	"strings"
	"testing"

	"perigee"
)

// fakeID and fakeSecret have the form of an OAuth client's. They are put together here, so that nothing that looks like a
// credential stands in the source.
func fakeID(letter string) string {
	return "123456" + "789012-" + strings.Repeat(letter, 32) + ".apps." + "googleusercontent.com"
}

func fakeSecret(letter string) string { return "GOC" + "SPX-" + strings.Repeat(letter, 28) }

func fakeBundle(letter string) string {
	return `const a={clientId:"` + fakeID(letter) + `",clientSecret:"` + fakeSecret(letter) + `"};`
}

func sightings(t *testing.T, content []byte, packed bool) (list []sighting) {
	t.Helper()
	n, err := scan(t.Context(), bytes.NewReader(content), packed, func(s sighting) { list = append(list, s) })
	if err != nil || n != int64(len(content)) {
		t.Fatalf("%d of %d bytes read: %v", n, len(content), err)
	}
	return list
}

// TestScanAcrossBlocks moves a client over the first two borders, byte by byte.
func TestScanAcrossBlocks(t *testing.T) {
	first := lookBehind + lookAhead + blockSize
	id, secret := fakeID("a"), fakeSecret("b")
	text := id + "," + secret
	content := bytes.Repeat([]byte{'.'}, first+2*blockSize)
	for _, border := range []int{first, first - lookAhead, first + blockSize, first + blockSize - lookAhead} {
		for at := border - len(text) - 2; at < border+2; at++ {
			place := content[at : at+len(text)]
			before := bytes.Clone(place)
			copy(place, text)
			list := sightings(t, content, false)
			if len(list) != 2 || list[0].id != id || list[0].at != int64(at) || list[0].end != int64(at+len(id)) ||
				!list[1].secret.Equal(secret) || list[1].at != int64(at+len(id)+1) || list[1].end != int64(at+len(text)) {
				t.Fatalf("at %d (border %d): %+v", at, border, list)
			}
			copy(place, before)
		}
	}
}

func TestScanForms(t *testing.T) {
	id, secret := fakeID("a"), fakeSecret("b")
	end := id[strings.Index(id, "."):]
	for name, c := range map[string]struct {
		content string
		packed  bool
		want    string // ids as they are, secrets as S
	}{
		"nothing":                       {"", false, ""},
		"a client":                      {`"` + id + `","` + secret + `"`, false, id + " S"},
		"at the very beginning and end": {secret + "," + id, false, "S " + id},
		"twice":                         {id + id + secret + " " + secret, false, id + " " + id + " S S"},
		"a short secret":                {`"` + secret[:len(secret)-1] + `"`, false, ""},
		"a long secret":                 {`"` + secret + `x"`, false, ""},
		"a long secret in a program":    {secret + "x", true, "S"},
		"a secret with a blank":         {secret[:20] + " " + secret[20:], true, ""},
		"a secret that is cut off":      {secret[:30], true, ""},
		"an end without an id":          {end, false, ""},
		"an id without a number":        {"-abc" + end, false, ""},
		"an id without a dash":          {"123456789012" + end, false, ""},
		"an id without a name":          {"123456789012-" + end, false, ""},
		"an id in capitals":             {"123456789012-ABC" + end, false, ""},
		"an id with a short number":     {"12345-abc" + end, false, ""},
		"an id with a long number":      {strings.Repeat("1", 21) + "-abc" + end, false, ""},
		"an id with a long name":        {"123456789012-" + strings.Repeat("a", 65) + end, false, ""},
		"an id in a URL":                {"https://" + id + "/", false, id},
	} {
		var got []string
		for _, s := range sightings(t, []byte(c.content), c.packed) {
			if s.id != "" {
				got = append(got, s.id)
			} else {
				got = append(got, "S")
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestPairing writes a file as letters for ids, their capitals for secrets, and a dot for what is between them.
func TestPairing(t *testing.T) {
	for _, c := range []struct {
		name, file string
		dot        int // bytes
		want       string
	}{
		{"one", "a.A", 10, "aA"},
		{"the secret first", "A.a", 10, "aA"},
		{"as far apart as may be", "a.A", nearEnough, "aA"},
		{"too far apart", "a.A", nearEnough + 1, ""},
		{"no secret", "a.b", 10, ""},
		{"no id", "A.B", 10, ""},
		{"the nearer id", "a.....A.b", 300, "bA"},
		{"the nearer id before", "b.A.....a", 300, "bA"},
		{"a list", "a.A.b.B", 6, "aA bB"},
		{"a list with more between than inside", "a.A..b.B", 6, "aA bB"},
		{"a list with less between than inside", "a..A.b..B", 6, "aA bB"},
		{"a list with secrets first", "A.a.B.b.C.c", 6, "aA bB cC"},
		{"two ids for one secret are both told", "a.b.A", 6, "aA bA"},
		{"between two ids", "a.A.b", 6, "aA bA"},
		{"first the ids and then the secrets are not guessed", "a.b.A.B", 6, "aA bA aB bB"},
		{"the same id twice is one", "a.A.a", 6, "aA"},
		{"clients that have nothing to do with each other", "a.A" + strings.Repeat(".", 500) + "B.b", 10, "aA bB"},
		{"an id in its turn that is far, beside one that is near", "a....................A.b....................B", 200, "bA bB"},
	} {
		var content strings.Builder
		for _, r := range c.file {
			switch {
			case r == '.':
				content.WriteString(strings.Repeat(" ", c.dot))
			case r >= 'a':
				content.WriteString(fakeID(string(r)))
			default:
				content.WriteString(fakeSecret(string(r)))
			}
		}
		var got []string
		p := pairing{found: func(id string, secret perigee.Secret) {
			got = append(got, id[13:14]+secret.Reveal()[7:8])
		}}
		for _, s := range sightings(t, []byte(content.String()), false) {
			p.take(s)
		}
		p.end()
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
