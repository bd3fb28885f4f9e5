package chat

import (
	"encoding/json"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/simulator/rules"
)

func decode(t testing.TB, body string) (*Request, *perigee.Prompt) {
	t.Helper()
	req, err := DecodeRequest(perigee.Origin{Body: []byte(body)})
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	prompt, err := req.Prompt()
	if err != nil {
		t.Fatal(err)
	}
	return req, prompt
}

// refusalOf asks the provider's rules about a prompt.
func refusalOf(t *testing.T, prompt *perigee.Prompt, model string) *rules.Refusal {
	t.Helper()
	models := rules.ModelTable()
	i := slices.IndexFunc(models, func(m rules.Model) bool { return m.ID == model })
	if i < 0 {
		t.Fatalf("no model %s", model)
	}
	_, refusal := rules.Check(rules.Input{Surface: rules.V1Beta, Model: models[i], Body: gemini.EncodeRequest(prompt),
		Switches: rules.StrictSwitches(), Verify: func(string) (rules.Family, bool) { return models[i].Family, true }})
	return refusal
}

// sealed returns the prompt with a signature on the first call of each turn, which clients of this
// API lose and perigee restores.
func sealed(p *perigee.Prompt) *perigee.Prompt {
	copied := *p
	copied.Contents = slices.Clone(p.Contents)
	for i := range copied.Contents {
		parts := slices.Clone(copied.Contents[i].Parts)
		if j := slices.IndexFunc(parts, func(p perigee.Part) bool { return p.Call != nil }); j >= 0 {
			parts[j].Signature = "c2lnbmF0dXJl"
		}
		copied.Contents[i].Parts = parts
	}
	return &copied
}

func TestRequestsOfRealClientsPass(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/clients.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) < 10 {
		t.Fatalf("only %d requests", len(archive.Files))
	}
	for _, file := range archive.Files {
		t.Run(file.Name, func(t *testing.T) {
			req, prompt := decode(t, string(file.Data))
			if len(req.Lost()) > 0 {
				t.Errorf("notes: %v", req.Lost())
			}
			if body := gemini.EncodeRequest(prompt); !json.Valid(body) {
				t.Errorf("not JSON: %s", body)
			}
			if refusal := refusalOf(t, prompt, "gemini-2.5-pro"); refusal != nil {
				t.Errorf("gemini 2: %s: %s", refusal.Rule, refusal.Message)
			}
			if refusal := refusalOf(t, sealed(prompt), "gemini-3-flash-preview"); refusal != nil {
				t.Errorf("gemini 3: %s: %s", refusal.Rule, refusal.Message)
			}
		})
	}
}
