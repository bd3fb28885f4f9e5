package rawjson_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"perigee/internal/lib/rawjson"
)

func TestFind(t *testing.T) {
	text := []byte(` {"a":{"b":[1], "c\u0064" : "x" },"b":2,"":{"":null}} `)
	for _, test := range []struct {
		path []string
		want string
		ok   bool
	}{
		{nil, `{"a":{"b":[1], "c\u0064" : "x" },"b":2,"":{"":null}}`, true},
		{[]string{"a"}, `{"b":[1], "c\u0064" : "x" }`, true},
		{[]string{"a", "b"}, `[1]`, true},
		{[]string{"a", "cd"}, `"x"`, true},
		{[]string{"b"}, `2`, true},
		{[]string{"", ""}, `null`, true},
		{[]string{"cd"}, ``, false},
		{[]string{"a", "b", "c"}, ``, false},
		{[]string{"", "", ""}, ``, false},
		{[]string{"x"}, ``, false},
	} {
		start, end, ok := rawjson.Find(text, test.path...)
		if got := string(text[start:end]); got != test.want || ok != test.ok {
			t.Errorf("%q: got %q, %v", test.path, got, ok)
		}
	}
	if allocs := testing.AllocsPerRun(100, func() { rawjson.Find(text, "b") }); allocs > 1 { // the escaped key
		t.Errorf("%v allocations", allocs)
	}
}

func TestSplice(t *testing.T) {
	text := []byte(`{"a":1,"b":2}`)
	start, end, _ := rawjson.Find(text, "a")
	got := rawjson.Splice(text,
		rawjson.Edit{Start: 1, End: 1, New: []byte(`"x":0,`)},
		rawjson.Edit{Start: start, End: end, New: []byte(`[1]`)},
		rawjson.Edit{Start: end, End: len(text) - 1},
		rawjson.Edit{Start: len(text) - 1, End: len(text) - 1, New: []byte(`,"c":3`)},
		rawjson.Edit{Start: len(text), End: len(text), New: []byte("\n")})
	if want := "{\"x\":0,\"a\":[1],\"c\":3}\n"; string(got) != want || cap(got) > len(got)+16 {
		t.Errorf("got %q with room for %d, want %q", got, cap(got), want)
	}
	pieces := rawjson.Pieces(text, rawjson.Edit{Start: start, End: end, New: []byte(`[1]`)}, rawjson.Edit{Start: end, End: len(text) - 1})
	if joined := string(bytes.Join(pieces, nil)); joined != `{"a":[1]}` || len(pieces) != 3 || cap(pieces[0]) != len(pieces[0]) || &pieces[0][0] != &text[0] {
		t.Errorf("pieces %q", pieces)
	}
	if string(text) != `{"a":1,"b":2}` {
		t.Errorf("changed its input to %s", text)
	}
	for _, edits := range [][]rawjson.Edit{
		{{Start: 2, End: 1}}, {{Start: -1, End: 1}}, {{Start: 0, End: 14}}, {{Start: 3, End: 4}, {Start: 2, End: 2}}, {{Start: 1, End: 4}, {Start: 3, End: 5}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v: no panic", edits)
				}
			}()
			rawjson.Splice(text, edits...)
		}()
	}
}

// Whatever values of a list are removed, the rest is a list with all other bytes.
func TestRemoval(t *testing.T) {
	for drop, want := range map[string]string{
		"": `[ 1 , 2,3 ]`, "1": `[ 2,3 ]`, "2": `[ 1,3 ]`, "3": `[ 1 , 2 ]`, "12": `[3 ]`, "23": `[ 1 ]`, "13": `[ 2 ]`, "123": `[ ]`,
	} {
		text := []byte(`[ 1 , 2,3 ]`)
		list := rawjson.Removal{Text: text, End: 1}
		var edits []rawjson.Edit
		c := rawjson.NewCursor(text)
		for range c.Array() {
			start := c.Offset()
			if strings.Contains(drop, string(c.Raw())) {
				edits = list.Drop(edits, c.Offset())
				continue
			}
			list.Keep(edits, start)
			list.End = c.Offset()
		}
		if got := string(rawjson.Splice(text, edits...)); got != want {
			t.Errorf("without %s: %s, want %s", drop, got, want)
		}
	}
}

func FuzzSplice(f *testing.F) {
	f.Add([]byte("hello"), uint(1), uint(2), []byte("x"), uint(0), uint(1), []byte("yy"))
	f.Fuzz(func(t *testing.T, data []byte, a, n uint, x []byte, b, m uint, y []byte) {
		size := uint(len(data))
		a = min(a, size)
		n = min(n, size-a)
		b = a + n + min(b, size-a-n)
		m = min(m, size-b)
		got := rawjson.Splice(data, rawjson.Edit{Start: int(a), End: int(a + n), New: x}, rawjson.Edit{Start: int(b), End: int(b + m), New: y})
		want := string(data[:a]) + string(x) + string(data[a+n:b]) + string(y) + string(data[b+m:])
		if string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestAppendString(t *testing.T) {
	for text, want := range map[string]string{
		"": `""`, "plain": `"plain"`, "\"\\\n\r\t\b\f": `"\"\\\n\r\t\b\f"`, "\x00\x1f\x7f": `"\u0000\u001f` + "\x7f" + `"`, "<&>/\u2028": `"<&>/` + "\u2028" + `"`,
		"Größe 🚀": `"Größe 🚀"`, "a\xffb\xe2\x82": `"a\ufffdb\ufffd\ufffd"`, "\ufffd": `"` + "\ufffd" + `"`, "12345678\"": `"12345678\""`,
	} {
		if got := string(rawjson.AppendString([]byte("x"), text)); got != "x"+want {
			t.Errorf("%q: got %s, want x%s", text, got, want)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("a\xff\"\n🚀")
	f.Add("\x00\x1f\x7f\t\b\"\\Größe")
	f.Fuzz(func(t *testing.T, text string) {
		quoted := rawjson.AppendString(nil, text)
		if size := rawjson.QuotedSize(text); utf8.ValidString(text) && size != len(quoted) {
			t.Errorf("%q: QuotedSize says %d, and it is %d", text, size, len(quoted))
		}
		if err := rawjson.Check(quoted); err != nil {
			t.Fatalf("%q: %v", quoted, err)
		}
		var want string
		if err := json.Unmarshal(quoted, &want); err != nil {
			t.Fatal(err)
		}
		got := rawjson.NewCursor(quoted).String()
		if clean := strings.Join(strings.Split(string([]rune(text)), ""), ""); got != want || got != clean {
			t.Errorf("%q became %s, which is %q here and %q in encoding/json", text, quoted, got, want)
		}
	})
}
