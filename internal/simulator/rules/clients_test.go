package rules

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

func modelNamed(t *testing.T, id string) Model {
	t.Helper()
	models := ModelTable()
	i := slices.IndexFunc(models, func(m Model) bool { return m.ID == id })
	if i < 0 {
		t.Fatalf("no model %s", id)
	}
	return models[i]
}

func TestRequestsOfRealClientsPass(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/clients.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) == 0 {
		t.Fatal("no requests")
	}
	for _, file := range archive.Files {
		t.Run(file.Name, func(t *testing.T) {
			call, _, _ := strings.Cut(file.Name, " ")
			model, method, _ := strings.Cut(call, ":")
			in := Input{Surface: V1Beta, Model: modelNamed(t, model), Body: file.Data, Switches: DefaultSwitches(),
				Verify: func(sig string) (Family, bool) { return Gemini2, sig == "c2lnbmF0dXJl" }}
			if method == "countTokens" {
				in.Method = Count
			}
			if _, refusal := judge(in); refusal != nil {
				t.Errorf("refused by %s: %s", refusal.Rule, refusal.Message)
			}
			// Clients return every signature, so a model that wants them has nothing to add but its
			// own thinking rules.
			in.Model = modelNamed(t, "gemini-3-flash-preview")
			if _, refusal := judge(in); refusal != nil && refusal.Rule != "config.budget_zero" {
				t.Errorf("gemini 3: refused by %s: %s", refusal.Rule, refusal.Message)
			}
		})
	}
}
