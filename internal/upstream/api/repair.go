package api

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
	dialect "perigee/internal/dialect/gemini"
)

// repair encodes a request anew that the provider refused for a reason that can be repaired.
// Requests in the Gemini dialect are adapted only here, because most of them are valid unchanged.
// ok is false if the repair would change nothing.
func (u *Upstream) repair(req *perigee.Request, sent *message, refused error) (m message, ok bool) {
	signatures, own := refusedFor(refused, "signature"), isVerbatim(req)
	thinking, results := own && refusedFor(refused, "thinking"), own && refusedFor(refused, "function response")
	if !signatures && !thinking && !results {
		return m, false
	}
	prompt, err := req.Prompt()
	if err != nil {
		return m, false
	}
	var how adapt.Repair
	switch {
	case signatures:
		// Another provider made it, as after a change of model in the middle of a conversation, or
		// it was damaged on the way.
		how = adapt.RepairSignatures
	case results && !adapt.RepeatsResults(prompt.Contents):
		// the client's own calls are not changed; only copies are known not to come from the
		// client
		return m, false
	}
	before := sent.body
	if own {
		before = [][]byte{dialect.EncodeRequest(prompt)}
	}
	prompt, m.undo, m.notes = adapt.RepairForGemini(prompt, models.Of(req.Model), how)
	m.notes = slices.DeleteFunc(m.notes, func(n perigee.Note) bool { return slices.Contains(sent.notes, n) })
	if len(m.notes) == 0 || req.RefuseIfStrict(m.notes) != nil {
		return m, false // it would be refused again, or the request is strict
	}
	body := dialect.EncodeRequest(prompt)
	m.body = [][]byte{body}
	return m, !bytes.Equal(body, slices.Concat(before...))
}

// refusedFor reports whether the provider refused a request with a message that contains the word.
func refusedFor(err error, word string) bool {
	e, ok := errors.AsType[*perigee.Error](err)
	return ok && e.Class == perigee.ClassInvalid && e.Status == 400 && strings.Contains(strings.ToLower(e.Message), word)
}
