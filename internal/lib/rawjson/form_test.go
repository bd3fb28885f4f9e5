package rawjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/lib/rawjson"
)

// Whatever the escapes of a string, its two forms are the same text, and writing the escaped one
// gives back the bytes that were read.
func TestForms(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "ä", "日", " ", `\n`, `\t`, `\"`, `\\`, `\/`, `\u00e9`, `\u0020`, `\ud83d\ude00`, "0123456789abcdef"})
	rapid.Check(t, func(t *rapid.T) {
		inside := strings.Join(rapid.SliceOfN(piece, 0, 60).Draw(t, "pieces"), "")
		quoted := []byte(`"` + inside + `"`)
		if err := rawjson.Check(quoted); err != nil {
			t.Fatal(err)
		}
		var want string
		if err := json.Unmarshal(quoted, &want); err != nil {
			t.Fatal(err)
		}
		got := rawjson.Inside(quoted)
		if plain := rawjson.Unescaped(got, true); plain != want || rawjson.Unescaped(plain, false) != want {
			t.Errorf("%s: unescaped %q, want %q", quoted, plain, want)
		}
		w := rawjson.Writer{}
		if string(w.Form(got, true).Buf) != string(quoted) {
			t.Errorf("%s: written %s", quoted, w.Buf)
		}
		w = rawjson.Writer{}
		if n := len(w.Form(want, false).Buf); n != rawjson.QuotedSize(want) {
			t.Errorf("%q: %d bytes written, %d announced", want, n, rawjson.QuotedSize(want))
		}
		blank := strings.TrimSpace(want) == ""
		if rawjson.IsBlank(got, true) != blank || rawjson.IsBlank(want, false) != blank {
			t.Errorf("%s: blank is not %t", quoted, blank)
		}
		joined := rawjson.NewLineJoiner(0)
		joined.Add(got, true)
		joined.Add("b", false)
		if lines := string(joined.JSON()); lines != `"`+inside+`\nb"` {
			t.Errorf("%s: joined %s", quoted, lines)
		}
	})
}

// The text of an event must survive the buffer that it was read from.
func TestUnescapedIsACopy(t *testing.T) {
	for _, inside := range []string{"plain", `with \"escapes\"`, strings.Repeat("long ", 100), strings.Repeat(`long\n`, 100)} {
		quoted := []byte(`"` + inside + `"`)
		plain := rawjson.Unescaped(rawjson.Inside(quoted), true)
		want := strings.Clone(plain)
		clear(quoted)
		if plain != want {
			t.Errorf("%q became %q", want, plain)
		}
	}
}
