package thoughtsig

import (
	"encoding/json"
	"fmt"

	"perigee"
	"perigee/internal/adapt/models"
)

// A watch follows one answer and remembers the reasoning in it.
type watch struct {
	memory     *Memory
	scope      *scope
	call       string // the id of the request
	forwarded  bool   // the client gets the provider's own ids of calls
	returned   bool   // the client has a field for each signature: only their provider is remembered
	unsigned   bool   // a first call without a signature gets the one that Gemini takes instead
	calls      int
	ids        map[string]bool // of the calls of the answer so far
	open       map[int]string  // by candidate: the id of a call of which only pieces have passed
	candidates []candidate
}

// A candidate is one of the answers. It is a sequence of blocks: thinking, text and calls.
type candidate struct {
	kind      perigee.EventKind // of the open block; 0 if there is none
	id        string            // of the open call
	signature string            // that came with the open block
	block     textDigest        // its text, from the second block of a kind on
	whole     [2]joined         // all text and all thinking, which some clients join
	thinking  thinking          // whole, for providers that require it so
	calls     []string          // the ids of its calls so far
}

// A joined is all text of one kind. While there is only one block, it is also the text of that
// block.
type joined struct {
	digest    textDigest
	blocks    int
	signature string // the last signature of any of the text
}

// observe remembers the reasoning of an event, and assigns an id to a call that has none.
func (w *watch) observe(ev *perigee.Event) {
	w.remember(ev)
	if w.unsigned && ev.Kind == perigee.EventCall && ev.Signature == "" && w.calls == 1 {
		ev.Signature = models.Sentinel
	}
}

func (w *watch) remember(ev *perigee.Event) {
	switch ev.Kind {
	case perigee.EventCallPart:
		w.number(ev)
		return
	case perigee.EventCall:
		w.number(ev)
	case perigee.EventFinish:
		w.ids = nil
	case perigee.EventText, perigee.EventThinking, perigee.EventSignature, perigee.EventRedacted:
	default:
		return
	}
	if w.scope.Provider == "" || ev.Candidate < 0 || ev.Candidate >= maxCandidates {
		return
	}
	for len(w.candidates) <= ev.Candidate {
		w.candidates = append(w.candidates, candidate{})
	}
	c := &w.candidates[ev.Candidate]
	switch ev.Kind {
	case perigee.EventFinish:
		w.finish(c)
		w.seal(c, ev.Signature)
		return
	case perigee.EventCall:
		if ev.Call == nil {
			return
		}
		w.close(c)
		c.kind, c.id = ev.Kind, ev.Call.ID
		c.calls = append(c.calls, c.id)
		if len(c.thinking.value) > 0 {
			c.thinking.remember(w.memory, w.scope.thoughtsKey(c.id), w.scope.Provider)
		}
	case perigee.EventText, perigee.EventThinking:
		w.text(c, ev)
	case perigee.EventRedacted:
		w.redacted(c, ev.Signature)
		return
	}
	if ev.Signature != "" {
		w.addSignature(c, ev.Signature)
	}
}

// redacted remembers thinking that only its provider can read.
func (w *watch) redacted(c *candidate, data string) {
	w.close(c)
	if data == "" || !storable(data) {
		return
	}
	w.memory.put(signatureKey(data), "", w.scope.Provider)
	if w.scope.Form == perigee.ReasoningInBlocks {
		c.thinking.redact(data)
	}
}

// seal remembers reasoning that comes with the end of an answer and is not shown to clients of other
// dialects, under all calls of the answer, and the provider of what is sealed in it.
func (w *watch) seal(c *candidate, data string) {
	if data == "" || !storable(data) {
		return
	}
	c.thinking.redact(data)
	for _, id := range c.calls {
		c.thinking.remember(w.memory, w.scope.thoughtsKey(id), w.scope.Provider)
	}
	var details []struct{ Data, Signature any } // another type than a string is no error
	_ = json.Unmarshal([]byte(data), &details)
	for _, d := range details {
		for _, sealed := range []any{d.Data, d.Signature} {
			if text, ok := sealed.(string); ok && text != "" {
				w.memory.put(signatureKey(text), "", w.scope.Provider)
			}
		}
	}
}

const maxCandidates = 8

