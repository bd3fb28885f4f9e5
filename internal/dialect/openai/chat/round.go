package chat

import (
	"encoding/json"

	"perigee"
	"perigee/internal/dialect/openai"
)

// A round is the calls of one turn of the model's and what came back for each. Results may come in any order,
// and other messages between them; the content that holds them has its place right after the calls.
type round struct {
	calls   []*perigee.FunctionCall
	answers []*perigee.FunctionResponse // by call; nil: none yet
	at      int                         // index of that content; 0: it has no place yet, since it is never the first
	next    int                         // all calls before this one are answered
	index   map[callKey][]int           // calls by id and by name, once results come out of order
}

// A callKey is a call's id or its name.
type callKey struct{ id, name string }

// reserve gives the results their place when the first message after the calls comes.
func (r *round) reserve(p *perigee.Prompt) {
	if len(r.calls) == 0 || r.at > 0 {
		return
	}
	r.at = len(p.Contents)
	r.answers = append(r.answers, make([]*perigee.FunctionResponse, len(r.calls))...)
	p.Contents = append(p.Contents, perigee.Content{Role: perigee.RoleUser})
}

// find returns the call that a result with this id is for, or with this name where there is no id. -1: none that is
// still open. Not exact means that the id fits no call, and the name had to decide.
func (r *round) find(id []byte, name string) (i int, exact bool) {
	for r.next < len(r.calls) && r.answers[r.next] != nil {
		r.next++
	}
	if r.next == len(r.calls) {
		return -1, false
	}
	call := r.calls[r.next]
	switch {
	case len(id) == 0 && name == "":
		return r.next, false
	case len(id) > 0 && call.ID == string(id), len(id) == 0 && call.Name == name:
		return r.next, true
	}
	return r.search(string(id), name)
}

// search is find for results that do not come in the order of the calls.
func (r *round) search(id, name string) (i int, exact bool) {
	if r.index == nil {
		r.index = make(map[callKey][]int, 2*len(r.calls))
		for i, call := range r.calls {
			r.index[callKey{id: call.ID}] = append(r.index[callKey{id: call.ID}], i)
			r.index[callKey{name: call.Name}] = append(r.index[callKey{name: call.Name}], i)
		}
	}
	if id != "" {
		if i := r.open(callKey{id: id}); i >= 0 {
			return i, true
		}
	}
	if name != "" {
		return r.open(callKey{name: name}), id == ""
	}
	return -1, false
}

// open returns the first call under the key that has no answer.
func (r *round) open(key callKey) int {
	list := r.index[key]
	for len(list) > 0 && r.answers[list[0]] != nil {
		list = list[1:]
	}
	r.index[key] = list
	if len(list) == 0 {
		return -1
	}
	return list[0]
}

func (r *round) answer(i int, response *perigee.FunctionResponse) { r.answers[i] = response }

// settle writes the results into their content and forgets the round. Calls that nobody answered get a result that
// says so: the provider wants one for each.
func (r *round) settle(p *perigee.Prompt, n *openai.Notes) {
	parts := make([]perigee.Part, 0, len(r.calls))
	for i, response := range r.answers {
		if response == nil {
			n.Repaired("messages[].tool_calls[] without a result")
			response = &perigee.FunctionResponse{ID: r.calls[i].ID, Name: r.calls[i].Name,
				Response: json.RawMessage(`{"error":"the tool gave no result"}`)}
		}
		parts = append(parts, perigee.Part{Kind: perigee.PartResponse, Response: response})
	}
	p.Contents[r.at].Parts = parts
	*r = round{calls: r.calls[:0], answers: r.answers[:0]}
}
