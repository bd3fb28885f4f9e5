package responses

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
	"perigee/internal/dialect/gemini"
	"perigee/internal/simulator/rules"
)

var update = flag.Bool("update", false, "write the notes of the clients' requests into the file")

func decode(t testing.TB, body string) (*Request, *perigee.Prompt) {
	t.Helper()
	req, err := DecodeRequest(perigee.Origin{Body: []byte(body)}, nil)
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	prompt, err := req.Prompt()
	if err != nil {
		t.Fatal(err)
	}
	return req, prompt
}

// refusalOf asks the provider's rules about what would be sent to a model.
func refusalOf(t *testing.T, prompt *perigee.Prompt, model string) *rules.Refusal {
	t.Helper()
	table := rules.ModelTable()
	i := slices.IndexFunc(table, func(m rules.Model) bool { return m.ID == model })
	if i < 0 {
		t.Fatalf("no model %s", model)
	}
	prepared, _, _ := adapt.ForGemini(prompt, models.Of(model))
	_, refusal := rules.Check(rules.Input{Surface: rules.V1Beta, Model: table[i], Body: gemini.EncodeRequest(prepared),
		Switches: rules.StrictSwitches(), Verify: func(string) (rules.Family, bool) { return table[i].Family, true }})
	return refusal
}

func TestRequestsOfRealClientsPass(t *testing.T) {
	const path = "testdata/clients.txtar"
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) < 20 {
		t.Fatalf("only %d files", len(archive.Files))
	}
	for i := 0; i < len(archive.Files); i += 2 {
		body, want := archive.Files[i], &archive.Files[i+1]
		t.Run(body.Name, func(t *testing.T) {
			req, prompt := decode(t, string(body.Data))
			var notes strings.Builder
			for _, n := range req.Lost() {
				notes.WriteString(n.String() + "\n")
			}
			if *update {
				want.Data = []byte(notes.String())
			}
			if notes.String() != string(want.Data) {
				t.Errorf("notes:\n%swant:\n%s", notes.String(), want.Data)
			}
			if body := gemini.EncodeRequest(prompt); !json.Valid(body) {
				t.Errorf("not JSON: %s", body)
			}
			for _, model := range []string{"gemini-2.5-pro", "gemini-3-flash-preview"} {
				if refusal := refusalOf(t, prompt, model); refusal != nil {
					t.Errorf("%s: %s: %s", model, refusal.Rule, refusal.Message)
				}
			}
		})
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