// number assigns a unique id to a call without one, or with one that another call of the answer
// has: the id of the request and the number of the call. With repeated ids a client could not match
// results to calls. The pieces of a call get the id of the call.
func (w *watch) number(ev *perigee.Event) {
	if w.forwarded {
		return
	}
	id, begun := w.open[ev.Candidate]
	if !begun {
		id = w.newID(ev.Call)
	}
	switch {
	case ev.Kind == perigee.EventCall:
		delete(w.open, ev.Candidate)
	case !begun:
		if w.open == nil {
			w.open = map[int]string{}
		}
		w.open[ev.Candidate] = id
	}
	if ev.Call != nil && ev.Call.ID != id {
		call := *ev.Call
		call.ID = id
		ev.Call = &call
	}
}

// newID counts a call and returns its id.
func (w *watch) newID(call *perigee.FunctionCall) string {
	w.calls++
	if call == nil || call.ID == "" || w.ids[call.ID] {
		return fmt.Sprintf("call_%s_%d", w.call, w.calls)
	}
	if w.ids == nil {
		w.ids = map[string]bool{}
	}
	w.ids[call.ID] = true
	return call.ID
}

func (w *watch) text(c *candidate, ev *perigee.Event) {
	j := &c.whole[joinedIndex(ev.Kind)]
	if c.kind != ev.Kind || w.startsBlock(c, ev) {
		w.close(c)
		c.kind = ev.Kind
		j.blocks++
	}
	thinking := ev.Kind == perigee.EventThinking
	if !w.scope.signs(thinking) || w.returned && !thinking {
		return
	}
	j.digest.write(ev.Text)
	if j.blocks > 1 {
		c.block.write(ev.Text)
	}
	if thinking && w.scope.Form != perigee.ReasoningInParts {
		c.thinking.add(ev.Text)
	}
}

// startsBlock reports whether further thinking begins a new block: blocks are signed at their end.
// The signatures of parts may come anywhere.
func (w *watch) startsBlock(c *candidate, ev *perigee.Event) bool {
	return w.scope.Form == perigee.ReasoningInBlocks && ev.Kind == perigee.EventThinking && (ev.Text != "" || ev.Signature != "") &&
		c.signature != "" && c.signature != ev.Signature
}

func joinedIndex(kind perigee.EventKind) int {
	if kind == perigee.EventThinking {
		return 1
	}
	return 0
}

// addSignature records the signature of the open block. Calls are complete, so their signatures are
// remembered at once.
func (w *watch) addSignature(c *candidate, signature string) {
	switch {
	case !w.scope.signs(c.kind == perigee.EventThinking) || c.kind == 0 || w.returned:
		// Only its kind is known, or needed.
		w.memory.put(signatureKey(signature), "", w.scope.Provider)
	case c.kind == perigee.EventCall:
		w.memory.remember(w.scope.callKey(c.id), signature, w.scope.Provider)
	default:
		c.signature = signature
		c.whole[joinedIndex(c.kind)].signature = signature
	}
}

// close ends the open block.
func (w *watch) close(c *candidate) {
	thinking := c.kind == perigee.EventThinking
	if c.signature != "" || thinking {
		text := &c.block
		if j := &c.whole[joinedIndex(c.kind)]; j.blocks == 1 {
			text = &j.digest
		}
		w.rememberText(c.kind, text, c.signature)
	}
	if thinking && w.scope.Form != perigee.ReasoningInParts {
		c.thinking.close(c.signature, c.signature != "" || w.scope.Form == perigee.ReasoningInText)
	}
	c.kind, c.id, c.signature = 0, "", ""
	c.block.reset()
}

// rememberText remembers the signature of a text or thought, and the provider of a thought.
func (w *watch) rememberText(kind perigee.EventKind, d *textDigest, signature string) {
	sum := d.sum()
	if signature != "" {
		w.memory.remember(w.scope.textKey(kind, sum), signature, w.scope.Provider)
	}
	if kind == perigee.EventThinking {
		w.memory.put(w.scope.originKey(sum), "", w.scope.Provider)
	}
}

// finish ends an answer.
func (w *watch) finish(c *candidate) {
	w.close(c)
	if w.scope.Form == perigee.ReasoningInBlocks {
		return // a signature is for one block only
	}
	for _, kind := range []perigee.EventKind{perigee.EventText, perigee.EventThinking} {
		if j := &c.whole[joinedIndex(kind)]; j.blocks > 1 && (j.signature != "" || kind == perigee.EventThinking) {
			w.rememberText(kind, &j.digest, j.signature)
		}
	}
}

// end remembers the signatures of answers that were cut off: a client may still send back the
// received part.
func (w *watch) end() {
	for i := range w.candidates {
		w.finish(&w.candidates[i])
	}
}
