package anthropic_test

import (
	"fmt"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/lib/rawjson"
)

func TestSources(t *testing.T) {
	const (
		image    = `{"type":"image","source": {"type":"url","url":"https://a.example/1.png"} }`
		document = `{"source":{"url":"https://a.example/2.pdf","type":"url"},"type":"document","title":"T"}`
		file     = `{"type":"document","source":{"type":"file","file_id":"file_3"}}`
		data     = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`
	)
	body := func(blocks ...string) string {
		return `{"source":{"url":"u"},"messages":[{"role":"user","content":"text"},{"role":"user","content":[` + strings.Join(blocks, ",") + `]}]}`
	}
	for _, test := range []struct{ body, want string }{
		{body(), ""},
		{body(data, `{"type":"text","text":"source"}`), ""},
		{body(image, data, document), "https://a.example/1.png false; https://a.example/2.pdf true"},
		{body(file), "file_3 true"},
		{body(`{"type":"tool_result","tool_use_id":"t","content":[` + image + `]}`), "https://a.example/1.png false"},
		{body(`{"type":"document","source":{"type":"content","content":[{"type":"text","text":"a"},` + image + `]}}`), "https://a.example/1.png false"},
		{body(`{"type":"tool_use","id":"t","name":"f","input":{"source":{"url":"https://a.example"},"content":1}}`), ""},
		{body(`{"type":"search_result","source":"https://a.example","title":"t","content":[]}`), ""},
		{`{"messages":7}`, ""},
		{`{"messages":[{"content":[{"type":1,"source":{"url":2,"file_id":null}}]}]}`, ""},
	} {
		index, err := rawjson.Open([]byte(test.body), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, index := range []*rawjson.Document{index, nil} {
			var list []string
			for _, s := range anthropic.Sources(index, []byte(test.body)) {
				if text := test.body[s.Start:s.End]; text[0] != '{' || text[len(text)-1] != '}' || !strings.Contains(text, s.URL+s.File) {
					t.Errorf("a source at %s", text)
				}
				list = append(list, fmt.Sprint(s.URL+s.File, " ", s.Document))
			}
			if got := strings.Join(list, "; "); got != test.want {
				t.Errorf("%s: %q, want %q", test.body, got, test.want)
			}
		}
	}
}

func TestSourcesWithData(t *testing.T) {
	for _, test := range []struct {
		document bool
		blob     perigee.Blob
		want     string
	}{
		{false, perigee.Blob{MIME: "image/png", Data: "AAAA"}, `{"type":"base64","media_type":"image/png","data":"AAAA"}`},
		{true, perigee.Blob{MIME: "application/pdf", Data: "AAAA"}, `{"type":"base64","media_type":"application/pdf","data":"AAAA"}`},
		{true, perigee.Blob{MIME: "text/markdown", Data: "aGki"}, `{"type":"text","media_type":"text/plain","data":"hi\""}`},
		{false, perigee.Blob{MIME: "text/plain", Data: "aGki"}, `{"type":"base64","media_type":"text/plain","data":"aGki"}`},
	} {
		s := anthropic.Source{Document: test.document}
		if got := string(s.WithData(&test.blob)); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}
