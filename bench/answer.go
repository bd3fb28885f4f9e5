package main

import (
	"bytes"
	"fmt"
)

// chunkCount is how many chunks the streamed answer has.
const chunkCount = 20

// answerChunks is the streamed answer, framed as the Gemini API frames it: \r\n, and a count of
// tokens in every chunk.
var answerChunks = makeAnswer()

func makeAnswer() [][]byte {
	texts := []string{
		"The handler reads the whole ",
		"body before it ",
		"asks the store, so a slow client \"holds\" a row.\\n\\n",
		"```go\\nif err != nil {\\n\\treturn fmt.Errorf",
		"(\\\"read %s: %w\\\", name, err)\\n}\\n```\\n",
	}
	var chunks [][]byte
	for i := range chunkCount {
		end := ""
		if i == chunkCount-1 {
			end = `"finishReason": "STOP",`
		}
		text := bytes.ReplaceAll([]byte(texts[i%len(texts)]), []byte(`"holds"`), []byte("holds – as it were –"))
		chunks = append(chunks, fmt.Appendf(nil, `data: {"candidates": [{"content": {"parts": [{"text": "%s"}],"role": "model"},%s"index": 0}],`+
			`"usageMetadata": {"promptTokenCount": 25317,"candidatesTokenCount": %d,"totalTokenCount": %d},`+
			`"modelVersion": "gemini-3-flash","responseId": "b3Blbi1iZW5jaA"}`+"\r\n\r\n", text, end, 9*(i+1), 25317+9*(i+1)))
	}
	return chunks
}

// wholeAnswer is the answer to generateContent: all that the chunks say.
var wholeAnswer = fmt.Appendf(nil, `{"candidates": [{"content": {"parts": [{"text": %s}],"role": "model"},"finishReason": "STOP","index": 0}],`+
	`"usageMetadata": {"promptTokenCount": 25317,"candidatesTokenCount": 180,"totalTokenCount": 25497},"modelVersion": "gemini-3-flash","responseId": "b3Blbi1iZW5jaA"}`,
	quote(providerText))

// longChunks is how many chunks a long answer has.
const longChunks = 2000

// wrapped is a chunk as the Antigravity gateway sends it.
func wrapped(chunk []byte) []byte {
	inner := bytes.TrimSpace(bytes.TrimPrefix(chunk, []byte("data: ")))
	return fmt.Appendf(nil, "data: {\"response\": %s,\"traceId\": \"6f70656e2d62656e6368\",\"metadata\": {}}\r\n\r\n", inner)
}
