package responses

import (
	"cmp"
	"slices"

	"perigee"
	"perigee/internal/rawjson"
)

// turns makes turns out of items: what the model says in a row is one turn, what it is told in a row is
// the next. A turn with tool answers has them first, in the order of the calls, because the models want the answers
// right behind their calls and each at its place.
type turns struct {
	contents []perigee.Content
	calls    map[string]*perigee.FunctionCall // by id

	// The model's turn that is open, and the user's after it. Their memory is used again for the next ones.
	spoken  []perigee.Part
	answers []perigee.Part
	rest    []perigee.Part
}

// usualTurn is how much agents send for each turn, or more.
const usualTurn = 2 << 10

// newTurns has room for the turns that a conversation of a size usually has.
func newTurns(size int) turns {
	return turns{contents: make([]perigee.Content, 0, 1+size/usualTurn)}
}

// reserve makes room for the items that are left of a long list.
func (t *turns) reserve(c *rawjson.Cursor) {
	t.contents = rawjson.Reserve(c, t.contents)
	t.spoken, t.answers, t.rest = rawjson.Reserve(c, t.spoken), rawjson.Reserve(c, t.answers), rawjson.Reserve(c, t.rest)
}

// begun says whether anything was said yet.
func (t *turns) begun() bool {
	return len(t.contents) > 0 || len(t.spoken) > 0 || len(t.answers) > 0 || len(t.rest) > 0
}

func (t *turns) user(p perigee.Part)   { t.rest = append(t.rest, p) }
func (t *turns) answer(p perigee.Part) { t.answers = append(t.answers, p) }

func (t *turns) model(p perigee.Part) {
	t.closeUser()
	t.spoken = append(t.spoken, p)
}

func (t *turns) call(p perigee.Part) {
	if t.calls == nil {
		t.calls = map[string]*perigee.FunctionCall{}
	}
	t.calls[p.Call.ID] = p.Call
	t.model(p)
}

// closeModel ends the model's turn, if one is open.
func (t *turns) closeModel() {
	if len(t.spoken) > 0 {
		t.contents = append(t.contents, perigee.Content{Role: perigee.RoleModel, Parts: slices.Clone(t.spoken)})
		t.spoken = t.spoken[:0]
	}
}

// closeUser ends the user's turn, if one is open, and the model's turn before it.
func (t *turns) closeUser() {
	if len(t.answers) == 0 && len(t.rest) == 0 {
		return
	}
	t.closeModel()
	t.sortAnswers()
	t.contents = append(t.contents, perigee.Content{Role: perigee.RoleUser, Parts: slices.Concat(t.answers, t.rest)})
	t.answers, t.rest = t.answers[:0], t.rest[:0]
}

// sortAnswers puts answers into the order of the calls in the turn before. Answers to other calls go last.
func (t *turns) sortAnswers() {
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
func (t *turns) close() []perigee.Content {
	t.closeUser()
	t.closeModel()
	return t.contents
}
