package prepare

import (
	"bytes"
	"encoding/json"
	"slices"

	"perigee"
)

// lost is the result of a call that has none: the client stopped it, or the user went on without waiting.
var lost = json.RawMessage(`{"error":"the call was interrupted and has no result"}`)

// pair puts the results of each call right behind it. What the model says in several contents in a row is one
// content when calls are among it, because nothing may stand between a call and its result.
func pair(list []perigee.Content, names *names, notes *notes) []perigee.Content {
	out := make([]perigee.Content, 0, len(list)+1)
	var calls []*perigee.FunctionCall
	joined := false // the last content of out has parts of several
	for i := 0; i < len(list); {
		if list[i].Role == perigee.RoleModel {
			if len(calls) > 0 {
				join(&out[len(out)-1], list[i].Parts, joined)
				joined = true
			} else {
				out, joined = append(out, list[i]), false
			}
			calls = appendCalls(calls, &list[i])
			i++
			continue
		}
		from := i
		for i < len(list) && list[i].Role != perigee.RoleModel {
			i++
		}
		out = answer(out, list[from:i], calls, names, notes)
		calls = calls[:0]
	}
	return out
}

// join adds parts to a content. Parts that are still the client's are copied first.
func join(c *perigee.Content, parts []perigee.Part, ours bool) {
	if !ours {
		c.Parts = append(make([]perigee.Part, 0, 2*(len(c.Parts)+len(parts))), c.Parts...)
	}
	c.Parts = append(c.Parts, parts...)
}

func appendCalls(calls []*perigee.FunctionCall, c *perigee.Content) []*perigee.FunctionCall {
	for i := range c.Parts {
		if c.Parts[i].Kind == perigee.PartCall {
			calls = append(calls, c.Parts[i].Call)
		}
	}
	return calls
}

// answer appends what the user says after calls: the results first and in the order of the calls, then everything
// else where it stood.
func answer(out, run []perigee.Content, calls []*perigee.FunctionCall, names *names, notes *notes) []perigee.Content {
	if inOrder(run, calls) {
		return append(out, run...)
	}
	var results []*perigee.FunctionResponse
	for i := range run {
		for j := range run[i].Parts {
			if run[i].Parts[j].Kind == perigee.PartResponse {
				results = append(results, run[i].Parts[j].Response)
			}
		}
	}
	chosen, used := match(calls, results, names, notes)
	again := copies(results, used)
	first := perigee.Content{Role: perigee.RoleUser, Extra: run[0].Extra}
	for _, r := range chosen {
		first.Parts = append(first.Parts, perigee.Part{Kind: perigee.PartResponse, Response: r})
	}
	seen := 0
	media := map[[2]string]bool{}
	for i := range run {
		c := first
		if i > 0 {
			c = perigee.Content{Role: perigee.RoleUser, Extra: run[i].Extra}
		}
		c.Parts = slices.Grow(c.Parts, len(run[i].Parts))
		for _, part := range run[i].Parts {
			if part.Kind == perigee.PartResponse {
				seen++
				if used[seen-1] {
					continue
				}
				if again[part.Response] {
					notes.add(perigee.NoteRepaired, "result of tool "+names.client(part.Response.Name)+" that came twice")
					continue
				}
				if !notes.full() {
					notes.add(perigee.NoteRepaired, "result without a call of tool "+names.client(part.Response.Name))
				}
				c.Parts = append(append(c.Parts, toldResult(part.Response)), part.Response.Media...)
				continue
			}
			if part.Kind == perigee.PartBlob && len(again) > 0 {
				data := [2]string{part.Blob.MIME, part.Blob.Data}
				if media[data] {
					continue // it came with a result that came twice
				}
				media[data] = true
			}
			c.Parts = append(c.Parts, part)
		}
		if len(c.Parts) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// copies are the results that say to the letter what one that was used says, about the same call: some clients repeat their
// results when they resume a conversation.
func copies(results []*perigee.FunctionResponse, used []bool) map[*perigee.FunctionResponse]bool {
	if !slices.Contains(used, true) {
		return nil
	}
	byID := map[string]*perigee.FunctionResponse{}
	for i, r := range results {
		if used[i] && r.ID != "" {
			byID[r.ID] = r
		}
	}
	list := map[*perigee.FunctionResponse]bool{}
	for i, r := range results {
		if first := byID[r.ID]; !used[i] && first != nil && sameResult(first, r) {
			list[r] = true
		}
	}
	return list
}

func sameResult(a, b *perigee.FunctionResponse) bool {
	return a.ID == b.ID && a.Name == b.Name && bytes.Equal(a.Response, b.Response) && bytes.Equal(a.Output, b.Output) && sameFields(a.Extra, b.Extra) &&
		slices.EqualFunc(a.Media, b.Media, func(a, b perigee.Part) bool {
			return a.Blob != nil && b.Blob != nil && a.Blob.MIME == b.Blob.MIME && a.Blob.Data == b.Blob.Data
		})
}

func sameFields(a, b perigee.Fields) bool {
	return slices.EqualFunc(a, b, func(a, b perigee.Field) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) })
}

