package main

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestAgentBodyLooksLikeAnAgents(t *testing.T) {
	for _, test := range []struct{ size, tools, turns int }{
		{1000, 0, 2}, {1 << 10, 0, 2}, {10 << 10, 3, 6}, {100 << 10, 30, 30}, {1 << 20, 30, 300}, {1<<20 + 17, 30, 300},
	} {
		body := agentBody(test.size)
		if len(body) != test.size {
			t.Errorf("%d bytes instead of %d", len(body), test.size)
		}
		var request struct {
			SystemInstruction json.RawMessage
			Tools             []struct{ FunctionDeclarations []json.RawMessage }
			Contents          []json.RawMessage
		}
		if err := json.Unmarshal(body, &request); err != nil {
			t.Fatalf("%d: %v", test.size, err)
		}
		if got := len(request.Tools[0].FunctionDeclarations); got != test.tools {
			t.Errorf("%d: %d tools instead of %d", test.size, got, test.tools)
		}
		if got := len(request.Contents); got < test.turns {
			t.Errorf("%d: %d turns, want at least %d", test.size, got, test.turns)
		}
		for _, part := range []string{`\n`, `\"`, "–"} {
			if !bytes.Contains(body, []byte(part)) {
				t.Errorf("%d: no %s", test.size, part)
			}
		}
		if !bytes.Equal(body, agentBody(test.size)) {
			t.Errorf("%d: not the same every time", test.size)
		}
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
