package perigee_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/dialect/openai"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/dialect/openai/responses"
)

var update = flag.Bool("update", false, "rewrite docs/compatibility.md")

// handlings are the columns of the summary.
var handlings = []perigee.Handling{perigee.HandlingCarried, perigee.HandlingMapped, perigee.HandlingDropped, perigee.HandlingAccepted, perigee.HandlingRefused}

// TestCompatibilityTable keeps docs/compatibility.md the same as the tables in the code. That these tell the truth is
// the business of each dialect's own tests, which decode every example.
func TestCompatibilityTable(t *testing.T) {
	var doc bytes.Buffer
	doc.WriteString(`# How each request field is handled

Generated from the tables in the code by ` + "`go test . -update`" + `; tests decode the example behind each row.

- **carried**: the model gets it as you meant it.
- **mapped**: the model gets the nearest equivalent, and ` + "`x-perigee-notes`" + ` says so.
- **dropped**: the model does not get it, and ` + "`x-perigee-notes`" + ` says so.
- **accepted**: it has no effect that could be missed, so there is no note.
- **refused**: the request is an error that says why.

With ` + "`strict: true`" + `, anything that would be mapped or dropped is an error instead. A field that is not in a table is dropped with a
note. Renamed tools are noted but are no error, because the response has their original names. Whatever a model or a provider cannot
take (a tool name, a thinking budget, a limit) is adapted later and noted in the same way.

Requests in the **Gemini** dialect to a Gemini upstream pass through byte for byte, so all their fields are carried, including those that
perigee does not know.

`)
	apis := []struct {
		name  string
		rules []perigee.FieldRule
	}{
		{"OpenAI Chat Completions", chat.Rules()},
		{"OpenAI Responses", responses.Rules()},
		{"OpenAI Embeddings", openai.EmbeddingsRules()},
		{"OpenAI Images", openai.ImagesRules()},
		{"Anthropic Messages", anthropic.Rules()},
	}
	doc.WriteString("| API |")
	for _, h := range handlings {
		fmt.Fprintf(&doc, " %s |", h)
	}
	doc.WriteString("\n|---|" + strings.Repeat("--:|", len(handlings)) + "\n")
	for _, api := range apis {
		fmt.Fprintf(&doc, "| [%s](#%s) |", api.name, strings.ReplaceAll(strings.ToLower(api.name), " ", "-"))
		for _, h := range handlings {
			n := 0
			for _, r := range api.rules {
				if r.Handling == h {
					n++
				}
			}
			fmt.Fprintf(&doc, " %d |", n)
		}
		doc.WriteString("\n")
	}
	doc.WriteString(`
## Stored responses

` + "`GET /v1/responses/{id}?stream=true`" + ` streams a stored response again, with the events in the API's order, numbered from 0. A background response
that is still running is waited for, with keep-alives. Only the whole response is stored, so each text arrives in one piece, not in the pieces of the first
stream. ` + "`starting_after`" + ` counts events of this stream; the last event, which contains the whole response, is always sent.

` + "`DELETE /v1/responses/{id}`" + ` removes that response: it can no longer be read or continued. Responses that already continue it store the whole
conversation, so its text remains in theirs until they are deleted or expire.

## Token counts

The provider does not count tokens of embeddings: their ` + "`usage`" + ` is an estimate, and ` + "`x-perigee-notes`" + ` says so.
`)
	for _, api := range apis {
		fmt.Fprintf(&doc, "\n## %s\n\n| field | | how it is handled |\n|---|---|---|\n", api.name)
		for _, r := range api.rules {
			fmt.Fprintf(&doc, "| `%s` | %s | %s |\n", strings.ReplaceAll(r.Field, "|", "\\|"), r.Handling, strings.ReplaceAll(r.Becomes, "|", "\\|"))
		}
	}
	const path = "docs/compatibility.md"
	if *update {
		if err := os.WriteFile(path, doc.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, doc.Bytes()) {
		t.Errorf("%s is not what the code says; run go test . -update", path)
	}
}
