package anthropic

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// A Display is how much of the model's thinking a client wants to see.
type Display uint8

// The displays.
const (
	DisplayDefault Display = iota // unspecified: thinking is shown if there is any
	DisplayFull                   // it asked for thinking
	DisplayOmitted                // it asked for thinking, and for its signatures only
	DisplayNone                   // it asked for no thinking
)

// An Answer has the settings of an encoder that depend on the request. Decoding sets the members of
// the request; the caller sets the rest.
type Answer struct {
	ID       string // of the call; ids of messages and of server tools are made from it
	Model    string // the requested model, if the upstream does not name the one that answers
	Thinking Display

	// SaveImage stores a generated image or audio, and returns its URL. If it is nil, the link is a
	// data URL.
	SaveImage func(mime, base64 string) (url string)
}

// DecodeRequest reads the body of /v1/messages. The conversation is decoded when Prompt is called,
// because a provider of this API gets the body unread. Changes and omissions are in Lost of the
// prompt; errors are of class invalid and name the field.
func DecodeRequest(origin perigee.Origin) (*perigee.Request, *Answer, error) {
	return read(origin, false)
}

// DecodeCount reads the body of /v1/messages/count_tokens.
func DecodeCount(origin perigee.Origin) (*perigee.Request, error) {
	req, _, err := read(origin, true)
	return req, err
}

// read reads the members that perigee needs for every request.
func read(origin perigee.Origin, count bool) (*perigee.Request, *Answer, error) {
	doc, err := rawjson.Open(origin.Body, nil)
	if err != nil {
		return nil, nil, invalid("invalid JSON: " + err.Error())
	}
	if err := doc.Count.Err(len(origin.Body)); err != nil {
		return nil, nil, invalid(err.Error()).WithHint("join small blocks and messages, or send less")
	}
	c := doc.Cursor()
	if got := c.Kind(); got != rawjson.Object { // null would pass for an empty one
		return nil, nil, invalid("the body is " + got.String() + ", not an object")
	}
	d, stops := decoder{doc: doc}, false
	c.Read(func([]byte) {}, "model", &d.model, "stream", &d.stream,
		"thinking", func() { d.readThinking(c) }, "stop_sequences", func() { stops = !emptyList(c) },
		"messages", func() { d.checkMedia(c, "messages") }, "system", func() { d.checkMedia(c, "system") },
		"metadata", func() { c.Read(func([]byte) {}, "user_id", func() { d.session = sessionOf(c.String()) }) })
	if err := d.failure(c); err != nil {
		return nil, nil, err
	}
	origin.Dialect = perigee.DialectAnthropic
	if d.session != "" && origin.Client.Session == "" {
		origin.Client.Session = d.session
	}
	if d.thinking.kind == "disabled" {
		d.display = DisplayNone
	}
	answer := &Answer{ID: origin.ID, Model: d.model, Thinking: d.display}
	req := perigee.NewRequest(origin, d.model, d.stream, func() (*perigee.Prompt, error) { return readPrompt(doc, count) })
	req.ReportStopSequence, req.Index = stops, doc
	return req, answer, nil
}

// checkMedia refuses media that are files of the provider's machine. The names of members with
// addresses end in url in this API: a conversation without such a name, and without escapes that a
// name may have, is not read.
func (d *decoder) checkMedia(c *rawjson.Cursor, member string) {
	raw := c.Raw()
	for piece := range d.doc.Short(raw) {
		if !bytes.Contains(piece, []byte(`url"`)) && !bytes.Contains(piece, []byte(`\u00`)) {
			continue
		}
		if path, err := dialect.CheckParts(d.doc.Value(raw)); err != nil {
			d.fail(invalid(member + path + ": " + err.Error()))
		}
		return
	}
}

// readPrompt reads the conversation.
func readPrompt(doc *rawjson.Document, count bool) (*perigee.Prompt, error) {
	d := decoder{doc: doc, count: count, turns: dialect.Builder{JoinAfterCalls: true}}
	c := doc.Cursor()
	d.request(c)
	if err := d.failure(c); err != nil {
		return nil, err
	}
	if err := d.finish(); err != nil {
		return nil, err
	}
	d.prompt.Dialect, d.prompt.Lost = perigee.DialectAnthropic, d.notes.List()
	return new(d.prompt), nil // not the decoder's own, which would keep all of it alive
}

