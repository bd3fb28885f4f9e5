package rawjson_test

import (
	"bytes"
	"strings"
	"testing"

	"perigee/internal/lib/rawjson"
)

func TestWriterSetsCommas(t *testing.T) {
	var w rawjson.Writer
	w.Lit("data: ").Object().Key("a").Int(-1).AnyKey("b\"").Array().String("x\n").Null().Bool(true).Float(0.1, 32).EndArray()
	w.Key("c").Object().EndObject().Key("d").Array().EndArray().Members(`"e":1,"f":2`)
	w.Key("g").Quoted([]byte(`\t`), []byte("y")).Key("h").Raw([]byte("[1"), []byte(",2]")).Key("i").Array().Elements().Elements(nil, []byte("1,2"))
	w.Int(3).EndArray().Lit(`,"j":{`).Key("k").StringOrNull("").Lit(`}`).Key("l").StringOrNull("z").EndObject()
	w.Lit("\n\n").Object().EndObject()
	const want = `data: {"a":-1,"b\"":["x\n",null,true,0.1],"c":{},"d":[],"e":1,"f":2,"g":"\ty","h":[1,2],"i":[1,2,3],"j":{"k":null},"l":"z"}` +
		"\n\n{}"
	if string(w.Buf) != want {
		t.Errorf("got  %s\nwant %s", w.Buf, want)
	}
}

// TestWriterFlushesLongValues writes values longer than FlushSize, with characters of several bytes
// across the places of the cuts.
func TestWriterFlushesLongValues(t *testing.T) {
	text := strings.Repeat("aé€\U0001F600\n", rawjson.FlushSize/4)
	raw := rawjson.AppendString(nil, text)
	write := func(w *rawjson.Writer) []byte {
		w.Object().Key("s").String(text).Key("r").Raw(raw).Key("q").Quoted(raw[1:100], raw[100:len(raw)-1]).EndObject()
		return w.Buf
	}
	want := write(&rawjson.Writer{})
	if err := rawjson.Check(want); err != nil {
		t.Fatal(err)
	}
	var got []byte
	longest := 0
	rest := write(&rawjson.Writer{Flush: func(buf []byte) []byte {
		got, longest = append(got, buf...), max(longest, len(buf))
		return buf[:0]
	}})
	if got = append(got, rest...); !bytes.Equal(got, want) {
		t.Error("flushing changed the text")
	}
	if longest == 0 || longest > 3*rawjson.FlushSize {
		t.Errorf("longest piece: %d bytes", longest)
	}
}

// A Writer that refers to long values writes the same text, and copies only strings with something
// to escape.
func TestWriterRefersToLongValues(t *testing.T) {
	const refer = 100
	filler := strings.Repeat("x", refer-1)
	var texts []string
	for _, s := range []string{"", "x", "é", "€x", "\"", "\\", "\n", "\x7f", "\xff", "\xc3", "\xe2\x82"} {
		texts = append(texts, s, filler+s, s+filler+filler, filler+filler+s, filler+s+filler)
	}
	write := func(w *rawjson.Writer) {
		w.Array()
		for _, s := range texts {
			raw := rawjson.AppendString(nil, s)
			w.String(s).Raw(raw).Quoted(raw[1:len(raw)-1]).Prefixed("\n", s)
		}
		w.Object().Key("r").Raw([]byte("["), []byte("1]")).EndObject().EndArray()
	}
	var whole rawjson.Writer
	write(&whole)
	w := rawjson.Writer{Refer: refer}
	write(&w)
	pieces := w.Pieces()
	if got := bytes.Join(pieces, nil); !bytes.Equal(got, whole.Buf) {
		t.Errorf("got  %s\nwant %s", got, whole.Buf)
	}
	long, copied := 0, 0
	for _, s := range texts {
		if len(s) >= refer {
			long++
			if len(rawjson.AppendString(nil, s)) > len(s)+2 {
				copied++
			}
		}
	}
	// All raw values of long texts are referred to, and so are their strings, unless they are copied.
	if references := len(pieces) / 2; references < 4*long-2*copied || copied == 0 {
		t.Errorf("%d references to %d long texts, of which %d have escapes", references, long, copied)
	}
}
