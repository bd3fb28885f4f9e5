package gemini

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/models"
	"perigee/internal/prepare"
)

// repair writes a request anew that the provider refused for something that can be set right, so that the conversation can go
// on. A request that came in this dialect is otherwise sent as it is, because most of them are right. Where nothing would
// change it is not sent again.
func (u *Upstream) repair(req *perigee.Request, sent *message, refused error) (m message, ok bool) {
	signatures, own := blames(refused, "signature"), asItCame(req)
	thinking, results := own && blames(refused, "thinking"), own && blames(refused, "function response")
	if !signatures && !thinking && !results {
		return m, false
	}
	prompt, err := req.Prompt()
	if err != nil {
		return m, false
	}
	var how prepare.Repair
	switch {
	case signatures:
		// Another provider made it, as after a change of model in the middle of a conversation, or it was damaged on the way.
		how = prepare.RepairSignatures
	case results && !prepare.RepeatsResults(prompt.Contents):
		return m, false // what the client does with its calls is its own; only copies are known to be none of its doing
	}
	before := sent.body
	if own {
		before = dialect.EncodeRequest(prompt)
	}
	prompt, m.back, m.notes = prepare.RepairForGemini(prompt, models.Of(req.Model), how)
	m.notes = slices.DeleteFunc(m.notes, func(n perigee.Note) bool { return slices.Contains(sent.notes, n) })
	if len(m.notes) == 0 || req.Object(m.notes) != nil {
		return m, false // it would be refused again, or its owner wants nothing changed
	}
	m.body = dialect.EncodeRequest(prompt)
	return m, !bytes.Equal(m.body, before)
}

// blames says whether the provider refused a request for what the word says.
func blames(err error, word string) bool {
	e, ok := errors.AsType[*perigee.Error](err)
	return ok && e.Class == perigee.ClassInvalid && e.Status == 400 && strings.Contains(strings.ToLower(e.Message), word)
}
