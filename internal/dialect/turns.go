package dialect

import (
	"encoding/json"
	"math"
	"slices"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// A Builder builds contents, out of messages or out of single parts. The zero value is ready to
// use.
type Builder struct {
	Contents []perigee.Content
	// JoinAfterCalls joins the user's messages after a turn with calls, or with a result, into one
	// content, with the results first. Without it the results of a turn are one content, and each
	// message is another.
	JoinAfterCalls bool
	// Missing makes results match strictly: each call has one result, and a call without one gets
	// an error as its result, for which Missing is called. If it is nil, the pairs are not changed.
	Missing func()

	calls  []*perigee.FunctionCall // of the whole conversation
	answer []bool                  // by call: there is a result
	round  int                     // the index of the first call of the turns that await results
	next   int                     // the calls between round and next have results
	due    bool                    // the model's last message has calls
	index  map[key][]int           // calls of the round by id and name; nil while results are in order
	latest map[string]int          // by id: the last call of calls[:known]
	known  int

	modelParts []perigee.Part // the model's open turn, if it comes in parts
	user       int            // the index of the user's open turn plus 1; 0 if none is open
	results    []result       // of that turn
	userParts  []perigee.Part // in that turn
}

// A key is a call's id or its name.
type key struct{ id, name string }

type result struct {
	order    int
	response *perigee.FunctionResponse
	cache    *perigee.CacheMark
}

// stray is the order of a result for a call that is not in this turn.
const stray = math.MaxInt

// A Match is the call that a result is for.
type Match struct {
	Call  *perigee.FunctionCall // nil if there is none
	Exact bool                  // by its id, or by its name where the result has no id
	order int
}

// Reserve makes room for the messages that are left of a long list.
func (b *Builder) Reserve(c *rawjson.Cursor) {
	b.Contents = rawjson.Reserve(c, b.Contents)
	b.modelParts, b.results, b.userParts = rawjson.Reserve(c, b.modelParts), rawjson.Reserve(c, b.results), rawjson.Reserve(c, b.userParts)
}

// Started reports whether there are any contents yet.
func (b *Builder) Started() bool { return len(b.Contents) > 0 || len(b.modelParts) > 0 || b.user > 0 }

// Model adds a message of the model. It keeps parts.
func (b *Builder) Model(parts []perigee.Part) {
	b.closeUser()
	b.due = false
	for i := range parts {
		b.call(&parts[i])
	}
	b.add(perigee.RoleModel, parts)
}

// ModelPart adds a part to the turn of the model.
func (b *Builder) ModelPart(p perigee.Part) {
	b.closeUser()
	b.call(&p)
	b.modelParts = append(b.modelParts, p)
}

func (b *Builder) call(p *perigee.Part) {
	if p.Kind == perigee.PartCall {
		b.calls, b.due = append(b.calls, p.Call), true
	}
}

// User adds a message of the user. It keeps parts, or copies them if messages are joined.
func (b *Builder) User(parts []perigee.Part) {
	joins := b.JoinAfterCalls && (b.due || b.user > 0)
	if joins && len(parts) > 0 || !b.JoinAfterCalls && len(b.calls) > b.round {
		b.openUser()
	}
	if joins {
		b.userParts = append(b.userParts, parts...)
	} else {
		b.add(perigee.RoleUser, parts)
	}
}

// InstructionPart adds a part to the instruction at the end of the conversation, and begins one if
// there is none with this role. The results of calls before it stay right after the calls.
func (b *Builder) InstructionPart(role string, p perigee.Part) {
	if n := len(b.Contents); n > 0 && len(b.modelParts) == 0 && b.Contents[n-1].Role == role {
		b.Contents[n-1].Parts = append(b.Contents[n-1].Parts, p)
		return
	}
	if b.awaits() {
		b.openUser()
	} else {
		b.closeUser()
	}
	b.closeModel()
	b.add(role, []perigee.Part{p})
}

// awaits reports whether a call of the round has no result.
func (b *Builder) awaits() bool {
	for b.next < len(b.calls) && b.answered(b.next) {
		b.next++
	}
	return b.next < len(b.calls)
}

// UserPart adds a part to the turn of the user.
func (b *Builder) UserPart(p perigee.Part) {
	b.openUser()
	b.userParts = append(b.userParts, p)
}

// Result adds the result of a tool.
func (b *Builder) Result(m Match, r *perigee.FunctionResponse, cache *perigee.CacheMark) {
	b.openUser()
	b.results = append(b.results, result{m.order, r, cache})
}

// Close ends the conversation. Contents is complete after it.
func (b *Builder) Close() {
	b.closeUser()
	b.closeModel()
}

func (b *Builder) add(role string, parts []perigee.Part) {
	if len(parts) > 0 {
		b.Contents = append(b.Contents, perigee.Content{Role: role, Parts: parts})
	}
}

func (b *Builder) closeModel() {
	b.add(perigee.RoleModel, slices.Clone(b.modelParts))
	b.modelParts = b.modelParts[:0]
}

// openUser opens the turn of the user, right after the turn of the model, unless it is open.
func (b *Builder) openUser() {
	if b.user == 0 {
		b.closeModel()
		b.Contents = append(b.Contents, perigee.Content{Role: perigee.RoleUser})
		b.user = len(b.Contents)
	}
}

// closeUser fills the user's open turn. Its messages may be in contents after it.
func (b *Builder) closeUser() {
	if b.user == 0 {
		return
	}
	if b.Missing != nil {
		b.answerMissing()
	}
	byCall := func(a, b result) int { return a.order - b.order }
	if !slices.IsSortedFunc(b.results, byCall) {
		slices.SortStableFunc(b.results, byCall)
	}
	parts := make([]perigee.Part, 0, len(b.results)+len(b.userParts))
	for i := range b.results {
		parts = append(parts, perigee.Part{Kind: perigee.PartResponse, Response: b.results[i].response, Cache: b.results[i].cache})
	}
	if b.Contents[b.user-1].Parts = append(parts, b.userParts...); len(b.Contents[b.user-1].Parts) == 0 {
		b.Contents = slices.Delete(b.Contents, b.user-1, b.user)
	}
	b.user, b.results, b.userParts = 0, b.results[:0], b.userParts[:0]
	b.round, b.next, b.index = len(b.calls), len(b.calls), nil
}

func (b *Builder) answerMissing() {
	for i := b.round; i < len(b.calls); i++ {
		if call := b.calls[i]; !b.answered(i) {
			b.Missing()
			b.Result(Match{order: i}, &perigee.FunctionResponse{ID: call.ID, Name: call.Name,
				Response: json.RawMessage(`{"error":"the tool gave no result"}`)}, nil)
		}
	}
}

func (b *Builder) answered(i int) bool { return i < len(b.answer) && b.answer[i] }

// Take returns the call for a result with this id, or with this name if there is no id, and marks
// it as answered: the first such call of the turn without a result, or, unless Missing is set, the
// latest of the conversation.
func (b *Builder) Take(id []byte, name string) Match {
	i, exact := b.find(id, name)
	if i >= 0 {
		b.answer = append(b.answer, make([]bool, len(b.calls)-len(b.answer))...)
		b.answer[i] = true
		return Match{b.calls[i], exact, i}
	}
	if b.Missing != nil {
		return Match{order: stray}
	}
	if b.latest == nil {
		b.latest = make(map[string]int, len(b.calls))
	}
	for ; b.known < len(b.calls); b.known++ {
		b.latest[b.calls[b.known].ID] = b.known
	}
	if i, ok := b.latest[string(id)]; ok {
		return Match{b.calls[i], true, stray}
	}
	return Match{order: stray}
}

// find returns the first call of the round without a result, or -1 if there is none.
func (b *Builder) find(id []byte, name string) (i int, exact bool) {
	if !b.awaits() {
		return -1, false
	}
	call := b.calls[b.next]
	switch {
	case len(id) == 0 && name == "" && b.Missing != nil:
		return b.next, false
	case len(id) == 0 && name != "" && call.Name == name, (len(id) > 0 || name == "") && call.ID == string(id):
		return b.next, true
	}
	if b.index == nil {
		b.index = make(map[key][]int, 2*(len(b.calls)-b.round))
		for i, call := range b.calls[b.round:] {
			b.index[key{id: call.ID}] = append(b.index[key{id: call.ID}], b.round+i)
			b.index[key{name: call.Name}] = append(b.index[key{name: call.Name}], b.round+i)
		}
	}
	if len(id) > 0 {
		if i := b.open(key{id: string(id)}); i >= 0 {
			return i, true
		}
	}
	if name == "" {
		return -1, false
	}
	return b.open(key{name: name}), len(id) == 0
}

// open returns the first call under the key that has no result.
func (b *Builder) open(k key) int {
	list := b.index[k]
	for len(list) > 0 && b.answered(list[0]) {
		list = list[1:]
	}
	b.index[k] = list
	if len(list) == 0 {
		return -1
	}
	return list[0]
}
