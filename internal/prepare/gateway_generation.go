package prepare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/models"
)

// generation keeps the knobs within what the gateway and the model have.
func (g *gateway) generation() {
	gen := &g.prompt.Generation
	gen.Extra = g.known(gen.Extra, "generationConfig.", generationMembers)
	g.numbers(gen)
	g.words(gen)
	g.drawing(gen)
	g.answerSchema(gen)
	limitOutput(gen, g.spec.Output, &g.notes)
	sayJSON(gen)
	g.think(gen)
}

// numbers drops those that the wire has no room for.
func (g *gateway) numbers(gen *perigee.Generation) {
	if n := gen.MaxOutputTokens; n != nil && *n < 1 {
		g.notes.add(perigee.NoteDropped, fmt.Sprintf("max output tokens %d", *n))
		gen.MaxOutputTokens = nil
	} else if n != nil && *n > math.MaxInt32 && g.spec.Output == 0 {
		gen.MaxOutputTokens = nil // as good as no limit
	}
	if n := gen.Seed; n != nil && (*n < math.MinInt32 || *n > math.MaxInt32) {
		g.notes.add(perigee.NoteDropped, fmt.Sprintf("seed %d", *n))
		gen.Seed = nil
	}
	if n := gen.Candidates; n != nil && *n != 1 {
		if *n > 1 {
			g.notes.add(perigee.NoteDropped, "candidates after 1") // the gateway gives one, whatever it is asked for
		}
		gen.Candidates = new(int64(1))
	}
}

// words drops what says nothing, and kinds of answers that the model does not give.
func (g *gateway) words(gen *perigee.Generation) {
	if gen.ResponseMIME == undefined {
		gen.ResponseMIME = ""
	}
	void := func(s string) bool { return s == undefined || strings.TrimSpace(s) == "" && (s == "" || g.claude()) }
	if slices.ContainsFunc(gen.Stop, void) {
		gen.Stop = slices.DeleteFunc(slices.Clone(gen.Stop), void)
	}
	if len(gen.Stop) == 0 {
		gen.Stop = nil
	}
	foreign := func(m string) bool {
		return !strings.EqualFold(m, "TEXT") && (g.spec.Family != models.Image || !strings.EqualFold(m, "IMAGE"))
	}
	for _, m := range gen.Modalities {
		if foreign(m) && m != undefined {
			g.notes.add(perigee.NoteDropped, "response modality "+clip(m))
		}
	}
	if slices.ContainsFunc(gen.Modalities, foreign) {
		gen.Modalities = slices.DeleteFunc(slices.Clone(gen.Modalities), foreign)
	}
	if len(gen.Modalities) == 0 {
		gen.Modalities = nil
	}
}
