package simulator

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"perigee/internal/simulator/rules"
)

// question is a request that no check refused, put to the model.
type question struct {
	surface rules.Surface
	model   rules.Model
	parsed  *rules.Parsed
	digest  []byte // of the request; all ids come from it
	signer  signer
	search  bool // the request is a search and nothing else
}

func (s *Server) ask(surface rules.Surface, model rules.Model, parsed *rules.Parsed, body []byte) question {
	h := hmac.New(sha256.New, s.signer.key)
	fmt.Fprintf(h, "question\x00%d\x00%s\x00", surface, model.ID)
	h.Write(canonical(surface, body))
	return question{surface: surface, model: model, parsed: parsed, digest: h.Sum(nil), signer: s.signer}
}

// canonical returns the request without envelope, white space, order of keys and session: a
// session changes the cached tokens, not the answer.
func canonical(surface rules.Surface, body []byte) []byte {
	var request map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&request); err != nil {
		return body
	}
	if surface == rules.V1Internal {
		request, _ = request["request"].(map[string]any)
	}
	delete(request, "sessionId")
	delete(request, "session_id")
	return encode(request)
}

// derive makes bytes that depend on the question and a name only.
func (q question) derive(name string) []byte {
	sum := sha256.Sum256(append([]byte(name+"\x00"), q.digest...))
	return sum[:]
}

func (q question) claude() bool { return q.model.Family == rules.Claude }

func (q question) responseID() string {
	if q.claude() {
		return "msg_vrtx_01" + base62(q.derive("response"), 22)
	}
	return base64.RawURLEncoding.EncodeToString(q.derive("response")[:16])
}

func (q question) traceID() string { return hex.EncodeToString(q.derive("trace")[:16]) }

func (q question) callID(n int) string {
	name := fmt.Sprintf("call %d", n)
	if q.claude() {
		return "toolu_vrtx_01" + base62(q.derive(name), 22)
	}
	return base62(q.derive(name), 8)
}

func base62(b []byte, length int) string {
	text := new(big.Int).SetBytes(b).Text(62)
	return text[:length]
}

// reply is the answer of the model, before it is cut into chunks.
type reply struct {
	candidates []candidate
	delivery   delivery
}

type candidate struct {
	parts         []part
	finish        string
	stop          string // the stop sequence that ended the answer, or ""
	grounding     *grounding
	hiddenThought int // bytes thought but not shown
}

// maxCandidates is the most the official API gives; the private gateway gives one.
const maxCandidates = 8

// compose lets the model answer. Equal questions get equal replies.
func (q question) compose() reply {
	turn := readTurn(q.parsed.Contents)
	var r reply
	var given []directive
	for _, d := range turn.due() {
		if !r.delivery.take(d) {
			given = append(given, d)
		}
	}
	if r.delivery.block != "" {
		return r
	}
	count := 1
	if q.surface != rules.V1Internal {
		count = int(min(max(q.parsed.Config.CandidateCount, 1), maxCandidates))
	}
	for i := range count {
		c := q.candidate(turn, given, r.delivery)
		if i > 0 {
			c.vary(i + 1)
		}
		c.limit(q.parsed.Config)
		if r.delivery.finish != "" {
			c.finish = r.delivery.finish
		}
		q.number(c.parts, i)
		q.sign(c.parts, i)
		r.candidates = append(r.candidates, c)
	}
	return r
}

// candidate returns one answer: by directives, or improvised, after a thought if one is requested.
func (q question) candidate(turn turn, given []directive, d delivery) candidate {
	c := candidate{finish: "STOP"}
	for _, directive := range given {
		q.obey(&c, directive, turn)
	}
	ended := d.finish != "" && d.finish != "STOP" && d.finish != "MAX_TOKENS"
	if len(c.parts) == 0 && brokenOff(d.finish) {
		return c
	}
	hasAnswer := slices.ContainsFunc(c.parts, func(p part) bool { return !p.Thought })
	called := slices.ContainsFunc(c.parts, func(p part) bool { return p.Call != nil })
	// a model that must call a function writes nothing else
	if name := q.forcedCall(); name != "" && hasAnswer && !called && !ended {
		c.parts = slices.DeleteFunc(c.parts, func(p part) bool { return !p.Thought })
		q.call(&c, name, nil)
	}
	if !hasAnswer && !ended {
		q.improvise(&c, turn)
	}
	if !q.thinks() {
		c.parts = slices.DeleteFunc(c.parts, func(p part) bool {
			if p.Thought && q.model.Family != rules.GPTOSS && !q.claude() {
				c.hiddenThought += p.bytes()
			}
			return p.Thought
		})
	} else if len(c.parts) == 0 || !c.parts[0].Thought {
		thought := "The request tells me what to do. I will do that."
		if turn.text != "" {
			thought = fmt.Sprintf("The request says %q. I can answer it directly.", quote(turn.text, 60))
		}
		c.parts = slices.Insert(c.parts, 0, thoughtPart(thought))
	}
	return c
}

