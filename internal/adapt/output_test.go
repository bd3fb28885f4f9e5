package adapt

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/adapt/models"
	wire "perigee/internal/dialect/gemini"
)

// A tool's text that stands as it came reaches the provider as the object that it stands for would
// have, whatever happens to the result on the way.
func TestOutputIsItsObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyGatewayPrompt(t)
		spelt := *p
		spelt.Contents = nil
		for _, c := range p.Contents {
			parts := c.Parts
			c.Parts = nil
			for _, part := range parts {
				if part.Response != nil {
					part.Response = &perigee.FunctionResponse{ID: part.Response.ID, Name: part.Response.Name, Response: part.Response.Object(), Extra: part.Response.Extra}
				}
				c.Parts = append(c.Parts, part)
			}
			spelt.Contents = append(spelt.Contents, c)
		}
		for _, model := range []string{"gemini-3-flash", "claude-opus-4-6-thinking"} {
			spec := models.Of(model)
			got, want := ForAntigravity(p, spec, AntigravityOptions{}), ForAntigravity(&spelt, spec, AntigravityOptions{})
			equal(t, got.Prompt, want.Prompt)
			gotGemini, _, _ := ForGemini(p, spec)
			wantGemini, _, _ := ForGemini(&spelt, spec)
			equal(t, gotGemini, wantGemini)
		}
	})
}

func equal(t *rapid.T, got, want *perigee.Prompt) {
	a, b := wire.EncodeRequest(got), wire.EncodeRequest(want)
	if !bytes.Equal(a, b) || !json.Valid(a) {
		t.Fatalf("got  %s\nwant %s", a, b)
	}
}
