package roundtrip

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/lib/rawjson"
)

// An answer is what a model says: stretches of thinking and of text, and calls.
type answer struct {
	stretches []stretch
	reason    string
	usage     perigee.Usage
}

// A stretch is one of them, as it comes: in pieces, and perhaps sealed.
type stretch struct {
	kind   perigee.EventKind // EventText, EventThinking or EventCall
	pieces []string
	call   perigee.FunctionCall
	seal   string
	apart  bool // the seal comes as an event of its own
}

func anyAnswer(t *rapid.T) *answer {
	a := &answer{
		reason: rapid.SampledFrom([]string{"STOP", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
			"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR", "JAILBREAK"}).Draw(t, "reason"),
		usage: anyUsage(t),
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "stretches") {
		s := stretch{kind: rapid.SampledFrom([]perigee.EventKind{perigee.EventText, perigee.EventThinking, perigee.EventCall}).Draw(t, "kind")}
		if s.kind == perigee.EventCall {
			s.call = perigee.FunctionCall{ID: fmt.Sprintf("call_%d", i), Name: names.Draw(t, "name")}
			if rapid.IntRange(0, 4).Draw(t, "arguments") > 0 {
				s.call.Args = json.RawMessage(anyObject(t, 2))
			}
		} else {
			s.pieces = rapid.SliceOfN(texts, 1, 3).Draw(t, "pieces")
		}
		if rapid.Bool().Draw(t, "sealed") {
			s.seal = fmt.Sprintf("seal%d/+=", i)
			s.apart = s.kind != perigee.EventCall && rapid.Bool().Draw(t, "apart")
		}
		a.stretches = append(a.stretches, s)
	}
	return a
}

func anyUsage(t *rapid.T) perigee.Usage {
	u := perigee.Usage{Input: rapid.Int64Range(1, 1<<40).Draw(t, "input"), Output: rapid.Int64Range(1, 1<<40).Draw(t, "output")}
	u.Cached = rapid.Int64Range(0, u.Input).Draw(t, "cached")
	u.Thinking = rapid.Int64Range(0, u.Output).Draw(t, "thinking")
	return u
}

// events are the answer as an upstream tells it, with usage wherever it may come.
func (a *answer) events(t *rapid.T) []perigee.Event {
	list := []perigee.Event{{Kind: perigee.EventStart, Upstream: "u", Model: "m", ResponseID: "r"}}
	for i := range a.stretches {
		s := &a.stretches[i]
		if rapid.IntRange(0, 3).Draw(t, "aside") == 0 {
			early := anyUsage(t)
			list = append(list, perigee.Event{Kind: perigee.EventUsage, Usage: &early})
		}
		for _, piece := range s.pieces {
			list = append(list, perigee.Event{Kind: s.kind, Text: piece, Thought: s.kind == perigee.EventThinking})
		}
		if s.kind == perigee.EventCall {
			for _, piece := range anyPieces(t, string(s.call.Args)) {
				list = append(list, perigee.Event{Kind: perigee.EventCallPart, Text: piece, Call: &perigee.FunctionCall{ID: s.call.ID, Name: s.call.Name}})
			}
			list = append(list, perigee.Event{Kind: s.kind, Call: &s.call})
		}
		switch {
		case s.seal != "" && s.apart:
			list = append(list, perigee.Event{Kind: perigee.EventSignature, Signature: s.seal})
		case s.seal != "":
			list[len(list)-1].Signature = s.seal
		}
	}
	for i := range list {
		list[i].More = rapid.Bool().Draw(t, "more")
	}
	return append(list, perigee.Event{Kind: perigee.EventUsage, Usage: &a.usage},
		perigee.Event{Kind: perigee.EventFinish, Finish: new(gemini.FinishOf(a.reason))})
}

// anyPieces are arguments as a provider streams them, perhaps with empty pieces, or none.
func anyPieces(t *rapid.T, args string) (list []string) {
	if rapid.Bool().Draw(t, "whole") {
		return nil
	}
	for args != "" {
		n := rapid.IntRange(0, min(len(args), 9)).Draw(t, "length")
		for n < len(args) && !utf8.RuneStart(args[n]) {
			n++
		}
		list, args = append(list, args[:n]), args[n:]
	}
	return append(list, "")
}

// A reading is what a client makes of an answer.
type reading struct {
	blocks   []block
	finish   string // calls, length, filtered or stop
	usage    perigee.Usage
	finished bool
}

