package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

func TestAgentBodyLooksLikeAnAgents(t *testing.T) {
	for _, d := range dialects {
		for _, test := range []struct{ size, tools, turns int }{
			{1000, 0, 2}, {1 << 10, 0, 2}, {10 << 10, 3, 6}, {100 << 10, 30, 30}, {1 << 20, 30, 300}, {1<<20 + 17, 30, 300},
		} {
			t.Run(fmt.Sprintf("%s, %d bytes", d.name, test.size), func(t *testing.T) {
				body := agentBody(d, "some-model", test.size)
				if len(body) != test.size {
					t.Errorf("%d bytes", len(body))
				}
				if tools, turns := count(t, d, body); tools != test.tools || turns < test.turns {
					t.Errorf("%d tools instead of %d, %d turns, want at least %d", tools, test.tools, turns, test.turns)
				}
				for _, part := range []string{`\n`, `\"`, "–"} {
					if !bytes.Contains(body, []byte(part)) {
						t.Errorf("no %s", part)
					}
				}
				if !bytes.Equal(body, agentBody(d, "some-model", test.size)) {
					t.Error("not the same every time")
				}
			})
		}
	}
}

// count returns how many tools and turns a request has.
func count(t *testing.T, d *dialect, body []byte) (tools, turns int) {
	var request struct {
		Model string

		SystemInstruction, System, Instructions json.RawMessage

		Tools                     []struct{ FunctionDeclarations []json.RawMessage }
		Contents, Messages, Input []json.RawMessage
	}
	if err := json.Unmarshal(body, &request); err != nil {
		t.Fatal(err)
	}
	if tools = len(request.Tools); d == gemini {
		tools = len(request.Tools[0].FunctionDeclarations)
	} else if request.Model != "some-model" {
		t.Errorf("asks %q", request.Model)
	}
	if request.SystemInstruction == nil && request.System == nil && request.Instructions == nil && d != chat {
		t.Error("no instructions")
	}
	return tools, len(request.Contents) + len(request.Messages) + len(request.Input)
}

// Each dialect writes the same conversation, so perigee must understand all of it and answer in its
// words.
func TestPerigeeAnswersEachDialect(t *testing.T) {
	house, err := newHouse()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			into := &answerInMemory{header: http.Header{}}
			if err := askHouse(t.Context(), house, newQuestion(d, quickModel, 100<<10), into); err != nil {
				t.Fatal(err)
			}
			if notes := into.header.Get("X-Perigee-Notes"); notes != "" {
				t.Errorf("perigee could not take all of it: %s", notes)
			}
			if answer := into.body.Bytes(); !d.begun(answer, 0) || d.begun(answer[:bytes.Index(answer, []byte(d.piece))+len(d.piece)], 0) {
				t.Errorf("begins too early or never: %.500s", answer)
			}
		})
	}
}

func TestAnswerIsOneStreamOfGeminiChunks(t *testing.T) {
	if len(answerChunks) != chunkCount {
		t.Fatalf("%d chunks", len(answerChunks))
	}
	for i, chunk := range answerChunks {
		data, framed := bytes.CutPrefix(chunk, []byte("data: "))
		var response struct {
			Candidates []struct{ FinishReason string }
		}
		if err := json.Unmarshal(data, &response); err != nil || !framed {
			t.Fatalf("%s: %v", chunk, err)
		}
		if last := i == chunkCount-1; (response.Candidates[0].FinishReason == "STOP") != last {
			t.Errorf("chunk %d finishes or does not: %s", i, chunk)
		}
		if len(chunk) < 230 || len(chunk) > 330 {
			t.Errorf("chunk %d has %d bytes", i, len(chunk))
		}
	}
}
