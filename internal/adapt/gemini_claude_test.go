package adapt

import (
	"cmp"
	"strings"
	"testing"

	"perigee/internal/adapt/models"
	wire "perigee/internal/dialect/gemini"
)

// What Claude behind the same API wants otherwise. The property test holds the whole of it against
// the rules.
func TestForClaude(t *testing.T) {
	thinking := func(body, budget string) string {
		return strings.TrimSuffix(body, "}") + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":` + budget + `}}}`
	}
	const thought = `{"thought":true,"text":"hm","thoughtSignature":"c2ln"}`
	const lostThoughts = "dropped thinking in a round of tools whose first thoughts are lost"
	open := contents(hi, `model `+call("1", "f"), `user `+result("1", "f"))
	kept := contents(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f"))
	for _, c := range []struct{ name, in, want, notes string }{
		{"nothing to do", thinking(contents(hi, `model `+thought+`,{"text":"a"}`, hi), "2048"), "", ""},
		{"white space goes", contents(`user {"text":" \n"},{"text":"a"}`), contents(`user {"text":"a"}`), ""},
		{"the user has the last word", contents(hi, `model {"text":"a"}`), contents(hi, `model {"text":"a"}`, `user {"text":"Continue."}`), "repaired conversation that ended with the model"},
		{"the user has the first word", contents(`model {"text":"a"}`, hi), contents(`user {"text":"Continue."}`, `model {"text":"a"}`, hi), "repaired conversation that began with the model"},
		{"thoughts stay in a round of tools", thinking(kept, "2048"), "", ""},
		{"no thinking on from lost thoughts", thinking(open, "2048"), open, lostThoughts},
		{"no thoughts without thinking", kept, open, "omitted earlier thinking"},
		{"thoughts of earlier turns stay", contents(hi, `model `+thought+`,{"text":"a"}`, hi, `model `+call("1", "f"), `user `+result("1", "f")), "", ""},
		{"thoughts come first", contents(hi, `model `+thought+`,{"text":"a"},`+thought, hi), contents(hi, `model `+thought+`,{"text":"a"}`, hi), "omitted earlier thinking"},
		{"ids are given", contents(hi, `model {"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}}`, `user {"functionResponse":{"name":"f","response":{}}},{"functionResponse":{"name":"f","response":{}}}`),
			contents(hi, `model {"functionCall":{"id":"call","name":"f"}},{"functionCall":{"id":"call_2","name":"f"}}`, `user {"functionResponse":{"id":"call","name":"f","response":{}}},{"functionResponse":{"id":"call_2","name":"f","response":{}}}`), ""},
		{"ids are repaired", contents(hi, `model `+call("a:1", "f"), `user `+result("a:1", "f"), `model `+call("a:1", "f"), `user `+result("a:1", "f"), hi),
			contents(hi, `model `+call("a_1", "f"), `user `+result("a_1", "f"), `model `+call("a_1_2", "f"), `user `+result("a_1_2", "f"), hi), ""},
		{"a budget below the model's limit", thinking(contents(hi), "64000"), thinking(contents(hi), "32000"), "mapped thinking budget 64000 to 32000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := prompt(t, c.in)
			before := string(wire.EncodeRequest(in))
			out, _, list := ForGemini(in, models.Of("claude-sonnet-4-6"))
			want := string(wire.EncodeRequest(prompt(t, cmp.Or(c.want, c.in))))
			if got := string(wire.EncodeRequest(out)); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			var notes []string
			for _, n := range list {
				notes = append(notes, n.String())
			}
			if got := strings.Join(notes, "; "); got != c.notes {
				t.Errorf("got notes %q, want %q", got, c.notes)
			}
			if after := string(wire.EncodeRequest(in)); after != before {
				t.Errorf("the client's prompt changed to\n%s", after)
			}
		})
	}
}