// A block is a stretch as the client sees it.
type block struct {
	kind           perigee.EventKind
	text           string
	id, name, args string
}

// addText adds a text or a thought to the block that is open.
func (r *reading) addText(kind perigee.EventKind, text string) {
	if text == "" {
		return
	}
	if n := len(r.blocks); n > 0 && r.blocks[n-1].kind == kind && kind != perigee.EventCall {
		r.blocks[n-1].text += text
		return
	}
	r.blocks = append(r.blocks, block{kind: kind, text: text})
}

func (r *reading) call(id, name, args string) {
	if args == "" {
		args = "{}"
	}
	r.blocks = append(r.blocks, block{kind: perigee.EventCall, id: id, name: name, args: compact(args)})
}

// String has the blocks in their order.
func (r *reading) String() string {
	return fmt.Sprintf("%+v\n%s %v %+v", r.blocks, r.finish, r.finished, r.usage)
}

// sorted has all thinking, all text and all calls, for a dialect with a place for each.
func (r *reading) sorted() string {
	var thinking, text, calls strings.Builder
	for _, b := range r.blocks {
		switch b.kind {
		case perigee.EventThinking:
			thinking.WriteString(b.text)
		case perigee.EventText:
			text.WriteString(b.text)
		default:
			fmt.Fprintf(&calls, "%+v", b)
		}
	}
	return fmt.Sprintf("%q %q %s\n%s %v %+v", thinking.String(), text.String(), calls.String(), r.finish, r.finished, r.usage)
}

// reading is what every client should make of the answer.
func (a *answer) reading() *reading {
	r := &reading{usage: a.usage, finished: true}
	called := false
	for i := range a.stretches {
		s := &a.stretches[i]
		if s.kind == perigee.EventCall {
			r.call(s.call.ID, s.call.Name, string(s.call.Args))
			called = true
			continue
		}
		r.addText(s.kind, strings.Join(s.pieces, ""))
	}
	switch {
	case called:
		r.finish = "calls"
	case a.reason == "STOP":
		r.finish = "stop"
	case a.reason == "MAX_TOKENS":
		r.finish = "length"
	default:
		r.finish = "filtered"
	}
	return r
}

type (
	stream interface {
		Encode(dst []byte, ev *perigee.Event) []byte
		End(dst []byte) []byte
	}
	collector interface {
		Add(ev *perigee.Event)
		Bytes() []byte
	}
)

// A codec writes an answer in a dialect, and reads it as its clients do.
type codec struct {
	name       string
	encoders   func(t *rapid.T) (stream, collector)
	readStream func(t *rapid.T, wire []byte) *reading
	readWhole  func(t *rapid.T, body []byte) *reading
	unordered  bool // the wire has one place for all text, one for all calls

	streamsCalls bool // the arguments of calls come in pieces

	// next writes the request in which a client sends the answer back unchanged.
	next func(t *rapid.T, body []byte, a *answer) []byte
}

var (
	epoch = time.Unix(1_700_000_000, 0)
	clock = func() time.Time { return epoch }
)

