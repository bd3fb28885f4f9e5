package gemini

import (
	"testing"

	"perigee/internal/lib/rawjson"
)

func TestForVertex(t *testing.T) {
	for _, test := range []struct{ body, want, notes string }{
		{`{"contents":[{"role":"user","parts":[{"text":"a"}]}],"labels":{}}`, `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"labels":{}}`, ""},
		{`{"model":"models/x","contents":[]}`, `{"contents":[]}`, ""},
		{`{"contents":{"parts":{"text":"a"}}}`, `{"contents":{"role":"user","parts":{"text":"a"}}}`, "added role user;"},
		{`{"contents":[{}, {"role":"model"}]}`, `{"contents":[{"role":"user"}, {"role":"model"}]}`, "added role user;"},
		{`{"store":true,"a":1,"generation_config":{"enable_enhanced_civic_answers":true}}`, `{"a":1,"generation_config":{}}`, "dropped store; dropped generationConfig.enableEnhancedCivicAnswers;"},
		{`{"tools":[{"file_search":{}},{"googleSearch":{},"mcpServers":[]},{"fileSearch":{}}]}`, `{"tools":[{"googleSearch":{}}]}`, "dropped tools.fileSearch; dropped tools.mcpServers;"},
		{`{"contents":[{"role":"model","parts":[{"text":"a"},{"toolCall":{"id":"1"}},{"text":"b","partMetadata":{}}]}]}`, `{"contents":[{"role":"model","parts":[{"text":"a"},{"text":"b"}]}]}`, "dropped parts.toolCall; dropped parts.partMetadata;"},
		{`{"systemInstruction":{"parts":[{"text":"a"}]},"toolConfig":{"includeServerSideToolInvocations":true,"functionCallingConfig":{}}}`, `{"systemInstruction":{"parts":[{"text":"a"}]},"toolConfig":{"functionCallingConfig":{}}}`, "dropped toolConfig.includeServerSideToolInvocations;"},
		{`{"contents":"a","tools":1,"toolConfig":null}`, `{"contents":"a","tools":1,"toolConfig":null}`, ""},
	} {
		edits, notes := ForVertex([]byte(test.body))
		got, list := string(rawjson.Splice([]byte(test.body), edits...)), ""
		for _, n := range notes {
			if list != "" {
				list += " "
			}
			list += n.String() + ";"
		}
		if got != test.want || list != test.notes {
			t.Errorf("%s\nbecomes %s\nwant    %s\nnotes %s", test.body, got, test.want, list)
		}
		if err := rawjson.Check([]byte(got)); err != nil {
			t.Errorf("%s becomes %s: %v", test.body, got, err)
		}
	}
}

func TestVertexCount(t *testing.T) {
	for body, want := range map[string]string{
		`{"contents":[1],"safetySettings":[],"system_instruction":{}}`:            `{"contents":[1],"systemInstruction":{}}`,
		`{"generateContentRequest":{"model":"m","contents":[2],"toolConfig":{}}}`: `{"contents":[2]}`,
	} {
		if got := string(VertexCount([]byte(body))); got != want {
			t.Errorf("%s becomes %s, want %s", body, got, want)
		}
	}
}

func TestDecodePublisherModels(t *testing.T) {
	list, next, err := DecodePublisherModels([]byte(`{"publisherModels":[{"name":"publishers/google/models/gemini-3-flash","versionId":"001","launchStage":"GA"}],"nextPageToken":"n"}`))
	if err != nil || next != "n" || len(list) != 1 || list[0].ID != "gemini-3-flash" || list[0].Version != "001" {
		t.Errorf("%+v, %q, %v", list, next, err)
	}
}