// brokenOff reports whether a finish reason means that the model tried to call a function and
// failed: then the content is an empty object, without even a role.
func brokenOff(finish string) bool {
	return finish == "MALFORMED_FUNCTION_CALL" || finish == "UNEXPECTED_TOOL_CALL"
}

// thinks reports whether thoughts are part of the answer. Claude needs a budget for it; Gemini
// thinks unless that is disabled.
func (q question) thinks() bool {
	t := q.parsed.Config.Thinking
	switch q.model.Family {
	case rules.Claude:
		return t.Include && t.Budget != nil && *t.Budget != 0
	case rules.Gemini, rules.Gemini2:
		return t.Include && (t.Budget == nil || *t.Budget != 0)
	case rules.Foreign:
		return t.Include
	}
	return false
}

// vary makes the n-th candidate differ from the first, if it has text to differ in.
func (c *candidate) vary(n int) {
	for i := len(c.parts) - 1; i >= 0; i-- {
		if p := c.parts[i]; p.Text != nil && !p.Thought {
			c.parts[i] = textPart(fmt.Sprintf("%s (%d)", *p.Text, n))
			return
		}
	}
}

// limit cuts the answer at the first stop sequence and at the token limit, thoughts included.
func (c *candidate) limit(config rules.Config) {
	c.stopAt(config.Stop)
	if config.MaxTokens > 0 {
		c.fitInto(int(config.MaxTokens) * bytesPerToken)
	}
}

// stopAt ends the answer before the first of the stop sequences.
func (c *candidate) stopAt(stops []string) {
	for i, p := range c.parts {
		if p.Text == nil || p.Thought {
			continue
		}
		if at, stop := firstStop(*p.Text, stops); at >= 0 {
			c.stop = stop
			c.parts[i] = textPart((*p.Text)[:at])
			c.parts = c.parts[:i+1]
			return
		}
	}
}

// fitInto ends the answer after room bytes. Parts that are not text stay whole or are dropped.
func (c *candidate) fitInto(room int) {
	for i, p := range c.parts {
		if p.bytes() <= room {
			room -= p.bytes()
			continue
		}
		c.finish = "MAX_TOKENS"
		if p.Text != nil {
			c.parts[i].Text = new(strings.ToValidUTF8((*p.Text)[:room], ""))
			i++
		}
		c.parts = c.parts[:i]
		return
	}
}

func firstStop(text string, stops []string) (first int, found string) {
	first = -1
	for _, stop := range stops {
		if at := strings.Index(text, stop); stop != "" && at >= 0 && (first < 0 || at < first) {
			first, found = at, stop
		}
	}
	return first, found
}

// number gives the calls of a candidate their ids.
func (q question) number(parts []part, candidate int) {
	for i := range parts {
		if parts[i].Call != nil {
			parts[i].Call.ID = q.callID(candidate*1000 + i)
		}
	}
}

// sign puts signatures where the family has them. Claude: on each thought (which a stream sends
// after its text). Gemini: on the first call, which newer models sign even when their thoughts are
// not shown; without calls, on the last text.
func (q question) sign(parts []part, candidate int) {
	name := func(i int) string { return fmt.Sprintf("%x/%d/%d", q.digest, candidate, i) }
	switch q.model.Family {
	case rules.Claude:
		for i := range parts {
			if parts[i].Thought {
				parts[i].Signature = q.signer.sign(rules.Claude, name(i))
			}
		}
	case rules.Gemini, rules.Gemini2:
		at := slices.IndexFunc(parts, func(p part) bool { return p.Call != nil })
		if at < 0 && q.thinks() {
			for i, p := range parts {
				if p.Text != nil && !p.Thought {
					at = i
				}
			}
		}
		if at >= 0 && (q.model.Family == rules.Gemini || q.thinks()) {
			parts[at].Signature = q.signer.sign(q.model.Family, name(at))
		}
	}
}
