// Package adapttest adapts prompts in tests of dialects.
package adapttest

import (
	"slices"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
)

// GeminiNotes returns the notes about a prompt that is adapted to a Gemini model which takes every
// level and budget of thinking up to high. Notes about something that the model no longer needs are
// left out.
func GeminiNotes(p *perigee.Prompt) []perigee.Note {
	spec := models.Of("gemini-3-flash")
	spec.Thinking.Zero = true
	_, _, notes := adapt.ForGemini(p, spec)
	return slices.DeleteFunc(notes, func(n perigee.Note) bool { return n.Action == perigee.NoteOmitted })
}
