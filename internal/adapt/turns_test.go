package adapt

import (
	"cmp"
	"testing"

	"perigee"
	"perigee/internal/adapt/models"
	wire "perigee/internal/dialect/gemini"
)

// A tool's picture, or a text of the user's, beside the results of calls: what the turn needs, it
// has under each reading of where it began.
func TestTurnsWithMoreThanResults(t *testing.T) {
	thought := signedThought(claudeTwice)
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
		{"Claude, a picture earlier in the turn, thoughts after both", claude, thinking(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f")+picture, `model `+thought+`,`+call("2", "f"), `user `+result("2", "f")), "", ""},
		{"Claude, thoughts lost after a picture", claude, thinking(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f")+picture, `model `+call("2", "f"), `user `+result("2", "f")),
			thinking(hi, `model `+call("1", "f"), `user `+result("1", "f")+picture, `model `+call("2", "f"), `user `+result("2", "f"), over, goingOn), lost},
		{"Claude, thoughts lost before a picture", claude, thinking(hi, `model `+call("1", "f"), `user `+result("1", "f")+picture, `model `+thought+`,`+call("2", "f"), `user `+result("2", "f")),
			thinking(hi, `model `+call("1", "f"), `user `+result("1", "f")+picture, over, goingOn, `model `+thought+`,`+call("2", "f"), `user `+result("2", "f")), lost},
		{"Claude, a picture inside a result", claude, thinking(hi, `model `+thought+`,`+call("1", "f"), `user {"functionResponse":{"id":"1","name":"f","response":{},"parts":[`+picture[1:]+`]}}`, `model `+call("2", "f"), `user `+result("2", "f")), "", ""},
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
		{"Claude, nothing but thoughts after a text", claude, thinking(hi, `model `+call("1", "f"), `user `+result("1", "f")+words, `model `+thought, hi),
			thinking(hi, `model `+call("1", "f"), `user `+result("1", "f"), over, `user {"text":"and then"}`, hi), lost},
		{"Claude, thoughts lost in the middle of a turn", claude, thinking(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f")+words, `model `+call("2", "f"), `user `+result("2", "f")+picture, `model `+thought+`,`+call("3", "f"), `user `+result("3", "f")),
			thinking(hi, `model `+call("1", "f"), `user `+result("1", "f")+words, `model `+call("2", "f"), `user `+result("2", "f")+picture, over, goingOn, `model `+thought+`,`+call("3", "f"), `user `+result("3", "f")), lost},
		{"Claude, a new question", claude, thinking(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f")+picture, `model {"text":"a"}`, hi),
			thinking(hi, `model `+call("1", "f"), `user `+result("1", "f")+picture, `model {"text":"a"}`, hi), "omitted earlier thinking"},

		{"Gemini 3, a picture", flash, contents(hi, `model `+call("1", "f"), `user `+result("1", "f")+picture), contents(hi, `model `+call("1", "f", signed(skipped)), `user `+result("1", "f")+picture), ""},
		{"Gemini 3, a text", flash, contents(hi, `model `+call("1", "f"), `user `+result("1", "f")+words), contents(hi, `model `+call("1", "f", signed(skipped)), `user `+result("1", "f")+words), ""},
		{"Gemini 3, a text as a message of its own", flash, contents(hi, `model `+call("1", "f"), `user `+result("1", "f"), hi), contents(hi, `model `+call("1", "f", signed(skipped)), `user `+result("1", "f"), hi), ""},
		{"Gemini 3, a signature stays", flash, contents(hi, `model `+call("1", "f", signed(geminiSignature)), `user `+result("1", "f")+picture), "", ""},
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

// Media that came with a result: inside it where the provider takes them, behind the results and
// named by them elsewhere.
func TestMediaOfResults(t *testing.T) {
	const (
		png   = `{"inlineData":{"mimeType":"image/png","data":"aGk="}}`
		sound = `{"inlineData":{"mimeType":"audio/wav","data":"aGk="}}`
		pdf   = `{"inlineData":{"mimeType":"application/pdf","data":"aGk="}}`
		file  = `{"fileData":{"mimeType":"image/png","fileUri":"https://x.example/a"}}`
	)
	signature := signed(skipped)
	inside := func(id, media string) string {
		return `{"functionResponse":{"id":"` + id + `","name":"f","response":{"output":"x"},"parts":[` + media + `]}}`
	}
	naming := func(id, names string) string {
		return `{"functionResponse":{"id":"` + id + `","name":"f","response":{"output":"x","attachments":[` + names + `]}}}`
	}
	calls := func(signature string) string { return `model ` + call("1", "f", signature) + `,` + call("2", "f") }
	for _, c := range []struct {
		name, model    string
		in, want       string
		gateway, notes string // what the gateway gets otherwise, and is told
	}{
		{"Gemini 3 reads them inside", flash, contents(hi, calls(signature), `user `+inside("1", png)+`,`+inside("2", png+`,`+pdf)), "", "", ""},
		{"but not all", flash, contents(hi, calls(signature), `user `+inside("1", sound)+`,`+inside("2", png+`,`+file)+`,{"text":"and"}`),
			contents(hi, calls(signature), `user `+naming("1", `"attachment 1: audio/wav"`)+`,`+`{"functionResponse":{"id":"2","name":"f","response":{"output":"x","attachments":["attachment 2: image/png"]},"parts":[`+png+`]}}`+`,`+sound+`,`+file+`,{"text":"and"}`), "", ""},
		{"older models do not", "gemini-2.5-pro", contents(hi, calls(""), `user `+inside("1", png)+`,`+inside("2", png+`,`+pdf)),
			contents(hi, calls(""), `user `+naming("1", `"attachment 1: image/png"`)+`,`+naming("2", `"attachment 2: image/png","attachment 3: application/pdf"`)+`,`+png+`,`+png+`,`+pdf), "", ""},
		{"a result that names its own", "gemini-2.5-pro", contents(hi, `model `+call("1", "f"), `user {"functionResponse":{"id":"1","name":"f","response":{"attachments":1},"parts":[`+png+`]}}`),
			contents(hi, `model `+call("1", "f"), `user {"functionResponse":{"id":"1","name":"f","response":{"attachments":1}}},`+png), "", ""},
		{"a result that says nothing", "gemini-2.5-pro", contents(hi, `model `+call("1", "f"), `user {"functionResponse":{"id":"1","name":"f","response":{},"parts":[`+png+`]}}`),
			contents(hi, `model `+call("1", "f"), `user {"functionResponse":{"id":"1","name":"f","response":{"attachments":["attachment 1: image/png"]}}},`+png), "", ""},
		{"a result without a call", flash, contents(hi, `model {"text":"a"}`, `user `+inside("1", png)), contents(hi, `model {"text":"a"}`, `user {"text":"[result of tool f] {\"output\":\"x\"}"},`+png), "", "repaired result without a call of tool f"},
		{"Claude reads pictures inside", claude, contents(hi, calls(""), `user `+inside("1", png)+`,`+inside("2", pdf)),
			contents(hi, calls(""), `user `+naming("1", `"attachment 1: image/png"`)+`,`+naming("2", `"attachment 2: application/pdf"`)+`,`+png+`,`+pdf),
			contents(hi, calls(""), `user `+inside("1", png)+`,`+naming("2", `"attachment 1: application/pdf"`)+`,`+pdf), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := asSent(t, cmp.Or(c.want, c.in))
			official, _, _ := ForGemini(prompt(t, c.in), models.Of(c.model))
			if got := string(wire.EncodeRequest(official)); got != want {
				t.Errorf("on the official API got\n%s\nwant\n%s", got, want)
			}
			got, out := prepared(t, c.model, c.in, AntigravityOptions{})
			if want = asSent(t, cmp.Or(c.gateway, c.want, c.in)); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if notes := texts(out.Notes); notes != c.notes {
				t.Errorf("got notes %q", notes)
			}
		})
	}
}

// Results whose texts are carried as they came are copies only if the texts are the same.
func TestCopiesOfTexts(t *testing.T) {
	answer := func(text string) perigee.Part {
		return perigee.Part{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{ID: "1", Name: "f", Output: []byte(text)}}
	}
	for _, c := range []struct{ second, notes string }{
		{`"x"`, "repaired result of tool f that came twice"},
		{`"y"`, "repaired result without a call of tool f"},
	} {
		p := prompt(t, contents(hi, `model `+call("1", "f")))
		p.Contents = append(p.Contents, perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{answer(`"x"`), answer(c.second)}})
		if _, _, notes := ForGemini(p, models.Of("gemini-2.5-pro")); texts(notes) != c.notes || RepeatsResults(p.Contents) != (c.second == `"x"`) {
			t.Errorf("%s: notes %q", c.second, texts(notes))
		}
	}
}
