package openai

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/lib/rawjson"
)

// The pieces of the text are the text, wherever the arguments are cut.
func TestInputPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		args := string(Wrap("input", rawjson.AppendString(nil, text)))
		if rapid.Bool().Draw(t, "spaced") {
			args = " {\n\"input\" : " + strings.TrimPrefix(args, `{"input":`) + " "
		}
		if rapid.Bool().Draw(t, "escaped") {
			args = strings.NewReplacer("a", `\u0061`, "😀", `\ud83d\ude00`, "/", `\/`).Replace(args[:len(args)/2]) + args[len(args)/2:]
			if !strings.Contains(args, `"input"`) || rawjson.Check([]byte(args)) != nil {
				t.Skip("the replacement is outside of the text")
			}
			text = Unwrap("input", []byte(args))
		}
		var p InputPieces
		var got strings.Builder
		for rest := args; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			for n < len(rest) && rest[n]&0xc0 == 0x80 {
				n++
			}
			got.WriteString(p.Add(rest[:n]))
			rest = rest[n:]
		}
		if got.String() != text {
			t.Fatalf("got %q of %s", got.String(), args)
		}
	})
}

func TestInputPiecesOfAnotherForm(t *testing.T) {
	for _, args := range []string{`{"input":5}`, `{"other":"x","input":"y"}`, `"text"`, `[]`, `{"input":"x\q"}`, `plain`} {
		var p InputPieces
		got := ""
		for i := range args {
			got += p.Add(args[i : i+1])
		}
		if got != "" && got != "x" {
			t.Errorf("%s: %q", args, got)
		}
	}
}

// Both halves of a surrogate pair come in one piece, and a half without the other is replaced.
func TestInputPiecesOfSurrogates(t *testing.T) {
	for args, want := range map[string]string{`{"input":"\ud83d\ude00x"}`: "😀x", `{"input":"\ud83dx"}`: "\ufffdx", `{"input":"\ud83d\n"}`: "\ufffd\n", `{"input":"\u00e9"}`: "é"} {
		var p InputPieces
		got := ""
		for i := range args {
			got += p.Add(args[i : i+1])
		}
		if got != want {
			t.Errorf("%s: %q", args, got)
		}
	}
}
