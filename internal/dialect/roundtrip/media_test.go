package roundtrip

import (
	"bytes"
	"strings"
	"testing"

	"perigee"
)

// Data in a message may be as large as the body, so its blob aliases the body. The type and a URL on
// the web are in notes and records, which outlive the body, and are copied.
func TestMediaAliasTheBody(t *testing.T) {
	data := strings.Repeat("iVBORw0K", 1000)
	bodies := map[string]string{
		"chat": `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/webp;base64,` + data + `"}},` +
			`{"type":"image_url","image_url":"data:image/webp;base64,` + data + `"},` +
			`{"type":"image_url","image_url":{"url":"https://example.com/a"}},{"type":"file","file":{"file_data":"` + data + `","filename":"a.pdf"}}]}]}`,
		"responses": `{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/webp;base64,` + data + `"},` +
			`{"type":"input_image","image_url":"https://example.com/a"},{"type":"input_file","file_data":"` + data + `","filename":"a.pdf"},` +
			`{"type":"input_file","file_url":"data:image/webp;base64,` + data + `"}]}]}`,
		"anthropic": `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[` +
			`{"type":"image","source":{"type":"base64","media_type":"image/webp","data":"` + data + `"}},` +
			`{"type":"image","source":{"type":"url","url":"data:image/webp;base64,` + data + `"}},` +
			`{"type":"image","source":{"type":"url","url":"https://example.com/a"}}]}]}`,
	}
	compared := 0
	for _, d := range dialects {
		body := []byte(bodies[d.name])
		if len(body) == 0 {
			continue
		}
		req, err := d.read(perigee.Origin{Body: body})
		if err != nil {
			t.Fatal(d.name, err)
		}
		prompt, err := req.Prompt()
		if err != nil {
			t.Fatal(d.name, err)
		}
		copy(body, bytes.ToUpper(body))
		for _, p := range prompt.Contents[0].Parts {
			compared++
			switch p.Kind {
			case perigee.PartBlob:
				if p.Blob.Data != strings.ToUpper(data) || p.Blob.MIME != "image/webp" && p.Blob.MIME != "application/pdf" {
					t.Errorf("%s: %s, %.20s", d.name, p.Blob.MIME, p.Blob.Data)
				}
			case perigee.PartFile:
				if p.File.URI != "https://example.com/a" {
					t.Errorf("%s: %s", d.name, p.File.URI)
				}
			}
		}
	}
	if compared != 11 {
		t.Errorf("%d parts were compared", compared)
	}
}
