package gemini

import (
	"errors"
	"strings"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/models"
	"perigee/internal/prepare"
)

// repair writes a request anew that the provider refused for something that can be set right, so that the conversation can go
// on. A request that came in this dialect is otherwise sent as it is, because most of them are right.
func (u *Upstream) repair(req *perigee.Request, refused error) (m message, ok bool) {
	seals := blames(refused, "signature")
	if !seals && !(asItCame(req) && blames(refused, "thinking")) {
		return m, false
	}
	prompt, err := req.Prompt()
	if err != nil {
		return m, false
	}
	if seals {
		// Another provider made it, as after a change of model in the middle of a conversation, or it was damaged on the way.
		prompt = prepare.WithoutSeals(prompt)
	}
	prompt, m.back, m.notes = prepare.ForGemini(prompt, models.Of(req.Model))
	if !asItCame(req) {
		m.notes = nil // they were said with the first attempt
	}
	if seals {
		m.notes = append(m.notes, perigee.Note{Action: perigee.NoteRepaired, Subject: "thought signatures that the provider refused"})
	}
	if len(m.notes) == 0 || req.Object(m.notes) != nil {
		return m, false // it would be refused again, or its owner wants nothing changed
	}
	m.body = dialect.EncodeRequest(prompt)
	return m, true
}

// blames says whether the provider refused a request for what the word says.
func blames(err error, word string) bool {
	e, ok := errors.AsType[*perigee.Error](err)
	return ok && e.Class == perigee.ClassInvalid && e.Status == 400 && strings.Contains(strings.ToLower(e.Message), word)
}
