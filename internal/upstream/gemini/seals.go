package gemini

import (
	"errors"
	"strings"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/models"
	"perigee/internal/prepare"
)

// sealRefused says whether the provider refused a request for a signature in it: one that another provider made, as
// after a change of model in the middle of a conversation, or that was damaged on the way.
func sealRefused(err error) bool {
	e, ok := errors.AsType[*perigee.Error](err)
	return ok && e.Class == perigee.ClassInvalid && e.Status == 400 && strings.Contains(strings.ToLower(e.Message), "signature")
}

// withoutSeals writes a request anew without its signatures, so that the conversation can go on. A request that came
// in this dialect is otherwise sent as it is, signatures included, because most of them are right.
func (u *Upstream) withoutSeals(req *perigee.Request) (message, bool) {
	prompt, err := req.Prompt()
	if err != nil {
		return message{}, false
	}
	var m message
	prompt, m.back, m.notes = prepare.ForGemini(prepare.WithoutSeals(prompt), models.Of(req.Model))
	if !asItCame(req) {
		m.notes = nil // they were said with the first attempt
	}
	m.notes = append(m.notes, perigee.Note{Action: perigee.NoteRepaired, Subject: "thought signatures that the provider refused"})
	if req.Object(m.notes) != nil {
		return message{}, false
	}
	m.body = dialect.EncodeRequest(prompt)
	return m, true
}
