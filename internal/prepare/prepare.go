// Package prepare makes a prompt fit for the provider that is about to be asked: names that it accepts, thinking
// within what the model knows, calls paired with their results, signatures where they are demanded. What a client of
// another API could not know, or got wrong, is set right here instead of coming back as an error.
//
// ForGemini does this for the official API, ForAntigravity for the gateway behind Antigravity, which takes less and has
// Claude behind it, too. Each has its own way through a prompt, in the files gemini*.go and gateway*.go; the steps that
// both take are in files that are called after them. A Repair says what the gateway refused nevertheless, so that a
// second attempt is another one.
//
// It is pure, never changes the prompt that it is given, and takes time linear in it. It reads no wire format: dialects
// have done that before, and the upstream that calls it writes the result. What schemas have to look like is for package
// schema to know.
package prepare

import (
	"encoding/json"

	"perigee"
	"perigee/internal/schema"
)

// Back turns what the provider says about the prepared prompt into what the client would say. Its zero value has
// nothing to turn.
type Back struct {
	names   map[string]string          // as the provider knows them, to as the client does
	fillers map[string]json.RawMessage // cleaned schemas of functions, as the provider knows them, that have placeholders
	object  bool                       // a call always has arguments
}

// Needed says whether the provider's own words would be wrong for a client that speaks them, too.
func (b Back) Needed() bool { return len(b.names) > 0 || len(b.fillers) > 0 }

// Event gives a function call the name that the client knows, and the arguments that its own schema asks for. What the
// event points at is replaced, not changed.
func (b Back) Event(ev *perigee.Event) {
	if ev.Kind != perigee.EventCall || ev.Call == nil {
		return
	}
	call := *ev.Call
	name, renamed := b.names[call.Name]
	if cleaned := b.fillers[call.Name]; cleaned != nil {
		call.Args = schema.TakeOutPlaceholder(call.Args, cleaned)
	}
	if b.object && !isObject(call.Args) {
		call.Args = object(call.Args, "input")
	}
	if renamed {
		call.Name = name
	}
	if renamed || len(call.Args) != len(ev.Call.Args) {
		ev.Call = &call
	}
}
