package openai

import (
	"cmp"
	"slices"

	"perigee"
)

// responsesTurns makes turns out of items: what the model says in a row is one turn, what it is told in a row is
// the next. A turn with tool answers has them first, in the order of the calls, because the models want the answers
// right behind their calls and each at its place.
type responsesTurns struct {
	contents []perigee.Content
	names    map[string]string // call id to the function's name

	// The user's turn that is open.
	answers []perigee.Part
	media   []perigee.Part // that tools gave
	rest    []perigee.Part
}

// begun says whether anything was said yet.
func (t *responsesTurns) begun() bool {
	return len(t.contents) > 0 || len(t.answers) > 0 || len(t.rest) > 0
}

func (t *responsesTurns) user(p perigee.Part)   { t.rest = append(t.rest, p) }
func (t *responsesTurns) answer(p perigee.Part) { t.answers = append(t.answers, p) }

// attach adds something that a tool gave beside its answer, and returns its number in the turn.
func (t *responsesTurns) attach(p perigee.Part) int {
	t.media = append(t.media, p)
	return len(t.media)
}

func (t *responsesTurns) model(p perigee.Part) {
	t.closeUser()
	if n := len(t.contents); n > 0 && t.contents[n-1].Role == perigee.RoleModel {
		t.contents[n-1].Parts = append(t.contents[n-1].Parts, p)
		return
	}
	t.contents = append(t.contents, perigee.Content{Role: perigee.RoleModel, Parts: []perigee.Part{p}})
}

func (t *responsesTurns) call(p perigee.Part) {
	if t.names == nil {
		t.names = map[string]string{}
	}
	t.names[p.Call.ID] = p.Call.Name
	t.model(p)
}

func (t *responsesTurns) nameOf(callID string) string { return t.names[callID] }

// closeUser ends the user's turn, if one is open.
func (t *responsesTurns) closeUser() {
	if len(t.answers) == 0 && len(t.media) == 0 && len(t.rest) == 0 {
		return
	}
	t.sortAnswers()
	t.contents = append(t.contents, perigee.Content{Role: perigee.RoleUser, Parts: slices.Concat(t.answers, t.media, t.rest)})
	t.answers, t.media, t.rest = t.answers[:0], t.media[:0], t.rest[:0]
}

// sortAnswers puts answers into the order of the calls in the turn before. Answers to other calls go last.
func (t *responsesTurns) sortAnswers() {
	if len(t.answers) < 2 || len(t.contents) == 0 {
		return
	}
	order := map[string]int{}
	for i, p := range t.contents[len(t.contents)-1].Parts {
		if p.Call != nil {
			order[p.Call.ID] = i
		}
	}
	place := func(p *perigee.Part) int {
		if i, ok := order[p.Response.ID]; ok {
			return i
		}
		return len(order) + len(t.contents[len(t.contents)-1].Parts)
	}
	slices.SortStableFunc(t.answers, func(a, b perigee.Part) int { return cmp.Compare(place(&a), place(&b)) })
}

// close ends the conversation and returns it.
func (t *responsesTurns) close() []perigee.Content {
	t.closeUser()
	return t.contents
}
