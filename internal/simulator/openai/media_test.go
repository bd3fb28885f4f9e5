package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestEmbeddingRules(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"text-embedding-3-small","input":"hi"}`:                                 "",
		`{"model":"text-embedding-3-small","input":["hi","ho"]}`:                          "",
		`{"model":"text-embedding-3-small","input":[1,2]}`:                                "",
		`{"model":"text-embedding-3-small","input":[[1],[2]],"dimensions":8}`:             "",
		`{"model":"text-embedding-3-small"}`:                                              "Missing required parameter: 'input'.",
		`{"model":"text-embedding-3-small","input":[]}`:                                   "empty array",
		`{"model":"text-embedding-3-small","input":""}`:                                   "cannot be an empty string",
		`{"model":"text-embedding-3-small","input":["a",{}]}`:                             "expected one of a string or array of integers",
		`{"model":"text-embedding-3-small","input":[1,"a"]}`:                              "expected an integer",
		`{"model":"text-embedding-3-small","input":"hi","dimensions":2000}`:               "Expected a value <= 1536",
		`{"model":"text-embedding-3-small","input":"hi","encoding_format":"hex"}`:         "Invalid value: 'hex'.",
		`{"model":"text-embedding-3-small","input":"hi","truncate":true}`:                 "Unknown parameter: 'truncate'.",
		`{"model":"text-embedding-3-small","input":"` + strings.Repeat("x", 40000) + `"}`: "maximum context length is 8192",
		`{"model":"gpt-5","input":"hi"}`:                                                  "not allowed to generate embeddings",
		`{"model":"none","input":"hi"}`:                                                   "does not exist",
	} {
		_, refused := CheckEmbeddings(responseInput(body))
		if refused == nil && want != "" || refused != nil && (want == "" || !strings.Contains(refused.Message, want)) {
			t.Errorf("%.80s: %v, want %q", body, refused, want)
		}
	}
}

func TestEmbeddingsInBase64(t *testing.T) {
	request, refused := CheckEmbeddings(responseInput(`{"model":"text-embedding-3-small","input":"hi","encoding_format":"base64"}`))
	if refused != nil {
		t.Fatal(refused)
	}
	var body struct{ Data []struct{ Embedding string } }
	if err := json.Unmarshal(request.Body([][]float64{{1, -0.5}}), &body); err != nil || body.Data[0].Embedding != "AACAPwAAAL8=" {
		t.Errorf("%v: %+v", err, body)
	}
}

func TestImageRules(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"gpt-image-1","prompt":"a boat","size":"1536x1024","n":2}`: "",
		`{"model":"gpt-image-1"}`:                                                "Missing required parameter: 'prompt'.",
		`{"model":"gpt-image-1","prompt":"a boat","size":"7x7"}`:                 "Invalid value: '7x7'.",
		`{"model":"gpt-image-1","prompt":"a boat","n":11}`:                       "Expected a value <= 10",
		`{"model":"gpt-image-1","prompt":"a boat","response_format":"b64_json"}`: "Unknown parameter: 'response_format'.",
		`{"model":"gpt-5","prompt":"a boat"}`:                                    "Invalid value: 'gpt-5'.",
	} {
		request, refused := CheckImages(responseInput(body))
		if refused == nil && want != "" || refused != nil && (want == "" || !strings.Contains(refused.Message, want)) {
			t.Errorf("%s: %v, want %q", body, refused, want)
		}
		if refused == nil && (request.Width != 1536 || request.Height != 1024 || request.Count != 2) {
			t.Errorf("%+v", request)
		}
	}
}
