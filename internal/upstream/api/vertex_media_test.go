package api

import (
	"strings"
	"testing"

	"perigee"
)

// Claude on Vertex AI gets data in place of addresses, in the client's own bytes and in translated
// requests, for answers and counts. Without data, and for uploaded files, nothing is sent.
func TestAddressesAtVertex(t *testing.T) {
	const (
		png    = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
		image  = `{"type":"image","source":{"type":"url","url":"https://a.example/cat.png"}}`
		pdf    = `{"type":"document","cache_control":{"type":"ephemeral"},"source":{"type":"url","url":"https://a.example/doc"}}`
		nested = `{"type":"tool_result","tool_use_id":"toolu_1","content":[` + image + `]}`
		inData = `{"type":"image","source":{"type":"url","url":"data:image/png;base64,` + png + `"}}`
	)
	fetch := func(req *perigee.Request, readsURLs bool) (*perigee.Request, error) {
		prompt, err := req.Prompt()
		if err != nil || readsURLs {
			return req, err
		}
		e := prompt.Edit()
		for i := range prompt.Contents {
			e.Content(i).Parts = perigee.EditParts(prompt.Contents[i].Parts, func(p *perigee.Part) bool {
				if p.Kind == perigee.PartFile && strings.HasSuffix(p.File.URI, "doc") {
					p.Kind, p.Blob = perigee.PartBlob, &perigee.Blob{MIME: "application/pdf", Data: "JVBERi0="}
				} else if p.Kind == perigee.PartFile {
					p.Kind, p.Blob = perigee.PartBlob, &perigee.Blob{MIME: "image/png", Data: png}
				}
				return true
			})
		}
		return req.WithPrompt(e.Prompt), nil
	}
	block := func(kind, mime, data string) string {
		return strings.Replace(`{"type":"KIND","source":{"type":"base64","media_type":"`+mime+`","data":"`+data+`"}}`, "KIND", kind, 1)
	}
	picture := block("image", "image/png", png)
	for _, test := range []struct {
		name, content string
		sent          string // where files are fetched
		err           string // where they are not
	}{
		{"an image", "[" + image + "]", "[" + picture + "]", "as the one at https://a.example/cat.png"},
		{"several", "[" + image + `, {"type":"text","text":"and"},` + image + "," + pdf + "]",
			"[" + picture + `, {"type":"text","text":"and"},` + picture + "," + strings.Replace(block("document", "application/pdf", "JVBERi0="), `,"source"`, `,"cache_control":{"type":"ephemeral"},"source"`, 1) + "]",
			"as the one at https://a.example/cat.png"},
		{"data in an address", "[" + inData + "]", "[" + picture + "]", ""},
	} {
		for _, count := range []bool{false, true} {
			for _, allowed := range []bool{true, false} {
				r := newBetaRig(t, Members{})
				members := limit + `"system":"s"`
				if count {
					members = `"system":"s"`
				}
				req := decodeMessages(t, `{"model":"claude-sonnet-4-6",`+members+`,"messages":[{"role":"user","content":`+test.content+`}]}`, nil)
				if allowed {
					req.Ready = fetch
				}
				sent, notes, err := r.ask(t, req, count)
				if test.err != "" && !allowed {
					if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassInvalid || !strings.Contains(e.Message, test.err) || !strings.Contains(e.Hint, "media.fetch") || len(sent) != 0 {
						t.Errorf("%s, not fetched: %v, sent %q", test.name, err, sent)
					}
					continue
				}
				want := strings.Replace(sentBody("", `"system":"s"`), `"content":"hi"`, `"content":`+test.sent, 1)
				if err != nil || len(sent) != 1 || !sameRequests(sent[0], want, count) || notes != "" {
					t.Errorf("%s: %v, notes %q, sent\n%q\nwant\n%s", test.name, err, notes, sent, want)
				}
			}
		}
	}
	t.Run("an uploaded file", func(t *testing.T) {
		r := newBetaRig(t, Members{})
		req := decodeMessages(t, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]}]}`, []string{"files-api-2025-04-14"})
		req.Ready = fetch
		sent, _, err := r.ask(t, req, false)
		if e := perigee.AsError(err); e == nil || !strings.Contains(e.Message, "file_1") || !strings.Contains(e.Hint, "base64") || len(sent) != 0 {
			t.Errorf("%v, sent %q", err, sent)
		}
	})
	t.Run("a tool result", func(t *testing.T) {
		r := newBetaRig(t, Members{})
		req := decodeMessages(t, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]},{"role":"user","content":[`+nested+`]}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`, nil)
		req.Ready = fetch
		if sent, _, err := r.ask(t, req, false); err != nil || len(sent) != 1 || !strings.Contains(sent[0], picture) {
			t.Errorf("%v, sent %q", err, sent)
		}
	})
	t.Run("translated", func(t *testing.T) {
		r := newBetaRig(t, Members{})
		req := requestIn(t, perigee.DialectOpenAIChat, "claude-sonnet-4-6", false, "hi", `,{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://a.example/cat.png"}}]}`)
		sent, _, err := r.ask(t, req, false)
		if e := perigee.AsError(err); e == nil || !strings.Contains(e.Message, "as the one at http://a.example/cat.png") || len(sent) != 0 {
			t.Errorf("not fetched: %v, sent %q", err, sent)
		}
		req.Ready = fetch
		if req, err = req.Decoded(r.upstream.ReadsURLs()); err != nil {
			t.Fatal(err)
		}
		if sent, _, err = r.ask(t, req, false); err != nil || len(sent) != 1 || !strings.Contains(sent[0], png) {
			t.Errorf("fetched: %v, sent %q", err, sent)
		}
	})
}
