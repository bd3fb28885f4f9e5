package chat

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/testing/perigeetest"
)

// Whatever a client sends is decoded into something that can be sent on, or refused as the client's
// mistake.
func FuzzDecodeRequest(f *testing.F) {
	if archive, err := txtar.ParseFile("testdata/clients.txtar"); err == nil {
		for _, file := range archive.Files {
			if len(file.Data) < 2000 {
				f.Add(file.Data)
			}
		}
	}
	for _, rule := range perigeetest.FieldRules(f, "rules.tsv") {
		f.Add([]byte(rule.Example))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		req, err := DecodeRequest(perigee.Origin{Body: body})
		if err == nil {
			_, err = req.Prompt()
		}
		if !bytes.Equal(before, body) {
			t.Fatalf("the body was changed from %q to %q", before, body)
		}
		if err != nil {
			if e := perigee.AsError(err); e.Class != perigee.ClassInvalid || e.Message == "" {
				t.Fatalf("%q: class %s, %v", body, e.Class, err)
			}
			return
		}
		prompt, err := req.Prompt()
		if err != nil {
			t.Fatal(err)
		}
		if len(prompt.Contents) == 0 && prompt.System == nil {
			t.Errorf("%s: nothing to send", body)
		}
		if sent := gemini.EncodeRequest(prompt); !json.Valid(sent) {
			t.Errorf("%s becomes %s", body, sent)
		}
		if len(req.Lost()) > 50 {
			t.Errorf("%d notes", len(req.Lost()))
		}
	})
}

// events makes a stream of events out of arbitrary text: each line is one event, its first byte
// decides the kind.
func events(text string) []perigee.Event {
	var list []perigee.Event
	for line := range strings.Lines(text) {
		line = strings.ToValidUTF8(strings.TrimSuffix(line, "\n"), "?") // a provider's chunks have passed the check
		if line == "" {
			continue
		}
		kind, rest := line[0], line[1:]
		candidate := 0
		if strings.HasPrefix(rest, "#") {
			candidate, rest = 1, rest[1:]
		}
		value, signature, _ := strings.Cut(rest, "|")
		ev := perigee.Event{Candidate: candidate, Text: value, Signature: signature, Raw: json.RawMessage(value)}
		switch kind {
		case 's':
			ev.Kind, ev.Model = perigee.EventStart, value
		case 't':
			ev.Kind = perigee.EventText
		case 'k':
			ev.Kind = perigee.EventThinking
		case 'g':
			ev.Kind = perigee.EventSignature
		case 'c':
			name, args, _ := strings.Cut(value, " ")
			ev.Kind, ev.Call = perigee.EventCall, &perigee.FunctionCall{ID: signature, Name: name, Args: json.RawMessage(args)}
		case 'b':
			ev.Kind, ev.Blob = perigee.EventBlob, &perigee.Blob{MIME: signature, Data: value}
		case 'p':
			ev.Kind = perigee.EventPart
		case 'r':
			number, _ := strconv.Atoi(signature)
			ev.Kind, ev.Grounding = perigee.EventGrounding, &perigee.Grounding{Sources: []perigee.Source{{URL: value}}}
			if signature != "" {
				ev.Grounding.Supports = []perigee.Support{{Start: number, End: number + 2, Text: value, Sources: []int64{0, 7, -1}}, {End: 1, Sources: []int64{0}}}
			}
		case 'l':
			probability, _ := strconv.ParseFloat(signature, 64)
			ev.Kind, ev.Logprobs = perigee.EventLogprobs, &perigee.Logprobs{Chosen: []perigee.Token{{Text: value, Logprob: probability}, {}},
				Top: [][]perigee.Token{{{Text: value}, {Text: signature}}}}
			if value == "" {
				ev.Logprobs = &perigee.Logprobs{}
			}
		case 'u':
			ev.Kind, ev.Usage = perigee.EventUsage, &perigee.Usage{Input: int64(len(value)), Output: 1}
		case 'f':
			ev.Kind, ev.Finish = perigee.EventFinish, new(gemini.FinishOf(value))
		default:
			ev.Kind = perigee.EventKind(kind)
		}
		list = append(list, ev)
	}
	return list
}

