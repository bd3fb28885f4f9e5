package rawjson_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/lib/rawjson"
)

// anyJSON draws a value with short and long strings and containers in it.
func anyJSON(t *rapid.T, depth int) string {
	texts := []string{"", "a", `\"`, strings.Repeat("b", 125), strings.Repeat("b", 126), strings.Repeat("b", 127), strings.Repeat(`\\\"`, 50), strings.Repeat("ä]}", 40)}
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		kind = min(kind, 2)
	}
	switch kind {
	case 0:
		return "-12.5e3"
	case 1, 2:
		return `"` + rapid.SampledFrom(texts).Draw(t, "text") + `"`
	}
	var list []string
	for i := range rapid.IntRange(0, 4).Draw(t, "size") {
		value := anyJSON(t, depth-1)
		if kind == 3 {
			value = fmt.Sprintf(`"%d%s" : %s`, i, rapid.SampledFrom(texts).Draw(t, "key"), value)
		}
		list = append(list, value)
	}
	if inside := strings.Join(list, ", "); kind == 3 {
		return "{ " + inside + "}"
	} else {
		return "[" + inside + " ]"
	}
}

// visit reads all of a value, some of it twice removed, and writes what it finds.
func visit(c *rawjson.Cursor, out *bytes.Buffer, turn *int) {
	*turn++
	fmt.Fprintf(out, "%v@%d ", c.Kind(), c.Offset())
	switch {
	case *turn%5 == 0:
		out.Write(c.Raw())
	case *turn%7 == 0: // skipped by the loop
	case c.Kind() == rawjson.Object:
		for key := range c.Object() {
			out.Write(key)
			visit(c, out, turn)
			if *turn%11 == 0 {
				break
			}
		}
	case c.Kind() == rawjson.Array:
		for range c.Array() {
			visit(c, out, turn)
		}
	case c.Kind() == rawjson.String:
		out.WriteString(c.String())
	default:
		c.Skip()
	}
}

// A cursor of a document reads the same as one that searches for the ends of values.
func TestDocumentReadsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(" " + anyJSON(t, 5) + " ")
		type place struct{ start, end int }
		var members []place
		doc, err := rawjson.Open(text, func(m rawjson.Member) { members = append(members, place{m.Start, m.End}) })
		if err != nil {
			t.Fatal(err)
		}
		same := func(indexed, plain *rawjson.Cursor) {
			var got, want bytes.Buffer
			var turns [2]int
			visit(indexed, &got, &turns[0])
			visit(plain, &want, &turns[1])
			if got.String() != want.String() || indexed.Err() != nil {
				t.Fatalf("%s\nread as %s\nnot as  %s (%v)", text, got.Bytes(), want.Bytes(), indexed.Err())
			}
		}
		same(doc.Cursor(), rawjson.NewCursor(text))
		for _, m := range members {
			same(doc.Value(text[m.start:m.end]), rawjson.NewCursor(text[m.start:m.end]))
			same(doc.Value(bytes.Clone(text[m.start:m.end])), rawjson.NewCursor(text[m.start:m.end]))
		}
	})
}

// Containers that are nested a thousand deep are almost all long. Eight bytes for each would be
// four times the text.
func TestDocumentIsSmall(t *testing.T) {
	tower := strings.Repeat("[", 900) + strings.Repeat("]", 900)
	text := []byte("[" + strings.Repeat(tower+",", 2000) + "1]")
	used := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := rawjson.Open(text, nil); err != nil {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if used > int64(len(text)) { // an array that grows leaves several times its size behind
		t.Errorf("%d bytes for a text of %d", used, len(text))
	}
}

// What Short leaves out are long strings of the value, as many as are remembered.
func TestShortText(t *testing.T) {
	long := strings.Repeat("x", 200)
	data := []byte(`{"a":{"b":"` + long + `","c\u0064":["short","` + long + `"]},"e":"` + long + `"}` + strings.Repeat(" ", 1000)) // of each 128 bytes, one value is remembered
	doc, err := rawjson.Open(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	list := func(raw []byte) (text string) {
		for piece := range doc.Short(raw) {
			text += string(piece) + "|"
		}
		return text
	}
	c := doc.Cursor()
	for range c.Object() {
		if got, want := list(c.Raw()), `{"b":|,"c\u0064":["short",|]}|`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		break
	}
	if got, want := list(bytes.TrimSpace(data)), `{"a":{"b":|,"c\u0064":["short",|]},"e":|}|`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := list([]byte(`"elsewhere"`)), `"elsewhere"|`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
