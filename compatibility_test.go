package perigee_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"perigee/internal/testing/perigeetest"
)

var update = flag.Bool("update", false, "rewrite docs/compatibility.md")

// handlings are the columns of the summary.
var handlings = []perigeetest.Handling{perigeetest.HandlingCarried, perigeetest.HandlingMapped, perigeetest.HandlingDropped,
	perigeetest.HandlingAccepted, perigeetest.HandlingRefused}

// TestCompatibilityTable keeps docs/compatibility.md the same as the tables in the code. That these
// tell the truth is the business of each dialect's own tests, which decode every example.
func TestCompatibilityTable(t *testing.T) {
	var doc bytes.Buffer
	doc.WriteString(`# How each request field is handled

Generated from the tables in the code, and from the requests that perigee makes of their examples, by ` + "`go test . -update`" + `.
The columns are the APIs of upstreams: Gemini (kinds gemini, antigravity and langserver), Chat and Responses (kind openai,
with OpenAI's models), Messages (kind anthropic) and Ollama (kind ollama). Tests decode an example for each row, and send it to a strict
simulator of each API.

- **carried**: the field has its intended effect.
- **mapped**: the nearest equivalent is used, with a note in ` + "`x-perigee-notes`" + `.
- **dropped**: the field is removed, with a note in ` + "`x-perigee-notes`" + `.
- **accepted**: the field needs no equivalent, so there is no note.
- **refused**: the request fails with an error that says why.
- **forwarded**: the upstream gets the client's own bytes.
- **repaired**, **added**, **omitted**: what the upstream would refuse is mended, something that it requires is added,
  or earlier thinking that it does not take is left out, each with a note.

Where models of an upstream differ, the table has the best handling: reasoning models of OpenAI refuse sampling
parameters, for example. Other servers with OpenAI's APIs accept less ([providers.md](providers.md)). For Ollama, perigee fetches images on the
web where ` + "`media.fetch`" + ` allows it; the table has the handling of those that are not fetched.

With ` + "`strict: true`" + `, a field that would be mapped or dropped causes an error instead. A field that is not in a table is
dropped, with a note. Renamed tools have a note but cause no error, because the answer has their original names. Values
that a model or provider does not accept, such as tool names, thinking budgets and limits, are adapted later, with a
note as well.

Requests in the **Gemini** dialect to a Gemini upstream are forwarded byte for byte, so all fields are carried,
including those that perigee does not know. The exceptions are the name of the model, and a thinking budget that is not
below the request's own ` + "`maxOutputTokens`" + `: without ` + "`strict`" + `, it is lowered, with a note.

Requests in the **Messages**, **Chat** and **Responses** dialects to an upstream with that API are forwarded byte for
byte, too. The exceptions are the name of the model, thinking that its suffix asks for, members that the configuration
sets or drops, the usage of Chat streams, ` + "`stream`" + ` of a Chat request that has it in ` + "`extra_body`" + `, items of a Responses
request that only name something stored although ` + "`store`" + ` is false, and reasoning: what another provider has made is left
out with a note, and what the client has lost is restored.

The summary counts the column Gemini.

`)
	apis := []struct {
		name  string
		rules []perigeetest.FieldRule
	}{
		{"OpenAI Chat Completions", perigeetest.FieldRules(t, "internal/dialect/openai/chat/rules.tsv")},
		{"OpenAI Responses", perigeetest.FieldRules(t, "internal/dialect/openai/responses/rules.tsv")},
		{"OpenAI Embeddings", perigeetest.FieldRules(t, "internal/dialect/openai/embeddings_rules.tsv")},
		{"OpenAI Images", perigeetest.FieldRules(t, "internal/dialect/openai/images_rules.tsv")},
		{"Anthropic Messages", perigeetest.FieldRules(t, "internal/dialect/anthropic/rules.tsv")},
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

` + "`GET /v1/responses/{id}?stream=true`" + ` streams a stored response again, with its events numbered from 0. If a background
response is still running, the stream waits for it and sends keep-alives. Only the complete response is stored, so each
text arrives in one event instead of the original ones. ` + "`starting_after`" + ` refers to events of this stream; the last
event, which contains the complete response, is always sent.

` + "`DELETE /v1/responses/{id}`" + ` deletes a response: it can no longer be read or continued. Responses that continue it
contain the whole conversation, so its text remains there until they are deleted or expire.

## Token counts

The provider does not count the tokens of embeddings. Their ` + "`usage`" + ` is an estimate, with a note in ` + "`x-perigee-notes`" + `.
`)
	for _, api := range apis {
		columns := wireHandlings(t, api.name, api.rules)
		fmt.Fprintf(&doc, "\n## %s\n\n| field | Gemini |", api.name)
		for i := range columns {
			fmt.Fprintf(&doc, " %s |", wires[i].name)
		}
		doc.WriteString(" result in Gemini's API |\n|---|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
		for i, r := range api.rules {
			fmt.Fprintf(&doc, "| `%s` | %s |", strings.ReplaceAll(r.Field, "|", "\\|"), r.Handling)
			for _, column := range columns {
				fmt.Fprintf(&doc, " %s |", column[i])
			}
			fmt.Fprintf(&doc, " %s |\n", strings.ReplaceAll(r.Becomes, "|", "\\|"))
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
