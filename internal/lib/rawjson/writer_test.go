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
