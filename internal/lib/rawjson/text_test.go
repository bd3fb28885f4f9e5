package rawjson_test

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"perigee/internal/lib/rawjson"
)

func TestText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var text rawjson.Text
		var want strings.Builder
		for range r.IntN(40) {
			s := strings.Repeat("ä\"\n", r.IntN(3000))
			if r.IntN(2) == 0 {
				s = strings.Repeat("b", r.IntN(20))
			}
			text.Add(s)
			want.WriteString(s)
			copied := text // a copy of the struct goes on by itself
			if r.IntN(10) == 0 {
				text = copied
			}
		}
		json := string(rawjson.AppendString(nil, want.String()))
		if got := string(text.AppendTo(nil)); got != json || text.Len() != want.Len() {
			t.Fatalf("%d bytes, want %d", len(got), len(json))
		}
		if text.String() != want.String() || string(text.AppendTo([]byte("x"))) != "x"+json {
			t.Fatalf("String is another text")
		}
		text.Add("more")
		if text.String() != want.String()+"more" {
			t.Fatal("a text does not go on after String")
		}
	}
}

// Gathering a text allocates it once, however it is cut.
func TestTextMemory(t *testing.T) {
	for _, piece := range []string{"a", strings.Repeat("a", 100), strings.Repeat("a", 5000)} {
		const size = 16 << 20
		var text rawjson.Text
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for text.Len() < size {
			text.Add(piece)
		}
		runtime.ReadMemStats(&after)
		if used := float64(after.TotalAlloc-before.TotalAlloc) / size; used > 1.1 {
			t.Errorf("pieces of %d: %.2f times the text", len(piece), used)
		}
	}
}

func TestJoined(t *testing.T) {
	for _, texts := range [][]string{nil, {""}, {"", ""}, {"a"}, {"", "a\n", "\"ä"}, {strings.Repeat("\x00", 100), "b"}} {
		joined := rawjson.NewLineJoiner(len(texts))
		for _, text := range texts {
			joined.Add(text, false)
		}
		if got, want := string(joined.JSON()), string(rawjson.AppendString(nil, strings.Join(texts, "\n"))); got != want {
			t.Errorf("%q: got %s, want %s", texts, got, want)
		}
	}
}
