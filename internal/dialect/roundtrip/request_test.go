package roundtrip

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/lib/rawjson"
)

// A dialect is how a conversation gets from its wire into perigee's words, and what the wire has no
// room for.
type dialect struct {
	name    string
	write   func(*conversation) []byte
	read    func(perigee.Origin) (*perigee.Request, error)
	noError bool // results cannot say that they are errors
	noStop  bool // there are no stop sequences
}

var dialects = []dialect{
	{name: "chat", write: (*conversation).asChat, noError: true, read: func(o perigee.Origin) (*perigee.Request, error) {
		req, err := chat.DecodeRequest(o)
		if err != nil {
			return nil, err
		}
		return req.Request, nil
	}},
	{name: "responses", write: (*conversation).asResponses, noError: true, noStop: true, read: func(o perigee.Origin) (*perigee.Request, error) {
		req, err := responses.DecodeRequest(o, nil)
		if err != nil {
			return nil, err
		}
		return req.Request, nil
	}},
	{name: "anthropic", write: (*conversation).asAnthropic, read: func(o perigee.Origin) (*perigee.Request, error) {
		req, _, err := anthropic.DecodeRequest(o)
		return req, err
	}},
	{name: "gemini", write: (*conversation).asGemini, read: func(o perigee.Origin) (*perigee.Request, error) {
		return gemini.DecodeRequest(o, "m", false)
	}},
}

// TestEveryDialectIsCompared fails for a package with a decoder of requests that is not in the
// tables of this package.
func TestEveryDialectIsCompared(t *testing.T) {
	var found []string
	for _, pattern := range []string{"../*/*.go", "../*/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "\nfunc DecodeRequest(") {
				found = append(found, filepath.Base(filepath.Dir(file)))
			}
		}
	}
	slices.Sort(found)
	var read, written []string
	for i := range dialects {
		read, written = append(read, dialects[i].name), append(written, codecs[i].name)
	}
	if !slices.Equal(read, written) {
		t.Errorf("dialects has %q, and codecs %q: their order is the same", read, written)
	}
	collected := slices.Sorted(maps.Keys(wholeAnswers(t)))
	if slices.Sort(read); !slices.Equal(read, found) || !slices.Equal(collected, found) {
		t.Errorf("found the dialects %q; dialects has %q, and wholeAnswers %q", found, read, collected)
	}
}

// One conversation, written in any dialect, is the same to the model, and stays so on the
// provider's wire.
func TestOneConversationInEveryDialect(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, rapid.MakeCheck(func(t *rapid.T) {
			c := anyConversation(t)
			body := d.write(c)
			if rapid.Bool().Draw(t, "indented") {
				var b bytes.Buffer
				if err := json.Indent(&b, body, "", "  "); err != nil {
					t.Fatal(err)
				}
				body = b.Bytes()
			}
			want := c.portrait(&d)
			prompt := decode(t, &d, body)
			if got := portrait(prompt, &d); got != want {
				t.Fatalf("%s\nbecame %s", body, difference(got, want))
			}
			wire := gemini.EncodeRequest(prompt)
			again, err := gemini.DecodePrompt(wire)
			if err != nil {
				t.Fatalf("%v in %s", err, wire)
			}
			if got := portrait(again, &d); got != want {
				t.Fatalf("%s\nbecame on the way there and back %s", wire, difference(got, want))
			}
			if twice := gemini.EncodeRequest(again); !bytes.Equal(twice, wire) {
				t.Fatalf("%s\nis at second sight\n%s", wire, twice)
			}
		}))
	}
}

func decode(t *rapid.T, d *dialect, body []byte) *perigee.Prompt {
	req, err := d.read(perigee.Origin{ID: "1", Body: body})
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	prompt, err := req.Prompt()
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	// All of this can be carried over, so nothing may have been lost. Only Anthropic's API demands
	// a limit.
	for _, n := range req.Lost() {
		if d.name != "anthropic" || !strings.HasPrefix(n.Subject, "max_tokens ") || prompt.Generation.MaxOutputTokens != nil {
			t.Fatalf("%v about %s", req.Lost(), body)
		}
	}
	return prompt
}

// difference shows the first lines that two portraits do not share.
func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("in line %d\n%s\nfor\n%s\nin all\n%s\nfor\n%s", i, g[i], w[i], got, want)
		}
	}
	return fmt.Sprintf("of other length\n%s\nfor\n%s", got, want)
}

// A portraitist writes a conversation down, a line for each thing in it, so that two of them can be
// compared.
type portraitist struct{ strings.Builder }

func (p *portraitist) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *portraitist) piece(role string, x piece) {
	if x.mime == "" {
		p.line("%s says %q", role, x.text)
	} else {
		p.line("%s shows %s %s", role, x.mime, x.data)
	}
}

// result is what a tool answered. A dialect without errors has only the words.
func (p *portraitist) result(id, name, text string, failed bool, d *dialect) {
	p.line("result of %s %s (error %v): %q", id, name, failed && !d.noError, text)
}

