package main

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
)

// A dialect is one of the APIs that perigee serves: where and how the same conversation is written
// in it, and how its answer is recognized.
type dialect struct {
	name  string
	path  string // of a streaming call; %s is the model, where the path has it
	shape shape

	// Each chunk of the provider's text becomes exactly one event with piece in it, and end stands
	// in the answer once it is complete.
	piece, end string

	chunks     int  // of the answer; zero means chunkCount
	inOnePiece bool // the answer is no stream, and only its end is looked for

	// free says that only the text counts, not how it is cut into events and spaced; see beside.
	free bool
}

// The dialects. The provider speaks the first of them.
var (
	gemini = &dialect{
		name: "Gemini", path: "/v1beta/models/%s:streamGenerateContent?alt=sse", shape: geminiShape,
		piece: `data: {"candidates"`, end: `"finishReason": "STOP"`,
	}
	chat = &dialect{
		name: "Chat", path: "/v1/chat/completions", shape: chatShape,
		piece: `"delta":{"content":`, end: "data: [DONE]\n\n",
	}
	responses = &dialect{
		name: "Responses", path: "/v1/responses", shape: responsesShape,
		piece: "event: response.output_text.delta\n", end: "event: response.completed\n",
	}
	messages = &dialect{
		name: "Messages", path: "/v1/messages", shape: messagesShape,
		piece: `"type":"text_delta"`, end: "event: message_stop\n",
	}

	dialects   = []*dialect{gemini, chat, responses, messages}
	translated = dialects[1:] // those that perigee has to rewrite for the provider
)

// url is where to send a streaming call.
func (d *dialect) url(model string) string {
	if strings.Contains(d.path, "%s") {
		return fmt.Sprintf(d.path, model)
	}
	return d.path
}

// begun reports whether the answer so far has a whole event with text. What a dialect sends before
// that tells a client nothing, so it does not count as an answer. read is how much of the answer was
// looked at before; answers of some dialects begin with much that has no text.
func (d *dialect) begun(answer []byte, read int) bool {
	if d.inOnePiece {
		return bytes.Contains(answer[max(0, read-len(d.end)):], []byte(d.end))
	}
	_, rest, ok := bytes.Cut(answer[max(0, read-maxPiece):], []byte(d.piece))
	return ok && (bytes.Contains(rest, []byte("\n\n")) || bytes.Contains(rest, []byte("\r\n\r\n")))
}

// maxPiece is longer than any event with text.
const maxPiece = 2 << 10

// check insists on the whole answer: a wrong one may be quick.
func (d *dialect) check(answer []byte) error {
	if d.free {
		return checkText(d, answer)
	}
	switch n, want := bytes.Count(answer, []byte(d.piece)), cmp.Or(d.chunks, chunkCount); {
	case n != want && !d.inOnePiece:
		return fmt.Errorf("%d events instead of %d: %.300s", n, want, answer)
	case !bytes.Contains(answer, []byte(d.end)):
		return fmt.Errorf("no end: %.300s", answer[max(0, len(answer)-300):])
	}
	return nil
}