// RepeatsResults says whether a result of a call comes twice in one message of the user's.
func RepeatsResults(list []perigee.Content) bool {
	said := map[string]*perigee.FunctionResponse{}
	for i := range list {
		if list[i].Role == perigee.RoleModel {
			clear(said)
			continue
		}
		for j := range list[i].Parts {
			r := list[i].Parts[j].Response
			if r == nil || r.ID == "" {
				continue
			}
			if first := said[r.ID]; first != nil && sameResult(first, r) {
				return true
			}
			said[r.ID] = r
		}
	}
	return false
}

// inOrder says whether the run begins with exactly the results of the calls, and has no others.
func inOrder(run []perigee.Content, calls []*perigee.FunctionCall) bool {
	at := 0
	for i := range run {
		for j := range run[i].Parts {
			if run[i].Parts[j].Kind != perigee.PartResponse {
				continue
			}
			r := run[i].Parts[j].Response
			if i > 0 || j != at || at >= len(calls) || r.Name != calls[at].Name || calls[at].ID != "" && r.ID != calls[at].ID {
				return false
			}
			at++
		}
	}
	return at == len(calls)
}

// match finds the result of each call: by id, then by name. It returns one for every call, made up where there is
// none, and says which results were used.
func match(calls []*perigee.FunctionCall, results []*perigee.FunctionResponse, names *names, notes *notes) (chosen []*perigee.FunctionResponse, used []bool) {
	chosen, used = make([]*perigee.FunctionResponse, len(calls)), make([]bool, len(results))
	if len(calls) == 0 {
		return chosen, used
	}
	take := func(key func(*perigee.FunctionResponse) string, of func(*perigee.FunctionCall) string) {
		open := map[string][]int{}
		for i, r := range results {
			if k := key(r); k != "" && !used[i] {
				open[k] = append(open[k], i)
			}
		}
		for i, call := range calls {
			k := of(call)
			if queue := open[k]; chosen[i] == nil && len(queue) > 0 {
				open[k] = queue[1:]
				chosen[i], used[queue[0]] = fit(call, results[queue[0]], names, notes), true
			}
		}
	}
	take(func(r *perigee.FunctionResponse) string { return r.ID }, func(c *perigee.FunctionCall) string { return c.ID })
	take(func(r *perigee.FunctionResponse) string { return r.Name }, func(c *perigee.FunctionCall) string { return c.Name })
	for i, call := range calls {
		if chosen[i] == nil {
			notes.add(perigee.NoteRepaired, "missing result of tool "+names.client(call.Name))
			chosen[i] = &perigee.FunctionResponse{ID: call.ID, Name: call.Name, Response: lost}
		}
	}
	return chosen, used
}

// fit makes a result name its call.
func fit(call *perigee.FunctionCall, r *perigee.FunctionResponse, names *names, notes *notes) *perigee.FunctionResponse {
	if r.ID == call.ID && r.Name == call.Name {
		return r
	}
	if r.ID != "" && call.ID != "" && r.ID != call.ID {
		notes.add(perigee.NoteRepaired, "id of the result of tool "+names.client(call.Name))
	}
	c := *r
	c.ID, c.Name = call.ID, call.Name
	return &c
}