// Stop sequences are not sent to the provider: perigee compares each byte of the answer with each
// sequence, so they are limited, far beyond real use.
const (
	maxStops     = 64
	maxStopBytes = 16 << 10 // together
)

// stopSequences reads the texts at which the answer ends.
func (d *decoder) stopSequences(c *rawjson.Cursor) {
	bytes := 0
	for i := range c.Array() {
		s := c.String()
		if bytes += len(s); i == maxStops || bytes > maxStopBytes {
			d.fail(invalid(fmt.Sprintf("stop_sequences: there are more than %d, or they are longer than %d bytes together",
				maxStops, maxStopBytes)))
			return
		}
		d.prompt.Generation.Stop = append(d.prompt.Generation.Stop, s)
	}
}

func invalid(message string) *perigee.Error {
	return &perigee.Error{Class: perigee.ClassInvalid, Message: message}
}

// fieldName returns the first bytes of a name that a client chose, for errors and notes.
func fieldName(name []byte) string { return perigee.Clip(string(name), 60) }

// A decoder reads one request. The first thing that is wrong ends up in err or in the cursor's own
// error, after which everything else is read past.
type decoder struct {
	doc      *rawjson.Document
	prompt   perigee.Prompt
	notes    perigee.Notes
	err      *perigee.Error
	count    bool // of tokens: nothing is to be answered
	model    string
	session  string
	stream   bool
	messages bool // there was a member of this name

	thinking thinking
	display  Display
	effort   string
	choice   choice
	named    []string        // the names of all tools, the server's included
	removed  map[string]bool // tools that the conversation withdrew
	unknown  *perigee.Error  // for the first block of an unknown type

	system  []perigee.Part // of the request
	passing []passing
	turns   dialect.Builder
	parts   []perigee.Part // of the message being read; reused for the next
	at      place

	lastUser int // the index of the last message of the user
}

func (d *decoder) failure(c *rawjson.Cursor) error {
	if d.err != nil {
		return d.err
	}
	if err := c.Err(); err != nil {
		return invalid(err.Error())
	}
	return nil
}

func (d *decoder) fail(e *perigee.Error) {
	if d.err == nil {
		d.err = e
	}
}

// request reads the members of the body. A null is a member that is not there, everywhere in this
// API.
func (d *decoder) request(c *rawjson.Cursor) {
	g := &d.prompt.Generation
	ignored := func() {}
	unlessEmpty := func(name string) func() {
		return func() {
			if c.Kind() != rawjson.Array || !emptyList(c) {
				d.notes.Dropped(name)
			}
		}
	}
	c.Read(dialect.RestPresent(c, &d.notes, ""),
		"model", &d.model,
		"messages", func() { d.readMessages(c) },
		"system", func() { d.readSystem(c) },
		"tools", func() {
			for range c.Array() {
				d.prompt.Tools, d.named = rawjson.Reserve(c, d.prompt.Tools), rawjson.Reserve(c, d.named)
				d.tool(c)
			}
		},
		"tool_choice", func() { d.toolChoice(c) },

		"max_tokens", func() {
			n := c.Int64()
			if n < 1 && c.Err() == nil {
				d.fail(invalid("max_tokens: want at least 1, found " + strconv.FormatInt(n, 10)))
			}
			g.MaxOutputTokens = &n
		},
		"temperature", &g.Temperature, "top_p", &g.TopP, "top_k", &g.TopK,
		"stop_sequences", func() { d.stopSequences(c) },
		"thinking", func() { d.readThinking(c) },
		"output_config", func() { d.outputConfig(c) }, "output_format", func() { d.outputFormat(c, "output_format") },
		"stream", &d.stream,

		// The rest is about Anthropic's service and not about the answer.
		"metadata", func() { c.Read(d.notes.Rest("metadata."), "user_id", func() { d.session = sessionOf(c.String()) }) },
		"cache_control", func() { d.prompt.Cache = dialect.ReadCacheMark(c) }, "betas", ignored, "service_tier", &g.ServiceTier, "user_profile_id", ignored, "workspace_id", ignored,
		"context_management", func() { d.contextManagement(c) },
		"speed", func() {
			if string(c.Bytes()) != "standard" {
				d.notes.Dropped("speed")
			}
		},
		"mcp_servers", unlessEmpty("mcp_servers"), "fallbacks", unlessEmpty("fallbacks"),
		"thread", func() { d.fail(threadRefused()) },
		"compaction", func() { d.fail(invalid("compaction: not supported").WithHint("send the conversation without it")) })
}