// Whatever happens in an answer, every frame is a chunk that a client can read, and the whole
// answer is one object that says the same.
func FuzzAnswer(f *testing.F) {
	f.Add("sgemini\nthello|c2ln\nfSTOP\nu12", true, false)
	f.Add("kthink\ng|c2ln\ncread {\"a\":1}|id\ng|late\ncpatch {\"input\":\"x\"}|2\nfSTOP", true, true)
	f.Add("t#two\ntone\nf#MAX_TOKENS\nfSTOP\nbAAAA|image/png\np{\"executableCode\":{\"code\":\"1\"}}", false, false)
	f.Add("tcafé\nru|3\nrfé|-9", true, false)
	f.Add("la|-1e400\nl\nlb|NaN", true, false)
	f.Fuzz(func(t *testing.T, text string, usage, legacy bool) {
		answer := Answer{ID: "chatcmpl-1", Created: 1, Model: "m", Style: &Style{Usage: usage, Functions: legacy, Custom: []string{"patch"}, Cite: true}}
		stream, whole := NewStream(answer), NewCollector(answer)
		var wire []byte
		for _, ev := range events(text) {
			wire = stream.Encode(wire, &ev)
			whole.Add(&ev)
		}
		wire = stream.End(wire)
		said := readChunks(t, string(wire))
		object := readCompletion(t, whole.Bytes())
		for i, content := range object {
			if content != said[i] {
				t.Errorf("choice %d said %q in the stream and %q in one piece", i, said[i], content)
			}
		}
		if failed := stream.Fail(nil, 500, perigee.Errorf(perigee.ClassInternal, "x\ny")); strings.Count(string(failed), "data: ") != 1 {
			t.Errorf("an error is %q", failed)
		}
	})
}

type completion struct {
	Object  string
	Choices []struct {
		Index          int
		Delta, Message struct {
			Role    string
			Content *string
		}
		FinishReason *string `json:"finish_reason"`
	}
}

// readChunks checks the frames of a stream and returns what each choice said.
func readChunks(t *testing.T, wire string) map[int]string {
	t.Helper()
	wire, ok := strings.CutSuffix(wire, "data: [DONE]\n\n")
	if !ok {
		t.Fatalf("no end: %q", wire)
	}
	said, ended := map[int]string{}, map[int]bool{}
	for frame := range strings.SplitSeq(strings.TrimSuffix(wire, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		var chunk completion
		if err := json.Unmarshal([]byte(data), &chunk); !ok || err != nil || chunk.Object != "chat.completion.chunk" || strings.Contains(data, "\n") {
			t.Fatalf("%v in %q", err, frame)
		}
		for _, c := range chunk.Choices {
			_, begun := said[c.Index]
			if !begun && c.Delta.Role != "assistant" {
				t.Errorf("choice %d begins with %s", c.Index, data)
			}
			if ended[c.Index] {
				t.Errorf("choice %d goes on after its end", c.Index)
			}
			if c.Delta.Content != nil {
				said[c.Index] += *c.Delta.Content
			}
			ended[c.Index] = c.FinishReason != nil
		}
	}
	for i := range said {
		if !ended[i] {
			t.Errorf("choice %d has no end", i)
		}
	}
	return said
}

func readCompletion(t *testing.T, body []byte) map[int]string {
	t.Helper()
	var object completion
	if err := json.Unmarshal(body, &object); err != nil || object.Object != "chat.completion" || len(object.Choices) == 0 {
		t.Fatalf("%v in %s", err, body)
	}
	said := map[int]string{}
	for _, c := range object.Choices {
		if c.Message.Role != "assistant" || c.FinishReason == nil {
			t.Errorf("choice %d: %s", c.Index, body)
		}
		if c.Message.Content != nil {
			said[c.Index] = *c.Message.Content
		}
	}
	return said
}
