package openai

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"perigee"
)

// More inputs than the API takes, and empty ones, are refused while they are read: memory does not
// follow their number.
func TestEmbeddingsRefuseManyInputs(t *testing.T) {
	list := func(element string, n int) string {
		return `{"model":"gemini-embedding-001","input":[` + strings.Repeat(element+",", n-1) + element + `]}`
	}
	const many = 1 << 20
	for _, tt := range []struct{ body, param, code, message string }{
		{list(`""`, many), "input[0]", "empty_string", "Invalid 'input[0]': empty string"},
		{list(`"a"`, many), "input", "array_above_max_length", "got an array with length 1048576 instead"},
		{list(`null`, many), "input[0]", "empty_string", "empty string"},
		{list(`1`, many), "input", "", "arrays of tokens are not supported"},
		{list(`[1,2]`, many), "input", "", "arrays of tokens are not supported"},
		{list(`{}`, many), "", "", "want a string"},
		{list(`"a"`, 2049), "input", "array_above_max_length", "maximum length 2048, but got an array with length 2049"},
		{`{"model":"gemini-embedding-001","input":[]}`, "input", "empty_array", "Invalid 'input': empty array"},
		{`{"model":"gemini-embedding-001"}`, "input", "", "want a text or a list of texts"},
		{`{"model":"gemini-embedding-001","input":""}`, "input", "empty_string", "Invalid 'input': empty string"},
		{`{"model":"gemini-embedding-001","input":["a","b",""]}`, "input[2]", "empty_string", "Invalid 'input[2]'"},
	} {
		body := []byte(tt.body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		req, _, err := DecodeEmbeddings(perigee.Origin{Body: body})
		if err != nil {
			t.Errorf("%.60s: %v before it is sent anywhere", body, err)
			continue
		}
		_, err = req.Inputs()
		runtime.ReadMemStats(&after)
		e := perigee.AsError(err)
		if e == nil || e.Class != perigee.ClassInvalid || !strings.Contains(e.Message, tt.message) {
			t.Errorf("%.60s: %v, want %q", body, err, tt.message)
			continue
		}
		if fault, ok := errors.AsType[*perigee.Fault](e.Cause); tt.param != "" && (!ok || fault.Param != tt.param || fault.Code != tt.code) {
			t.Errorf("%.60s: fault %+v, want %s, %s", body, fault, tt.param, tt.code)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%.60s: %d bytes allocated for a body of %d", body, used, len(body))
		}
	}
	req, _, err := DecodeEmbeddings(perigee.Origin{Body: []byte(list(`"a"`, maxInputs))})
	if err != nil {
		t.Fatal(err)
	}
	if inputs, err := req.Inputs(); err != nil || len(inputs) != maxInputs || req.Count != maxInputs {
		t.Errorf("%d inputs of %d: %v", len(inputs), req.Count, err)
	}
}

// The answer is written into one piece of memory, whichever form it has.
func TestEmbeddingsAreWrittenOnce(t *testing.T) {
	e := &perigee.Embeddings{Model: "gemini-embedding-001", Vectors: [][]float32{{0.123456789, -1.17549435e-38}, {1, 2}}}
	for _, packed := range []bool{false, true} {
		if out := EncodeEmbeddings(e, packed); len(out) > embeddingsSize(e, packed) {
			t.Errorf("packed %v: %d bytes, expected at most %d", packed, len(out), embeddingsSize(e, packed))
		}
	}
}

// Members beyond the API with media that are files of the provider's machine are refused, in requests
// for embeddings and for images.
func TestMediaOfOtherRequests(t *testing.T) {
	embeddings := func(body string) error {
		_, _, err := DecodeEmbeddings(perigee.Origin{Body: []byte(`{"model":"m",` + body + `}`)})
		return err
	}
	images := func(body string) error {
		_, err := DecodeImages(perigee.Origin{Body: []byte(`{"model":"m",` + body + `}`)})
		return err
	}
	for _, c := range []struct {
		decode func(string) error
		body   string
		param  string
	}{
		{embeddings, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"@"}}]}]`, "messages[0].content[0].image_url"},
		{embeddings, `"input":["a",{"image":"@"}]`, "input[1].image"},
		{images, `"prompt":"x","image":"@"`, "image"},
		{images, `"prompt":"x","images":["https://x.example/a.png",{"image_url":"@"}]`, "images[1].image_url"},
		{images, `"prompt":"x","mask":{"url":"@"}`, "mask"},
	} {
		err := c.decode(strings.ReplaceAll(c.body, "@", "file:///etc/passwd"))
		if fault, ok := errors.AsType[*perigee.Fault](err); !ok || fault.Param != c.param || perigee.AsError(err).Class != perigee.ClassInvalid {
			t.Errorf("%s: %v, %+v", c.body, err, fault)
		}
		if err := c.decode(strings.ReplaceAll(c.body, "@", "https://x.example/b.png")); err != nil {
			t.Errorf("%s: %v", c.body, err)
		}
	}
}
