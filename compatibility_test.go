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

// TestCompatibilityTable keeps docs/compatibility.md the same as the tables in the code. That these tell the truth is
// the business of each dialect's own tests, which decode every example.
func TestCompatibilityTable(t *testing.T) {
	var doc bytes.Buffer
	doc.WriteString(`# What becomes of each field

Made from the tables in the code by ` + "`go test . -update`" + `; the examples behind each row are decoded by the tests.

- **carried**: the model sees it as you meant it.
- **mapped**: the model sees the nearest thing, and ` + "`x-perigee-notes`" + ` says so.
- **dropped**: nobody sees it, and ` + "`x-perigee-notes`" + ` says so.
- **accepted**: it asks for nothing that could be missed, so there is no note.
- **refused**: the request is an error that says why.

Under ` + "`strict: true`" + ` whatever would be mapped or dropped is an error instead. A field that is not in the table is dropped
with a note. A tool that goes by another name on the way has its own name in the answer: that is a note, and no error. What a model or a provider cannot take (a tool's name, a thinking budget, a limit) is fitted to it later and
noted the same way.

Requests in the **Gemini** dialect to a Gemini-shaped upstream go on byte for byte, so every field of theirs is carried,
known to perigee or not.

## Responses that are kept

` + "`GET /v1/responses/{id}?stream=true`" + ` answers with the events of a stored response, in the order of the API and numbered from 0; one
that is still being made in the background is waited for, with signs of life. The pieces of text are not those of the first
stream, because only the whole is kept: each text comes at once. ` + "`starting_after`" + ` counts in this stream, and the last event, which has
the whole response, comes whatever number is given.

` + "`DELETE /v1/responses/{id}`" + ` takes that response away: it cannot be read, nor gone on from. Responses that were gone on from it before
are kept with the whole conversation they rest on, so its text stays in theirs until they are deleted, too, or expire.

## What is counted here

The provider does not count what it embeds: ` + "`usage`" + ` of embeddings is an estimate, and ` + "`x-perigee-notes`" + ` says so.
`)
	for _, api := range []struct {
		name  string
		rules []perigee.FieldRule
	}{
		{"OpenAI Chat Completions", chat.Rules()},
		{"OpenAI Responses", responses.Rules()},
		{"OpenAI Embeddings", openai.EmbeddingsRules()},
		{"OpenAI Images", openai.ImagesRules()},
		{"Anthropic Messages", anthropic.Rules()},
	} {
		fmt.Fprintf(&doc, "\n## %s\n\n| field | | what becomes of it |\n|---|---|---|\n", api.name)
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