func (p *portraitist) settings(s *settings, d *dialect) {
	p.line("temperature %s, top p %s, limit %s", show(s.temperature), show(s.topP), show(s.limit))
	if !d.noStop {
		p.line("stop %q", s.stop)
	}
	p.line("answer as %s", compact(s.schema))
}

func show[T any](v *T) string {
	if v == nil {
		return "unset"
	}
	return fmt.Sprint(*v)
}

// compact is JSON without white space: numbers and escapes stay as they are.
func compact(text string) string {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		return text
	}
	return b.String()
}

// portrait is what the model should get to see of a conversation.
func (c *conversation) portrait(d *dialect) string {
	var p portraitist
	for _, text := range c.system {
		p.line("system %q", text)
	}
	for i := range c.rounds {
		r := &c.rounds[i]
		for _, message := range r.said {
			for _, x := range message {
				p.piece("user", x)
			}
		}
		if r.text != "" {
			p.piece("model", piece{text: r.text})
		}
		for _, call := range r.calls {
			p.line("model calls %s %s %s", call.id, call.name, compact(call.args))
		}
		for _, call := range r.calls {
			p.result(call.id, call.name, call.result.text(), call.result.failed, d)
			for _, x := range call.result.files {
				p.piece("tool", x)
			}
		}
	}
	for _, t := range c.tools {
		p.line("tool %s %q %s", t.name, t.description, compact(t.schema))
	}
	switch c.choice {
	case "", "auto":
		p.line("choice AUTO []")
	case "any", "none":
		p.line("choice %s []", strings.ToUpper(c.choice))
	default:
		p.line("choice ANY [%s]", c.choice)
	}
	p.settings(&c.settings, d)
	return p.String()
}

// portrait is what a prompt tells the model.
func portrait(prompt *perigee.Prompt, d *dialect) string {
	var p portraitist
	if prompt.System != nil {
		for _, part := range prompt.System.Parts {
			p.line("system %q", rawjson.Unescaped(part.Text.Form()))
		}
	}
	for _, content := range prompt.Contents {
		for i := range content.Parts {
			p.part(content.Role, &content.Parts[i], d)
		}
	}
	for _, t := range prompt.Tools {
		if t.Function == nil || !t.Function.JSONSchema {
			p.line("a tool that is no function with a schema: %+v", t)
			continue
		}
		p.line("tool %s %q %s", t.Function.Name, t.Function.Description, compact(string(t.Function.Parameters)))
	}
	choice := perigee.ToolConfig{Mode: perigee.ToolModeAuto}
	if prompt.ToolConfig != nil && prompt.ToolConfig.Mode != "" {
		choice = *prompt.ToolConfig
	}
	p.line("choice %s %s", choice.Mode, choice.Allowed)
	g := prompt.Generation
	p.settings(&settings{temperature: g.Temperature, topP: g.TopP, limit: g.MaxOutputTokens, stop: g.Stop, schema: string(g.ResponseJSON)}, d)
	if (g.ResponseMIME == "application/json") != (g.ResponseJSON != nil) || g.Thinking != nil || len(g.Extra) > 0 || len(prompt.Extra) > 0 {
		p.line("more than was asked: %+v %+v", g, prompt.Extra)
	}
	return p.String()
}

func (p *portraitist) part(role string, part *perigee.Part, d *dialect) {
	if len(part.Extra) > 0 || part.Signature != "" || part.Thought {
		p.line("a part with more than was said: %+v", part)
	}
	switch part.Kind {
	case perigee.PartText:
		p.piece(role, piece{text: rawjson.Unescaped(part.Text.Form())})
		if part.Text.Empty() {
			p.line("an empty text")
		}
	case perigee.PartBlob:
		p.piece(role, piece{mime: part.Blob.MIME, data: part.Blob.Data})
	case perigee.PartCall:
		p.line("%s calls %s %s %s", role, part.Call.ID, part.Call.Name, compact(string(part.Call.Args)))
	case perigee.PartResponse:
		var response struct {
			Output *string `json:"output"`
			Error  *string `json:"error"`
		}
		if err := json.Unmarshal(part.Response.Object(), &response); err != nil || role != perigee.RoleUser {
			p.line("a result of %s that is none: %s", role, part.Response.Object())
			return
		}
		switch {
		case response.Output != nil && response.Error == nil:
			p.result(part.Response.ID, part.Response.Name, *response.Output, false, d)
		case response.Error != nil && response.Output == nil:
			p.result(part.Response.ID, part.Response.Name, *response.Error, true, d)
		default:
			p.line("a result without its words: %s", part.Response.Object())
		}
		for i := range part.Response.Media {
			p.part("tool", &part.Response.Media[i], d)
		}
	default:
		p.line("a part of kind %s", strconv.Itoa(int(part.Kind)))
	}
}
