package gemini

import (
	"testing"

	"perigee"
	"perigee/internal/lib/rawjson"
)

func TestSetThinkingLeavesTheRestAsItCame(t *testing.T) {
	for body, want := range map[string]string{
		`{"generationConfig": null}`: `{"generationConfig": {"thinkingConfig":{"thinkingBudget":9}}}`,
		`{}`:                         `{"generationConfig":{"thinkingConfig":{"thinkingBudget":9}}}`,
		` { "zzz" : 1.50 } `:         ` {"generationConfig":{"thinkingConfig":{"thinkingBudget":9}}, "zzz" : 1.50 } `,
		`{"a":"\u0041\/é","generationConfig":{ }}`:                                           `{"a":"\u0041\/é","generationConfig":{"thinkingConfig":{"thinkingBudget":9} }}`,
		`{"generationConfig":{"thinkingConfig":{},"thinking_config":{}}}`:                    `{"generationConfig":{"thinkingConfig":{},"thinking_config":{"thinkingBudget":9}}}`,
		`{"generationConfig":{},"generation_config":{}}`:                                     `{"generationConfig":{},"generation_config":{"thinkingConfig":{"thinkingBudget":9}}}`,
		`{"generation_config" : { "top_k":3}}`:                                               `{"generation_config" : {"thinkingConfig":{"thinkingBudget":9}, "top_k":3}}`,
		`{"generationConfig":{"topK":3,"thinking_config":{"includeThoughts":true},"x":[ ]}}`: `{"generationConfig":{"topK":3,"thinking_config":{"thinkingBudget":9},"x":[ ]}}`,
	} {
		got := SetThinking([]byte(body), &perigee.Thinking{Budget: new(int64(9))})
		if string(got) != want || rawjson.Check(got) != nil {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}

func TestOtherModelIsFound(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"models/m"}`:                                       "",
		`{"model":"m","contents":{"model":"other"}}`:                 "",
		`{"model":"other"}`:                                          "model other",
		`{"generateContentRequest":{"model":"models/other"}}`:        "generateContentRequest.model other",
		`{"requests":[{"model":"models/m"},{"model":"models/o"}]}`:   "requests[1].model o",
		`{"requests":{"model":"models/o"}}`:                          "requests[0].model o",
		`{"model":7,"requests":[1,null],"generateContentRequest":1}`: "",
	} {
		place, other, _ := otherModel([]byte(body), "models/m")
		if got := place + " " + other; got != want && got != " "+want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func TestThinksBeyondOutput(t *testing.T) {
	for body, want := range map[string]bool{
		`{"generationConfig":{"maxOutputTokens":100,"thinkingConfig":{"thinkingBudget":100}}}`:      true,
		`{"generationConfig":{"thinkingConfig":{"thinkingBudget":101},"maxOutputTokens":"100"}}`:    true,
		`{"generation_config":{"max_output_tokens":100,"thinking_config":{"thinking_budget":101}}}`: true,
		`{"generation\u0043onfig":{"maxOutputTokens":100,"thinkingConfig":{"thinkingBudget":101}}}`: true,
		`{"generationConfig":{"maxOutputTokens":100,"thinkingConfig":{"thinkingBudget":99}}}`:       false,
		`{"generationConfig":{"maxOutputTokens":100,"thinkingConfig":{"thinkingBudget":-1}}}`:       false,
		`{"generationConfig":{"thinkingConfig":{"thinkingBudget":100}}}`:                            false,
		`{"generationConfig":{"maxOutputTokens":0,"thinkingConfig":{"thinkingBudget":0}}}`:          false,
		`{"generationConfig":{"maxOutputTokens":null,"thinkingConfig":{"thinkingBudget":null}}}`:    false,
		`{"generationConfig":null,"thinkingBudget":100}`:                                            false,
		`{"generationConfig":{"maxOutputTokens":"x","thinkingConfig":{"thinkingBudget":5}}}`:        false,
		`{"contents":[{"parts":[{"text":"thinkingBudget"}]}]}`:                                      false,
	} {
		req, err := DecodeRequest(perigee.Origin{Body: []byte(body)}, "m", true)
		if err != nil {
			t.Errorf("%s: %v", body, err)
		} else if req.ThinksBeyondOutput != want {
			t.Errorf("%s: %t", body, !want)
		}
	}
}
