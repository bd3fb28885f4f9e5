package prepare

import (
	"testing"

	wire "perigee/internal/dialect/gemini"
	"perigee/internal/models"
)

// A tool's picture, or a text of the user's, beside the results of calls: what the turn needs, it has under each reading of
// where it began.
func TestTurnsWithMoreThanResults(t *testing.T) {
	thought := sealedThought(claudeTwice)
	const (
		picture = `,{"inlineData":{"mimeType":"image/png","data":"aGk="}}`
		words   = `,{"text":"and then"}`
		over    = `model {"text":"[The tool has answered.]"}`
		lost    = "repaired round of tools whose first thoughts are lost"
	)
	thinking := func(turns ...string) string { return with(contents(turns...), thinkingOf("2048")) }
	for _, c := range []struct{ name, model, in, want, notes string }{
		{"Claude, a picture", claude, thinking(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f")+picture), "", ""},
		{"Claude, a text", claude, thinking(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f")+words), "", ""},
		{"Claude, a text as a message of its own", claude, thinking(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f"), hi), "", ""},
		{"Claude, a picture earlier in the turn", claude, thinking(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f")+picture, `model `+call("2", "f"), `user `+result("2", "f")), "", ""},
		{"Claude, a text earlier in the turn, thoughts after both", claude, thinking(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f")+words, `model `+thought+`,`+call("2", "f"), `user `+result("2", "f")), "", ""},
		{"Claude, a picture, thoughts lost", claude, thinking(hi, `model `+call("1", "f"), `user `+result("1", "f")+picture),
			thinking(hi, `model `+call("1", "f"), `user `+result("1", "f")+picture, over, goingOn), lost},
		{"Claude, a text, thoughts lost", claude, thinking(hi, `model `+call("1", "f"), `user `+result("1", "f")+picture+words),
			thinking(hi, `model `+call("1", "f"), `user `+result("1", "f")+picture, over, `user {"text":"and then"}`), lost},
		{"Claude, a text as a message of its own, thoughts lost", claude, thinking(hi, `model `+call("1", "f"), `user `+result("1", "f"), hi),
			thinking(hi, `model `+call("1", "f"), `user `+result("1", "f"), over, hi), lost},
		{"Claude, thoughts lost before a text", claude, thinking(hi, `model `+call("1", "f"), `user `+result("1", "f")+words, `model `+thought+`,`+call("2", "f"), `user `+result("2", "f")),
			thinking(hi, `model `+call("1", "f"), `user `+result("1", "f"), over, `user {"text":"and then"}`, `model `+thought+`,`+call("2", "f"), `user `+result("2", "f")), lost},
		{"Claude, thoughts lost after a text", claude, thinking(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f")+words, `model `+call("2", "f"), `user `+result("2", "f")),
			thinking(hi, `model `+call("1", "f"), `user `+result("1", "f")+words, `model `+call("2", "f"), `user `+result("2", "f"), over, goingOn), lost},
		{"Claude, a new question", claude, thinking(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f")+picture, `model {"text":"a"}`, hi),
			thinking(hi, `model `+call("1", "f"), `user `+result("1", "f")+picture, `model {"text":"a"}`, hi), ""},

		{"Gemini 3, a picture", flash, contents(hi, `model `+call("1", "f"), `user `+result("1", "f")+picture), contents(hi, `model `+call("1", "f", signed(skipped)), `user `+result("1", "f")+picture), ""},
		{"Gemini 3, a text", flash, contents(hi, `model `+call("1", "f"), `user `+result("1", "f")+words), contents(hi, `model `+call("1", "f", signed(skipped)), `user `+result("1", "f")+words), ""},
		{"Gemini 3, a text as a message of its own", flash, contents(hi, `model `+call("1", "f"), `user `+result("1", "f"), hi), contents(hi, `model `+call("1", "f", signed(skipped)), `user `+result("1", "f"), hi), ""},
		{"Gemini 3, a seal stays", flash, contents(hi, `model `+call("1", "f", signed(geminiSeal)), `user `+result("1", "f")+picture), "", ""},
		{"Gemini 3, a new question", flash, contents(hi, `model `+call("1", "f"), `user `+result("1", "f")+picture, `model {"text":"a"}`, hi), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == "" {
				c.want = c.in
			}
			got, out := prepared(t, c.model, c.in, AntigravityOptions{})
			if want := asSent(t, c.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if notes := texts(out.Notes); notes != c.notes {
				t.Errorf("got notes %q", notes)
			}
			if c.model == flash {
				official, _, _ := ForGemini(prompt(t, c.in), models.Of(c.model))
				if got, want := string(wire.EncodeRequest(official)), asSent(t, c.want); got != want {
					t.Errorf("on the official API got\n%s\nwant\n%s", got, want)
				}
			}
		})
	}
}
