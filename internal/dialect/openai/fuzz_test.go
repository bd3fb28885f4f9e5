package openai

import (
	"encoding/json"
	"testing"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/testing/perigeetest"
)

// Whatever a client sends is decoded into something that can be sent on, or refused as the client's
// mistake.
func FuzzDecodeEmbeddings(f *testing.F) {
	for _, rule := range perigeetest.FieldRules(f, "embeddings_rules.tsv") {
		f.Add([]byte(rule.Example))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, _, err := DecodeEmbeddings(perigee.Origin{Body: body})
		if err != nil {
			if e := perigee.AsError(err); e.Class != perigee.ClassInvalid {
				t.Fatalf("%q: class %s, %v", body, e.Class, err)
			}
			return
		}
		inputs, err := req.Inputs()
		if err != nil {
			if e := perigee.AsError(err); e.Class != perigee.ClassInvalid {
				t.Fatalf("%q: class %s, %v", body, e.Class, err)
			}
			return
		}
		if sent := gemini.EncodeEmbed("m", inputs); !json.Valid(sent) || len(inputs) == 0 {
			t.Errorf("%s becomes %s", body, sent)
		}
		if sent, _, err := EncodeEmbeddingsRequest("m", inputs); !json.Valid(sent) || err != nil {
			t.Errorf("%s becomes %s, %v", body, sent, err)
		}
	})
}

func FuzzDecodeImages(f *testing.F) {
	for _, rule := range perigeetest.FieldRules(f, "images_rules.tsv") {
		f.Add([]byte(rule.Example))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := DecodeImages(perigee.Origin{Body: body})
		if err != nil {
			if e := perigee.AsError(err); e.Class != perigee.ClassInvalid {
				t.Fatalf("%q: class %s, %v", body, e.Class, err)
			}
			return
		}
		prompt, err := req.Prompt()
		if err != nil {
			if e := perigee.AsError(err); e.Class != perigee.ClassInvalid {
				t.Fatalf("%q: class %s, %v", body, e.Class, err)
			}
			return
		}
		if sent := gemini.EncodeRequest(prompt); !json.Valid(sent) || req.Count < 1 {
			t.Errorf("%s becomes %s", body, sent)
		}
	})
}

// Whatever a server answers with is decoded into events, or an error.
func FuzzDecodeImagesAnswer(f *testing.F) {
	f.Add([]byte(`{"created":1,"data":[{"b64_json":"b25l"},{"url":"https://a.example/1.png"}],"output_format":"png","usage":{"input_tokens":1,"output_tokens":2,"input_tokens_details":{"cached_tokens":1}}}`))
	f.Add([]byte(`{"error":{"message":"no"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var d ImagesDecoder
		events, err := d.Decode(nil, body)
		if err == nil && (len(events) < 2 || events[len(events)-1].Kind != perigee.EventFinish || !d.Finished()) {
			t.Errorf("%s becomes %v", body, events)
		}
	})
}