var codecs = []codec{
	{name: "chat", streamsCalls: true, unordered: true, readStream: readChatStream, readWhole: readChatWhole, next: nextChat,
		encoders: func(*rapid.T) (stream, collector) {
			answer := chat.Answer{ID: "chatcmpl-1", Model: "m", Style: &chat.Style{Usage: true}}
			return chat.NewStream(answer), chat.NewCollector(answer)
		}},
	{name: "responses", streamsCalls: true, readStream: readResponsesStream, readWhole: readResponsesWhole, next: nextResponses,
		encoders: func(t *rapid.T) (stream, collector) {
			req, err := responses.DecodeRequest(perigee.Origin{Body: []byte(`{"model":"m","input":"hi","store":false,"reasoning":{"summary":"auto"}}`)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return req.NewStream("1", epoch, clock), req.NewCollector("1", epoch, clock)
		}},
	{name: "anthropic", streamsCalls: true, readStream: readAnthropicStream, readWhole: readAnthropicWhole, next: nextAnthropic,
		encoders: func(*rapid.T) (stream, collector) {
			answer := &anthropic.Answer{ID: "1", Model: "m", Thinking: anthropic.DisplayFull}
			return anthropic.NewStream(answer), anthropic.NewCollector(answer)
		}},
	{name: "gemini", readStream: readGeminiStream, readWhole: readGeminiWhole, next: nextGemini,
		encoders: func(*rapid.T) (stream, collector) { return &gemini.Stream{SSE: true}, &gemini.Collector{} }},
}

// One answer reads the same in every dialect, piece by piece and whole.
func TestOneAnswerInEveryDialect(t *testing.T) {
	for _, codec := range codecs {
		t.Run(codec.name, rapid.MakeCheck(func(t *rapid.T) {
			a := anyAnswer(t)
			wire, body := codec.encode(t, a.events(t))
			view := (*reading).String
			if codec.unordered {
				view = (*reading).sorted
			}
			want := view(a.reading())
			if got := view(codec.readStream(t, wire)); got != want {
				t.Fatalf("the stream\n%s\nreads\n%s\nfor\n%s", wire, got, want)
			}
			if got := view(codec.readWhole(t, body)); got != want {
				t.Fatalf("the whole\n%s\nreads\n%s\nfor\n%s", body, got, want)
			}
		}))
	}
}

func (to *codec) encode(t *rapid.T, events []perigee.Event) (wire, body []byte) {
	stream, collector := to.encoders(t)
	started := false // before that, an encoder may wait for the end of a chunk
	for i := range events {
		before := len(wire)
		wire = stream.Encode(wire, &events[i])
		collector.Add(&events[i])
		if ev := &events[i]; ev.Kind == perigee.EventCallPart && ev.Text != "" && to.streamsCalls && len(wire) == before && started {
			t.Fatalf("the piece %q is not sent", ev.Text)
		}
		started = started || len(wire) > 0
	}
	return stream.End(wire), collector.Bytes()
}

// A client that sends an answer back unchanged gives the model its calls back, with their ids,
// their arguments and the seals on them.
func TestAnswersComeBackWithTheirSeals(t *testing.T) {
	for i, codec := range codecs {
		d := &dialects[i]
		t.Run(codec.name, rapid.MakeCheck(func(t *rapid.T) {
			a := anyAnswer(t)
			_, body := codec.encode(t, a.events(t))
			request := codec.next(t, body, a)
			req, err := d.read(perigee.Origin{ID: "2", Body: request})
			if err != nil {
				t.Fatalf("%v in %s", err, request)
			}
			prompt, err := req.Prompt()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := callsOf(prompt), a.calls(); got != want {
				t.Fatalf("%s\ngives back\n%s\nfor\n%s", request, got, want)
			}
			if got, want := sealedThoughts(prompt), a.sealedThoughts(); got != want && !codec.unordered {
				t.Fatalf("%s\ngives back the thoughts\n%s\nfor\n%s", request, got, want)
			}
		}))
	}
}

func (a *answer) calls() string {
	var b strings.Builder
	for i := range a.stretches {
		if s := &a.stretches[i]; s.kind == perigee.EventCall {
			writeCall(&b, &s.call, s.seal)
		}
	}
	return b.String()
}

func callsOf(p *perigee.Prompt) string {
	var b strings.Builder
	for _, content := range p.Contents {
		for i := range content.Parts {
			if part := &content.Parts[i]; part.Kind == perigee.PartCall {
				writeCall(&b, part.Call, part.Signature)
			}
		}
	}
	return b.String()
}

// sealedThoughts are what the model can think on from. Thinking goes on until it is sealed or
// something else is said.
func (a *answer) sealedThoughts() string {
	var b, thought strings.Builder
	for i := range a.stretches {
		s := &a.stretches[i]
		if s.kind != perigee.EventThinking {
			thought.Reset()
			continue
		}
		thought.WriteString(strings.Join(s.pieces, ""))
		if s.seal != "" {
			fmt.Fprintf(&b, "%q sealed %s\n", thought.String(), s.seal)
			thought.Reset()
		}
	}
	return b.String()
}

func sealedThoughts(p *perigee.Prompt) string {
	var b strings.Builder
	for _, content := range p.Contents {
		for _, part := range content.Parts {
			if part.Thought && part.Signature != "" {
				fmt.Fprintf(&b, "%q sealed %s\n", rawjson.Unescaped(part.Text.Form()), part.Signature)
			}
		}
	}
	return b.String()
}

func writeCall(b *strings.Builder, call *perigee.FunctionCall, seal string) {
	args := string(call.Args)
	if args == "" {
		args = "{}"
	}
	fmt.Fprintf(b, "%s %s %s sealed %s\n", call.ID, call.Name, compact(args), seal)
}