func (d *decoder) readMessages(c *rawjson.Cursor) {
	d.messages = true
	for i := range c.Array() {
		if d.err != nil {
			break
		}
		d.turns.Contents, d.passing = rawjson.Reserve(c, d.turns.Contents), rawjson.Reserve(c, d.passing)
		d.message(c, i)
	}
	for _, p := range d.passing {
		if p.message > d.lastUser {
			d.turns.InstructionPart(perigee.RoleSystem, p.part)
		}
	}
	d.turns.Close()
	d.prompt.Contents = d.turns.Contents
}

// readSystem reads the system prompt: a text, or blocks of text.
func (d *decoder) readSystem(c *rawjson.Cursor) {
	if c.Kind() == rawjson.String {
		d.system = appendText(d.system, perigee.Escaped(c.Inside()))
		return
	}
	for range c.Array() {
		d.system = rawjson.Reserve(c, d.system)
		var cache *perigee.CacheMark
		for key := range c.Object() {
			switch string(key) {
			case "text":
				d.system = appendText(d.system, perigee.Escaped(c.Inside()))
			case "type":
				if kind := c.Bytes(); string(kind) != "text" {
					d.notes.Unknown("system[] ", kind)
				}
			case "cache_control":
				cache = dialect.ReadCacheMark(c)
			case "citations":
			default:
				d.notes.Unknown("system[].", key)
			}
		}
		if n := len(d.system); cache != nil && n > 0 {
			d.system[n-1].Cache = cache
		}
	}
}

func emptyList(c *rawjson.Cursor) bool {
	empty := true
	for range c.Array() {
		empty = false
	}
	return empty
}

// contextManagement notes edits that would change the conversation. Clearing old thinking does not:
// the provider keeps no more of it than it needs.
func (d *decoder) contextManagement(c *rawjson.Cursor) {
	c.Read(d.notes.Rest("context_management."), "edits", func() {
		for range c.Array() {
			for key := range c.Object() {
				if string(key) != "type" {
					continue
				}
				if kind := c.Bytes(); !strings.HasPrefix(string(kind), "clear_thinking_") { // null as well
					d.notes.Unknown("context_management.edits[] ", kind)
				}
			}
		}
	})
}

// maxSession is the maximum length of a client's name for its conversation.
const maxSession = 128

// sessionOf finds the conversation in a user_id. Claude Code puts it there as JSON, older versions
// of it at the end of a longer name; for other clients it is the whole user_id.
func sessionOf(user string) string {
	if strings.HasPrefix(user, "{") && rawjson.Check([]byte(user)) == nil {
		c := rawjson.NewCursor([]byte(user))
		for key := range c.Object() {
			if string(key) == "session_id" && c.Kind() == rawjson.String {
				user = c.String()
			}
		}
	} else if i := strings.LastIndex(user, "_session_"); i >= 0 {
		user = user[i+len("_session_"):]
	}
	if len(user) > maxSession {
		user = strings.ToValidUTF8(user[:maxSession], "")
	}
	return user
}

// finish sets the fields that depend on several members.
func (d *decoder) finish() error {
	if !d.messages {
		return invalid("messages: Field required")
	}
	if !slices.ContainsFunc(d.prompt.Contents, func(c perigee.Content) bool { return !c.Instructs() }) {
		if d.unknown != nil {
			return d.unknown
		}
		return invalid("messages: at least one message with content is required")
	}
	if len(d.system) > 0 {
		d.prompt.System = &perigee.Content{Parts: d.system}
	}
	d.finishTools()
	d.finishThinking()
	if d.err != nil {
		return d.err
	}
	if d.prompt.Generation.MaxOutputTokens == nil && !d.count {
		d.notes.Mapped("max_tokens to the limit of the model")
	}
	return nil
}

func appendText(parts []perigee.Part, text perigee.Text) []perigee.Part {
	if text.Empty() {
		return parts // the provider refuses parts with nothing in them, and nothing is lost
	}
	return append(parts, perigee.Part{Kind: perigee.PartText, Text: text})
}
