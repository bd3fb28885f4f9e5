package adapt

import (
	"bytes"
	"encoding/json"
	"slices"

	"perigee"
)

// lost is the result of a call that has none: the client stopped it, or the user continued without
// waiting.
var lost = json.RawMessage(`{"error":"the call was interrupted and has no result"}`)

// pair puts the results of each call right behind it. Several contents of the model in a row become
// one when calls are among them, because nothing may be between a call and its result.
func (a *adapter) pair(list []perigee.Content) []perigee.Content {
	out := make([]perigee.Content, 0, len(list)+1)
	var calls []*perigee.FunctionCall
	joined := false // the last content of out has parts of several
	for i := 0; i < len(list); {
		if isModel(list[i]) {
			if len(calls) == 0 {
				out, joined = append(out, list[i]), false
			} else {
				last := &out[len(out)-1]
				if !joined {
					last.Parts, joined = slices.Clip(last.Parts), true // they may be the client's
				}
				last.Parts = append(last.Parts, list[i].Parts...)
			}
			for _, part := range list[i].Parts {
				if part.Kind == perigee.PartCall {
					calls = append(calls, part.Call)
				}
			}
			i++
			continue
		}
		from := i
		for i < len(list) && !isModel(list[i]) {
			i++
		}
		out = a.answer(out, list[from:i], calls)
		calls = calls[:0]
	}
	return out
}

// answer appends the message of the user that follows calls: the results first and in the order of
// the calls, then everything else in its place.
func (a *adapter) answer(out, message []perigee.Content, calls []*perigee.FunctionCall) []perigee.Content {
	if inOrder(message, calls) {
		return append(out, message...)
	}
	all := results(message)
	chosen, used := a.match(calls, all)
	again := copies(all, used)
	var answers []perigee.Part
	for _, r := range chosen {
		answers = append(answers, perigee.Part{Kind: perigee.PartResponse, Response: r})
	}
	media := map[[2]string]bool{}
	for i := range message {
		c := perigee.Content{Role: perigee.RoleUser, Extra: message[i].Extra}
		if i == 0 {
			c.Parts = answers
		}
		c.Parts = slices.Grow(c.Parts, len(message[i].Parts))
		for _, part := range message[i].Parts {
			switch r := part.Response; {
			case part.Kind == perigee.PartResponse && used[r]:
			case part.Kind == perigee.PartResponse && again[r]:
				a.notes.Repaired("result of tool " + clip(a.names.Client(r.Name)) + " that came twice")
			case part.Kind == perigee.PartResponse:
				if !a.notes.Full() {
					a.notes.Repaired("result without a call of tool " + clip(a.names.Client(r.Name)))
				}
				c.Parts = append(append(c.Parts, textOfResult(r)), r.Media...)
			case part.Kind == perigee.PartBlob && len(again) > 0:
				data := [2]string{part.Blob.MIME, part.Blob.Data}
				if !media[data] { // otherwise it belongs to a result that came twice
					c.Parts = append(c.Parts, part)
				}
				media[data] = true
			default:
				c.Parts = append(c.Parts, part)
			}
		}
		if len(c.Parts) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// results returns all results in a list of contents.
func results(list []perigee.Content) (all []*perigee.FunctionResponse) {
	for i := range list {
		for j := range list[i].Parts {
			if part := &list[i].Parts[j]; part.Kind == perigee.PartResponse && part.Response != nil {
				all = append(all, part.Response)
			}
		}
	}
	return all
}

// copies returns the results that equal a used one of the same call: some clients repeat results
// when they resume a conversation.
func copies(all []*perigee.FunctionResponse, used map[*perigee.FunctionResponse]bool) map[*perigee.FunctionResponse]bool {
	byID := map[string]*perigee.FunctionResponse{}
	for _, r := range all {
		if used[r] && r.ID != "" {
			byID[r.ID] = r
		}
	}
	list := map[*perigee.FunctionResponse]bool{}
	for _, r := range all {
		if first := byID[r.ID]; first != nil && !used[r] && sameResult(first, r) {
			list[r] = true
		}
	}
	return list
}

func sameResult(a, b *perigee.FunctionResponse) bool {
	sameField := func(a, b perigee.Field) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) }
	sameData := func(a, b perigee.Part) bool {
		return a.Blob != nil && b.Blob != nil && a.Blob.MIME == b.Blob.MIME && a.Blob.Data == b.Blob.Data
	}
	return a.ID == b.ID && a.Name == b.Name && bytes.Equal(a.Response, b.Response) && bytes.Equal(a.Output, b.Output) &&
		slices.EqualFunc(a.Extra, b.Extra, sameField) && slices.EqualFunc(a.Media, b.Media, sameData)
}

// RepeatsResults reports whether one message of the user has the same result of a call twice.
func RepeatsResults(list []perigee.Content) bool {
	seen := map[string]*perigee.FunctionResponse{}
	for i := range list {
		if isModel(list[i]) {
			clear(seen)
			continue
		}
		for _, r := range results(list[i : i+1]) {
			if r.ID == "" {
				continue
			}
			if first := seen[r.ID]; first != nil && sameResult(first, r) {
				return true
			}
			seen[r.ID] = r
		}
	}
	return false
}

// inOrder reports whether the message begins with exactly the results of the calls, and has no
// other results.
func inOrder(message []perigee.Content, calls []*perigee.FunctionCall) bool {
	at := 0
	for i := range message {
		for j := range message[i].Parts {
			if message[i].Parts[j].Kind != perigee.PartResponse {
				continue
			}
			r := message[i].Parts[j].Response
			if i > 0 || j != at || at >= len(calls) || r.Name != calls[at].Name || calls[at].ID != "" && r.ID != calls[at].ID {
				return false
			}
			at++
		}
	}
	return at == len(calls)
}

// match finds the result of each call: by id, then by name. It returns one for every call, made up
// where there is none, and which of the results were used.
func (a *adapter) match(calls []*perigee.FunctionCall, all []*perigee.FunctionResponse) (
	chosen []*perigee.FunctionResponse, used map[*perigee.FunctionResponse]bool) {
	chosen, used = make([]*perigee.FunctionResponse, len(calls)), map[*perigee.FunctionResponse]bool{}
	if len(calls) == 0 {
		return chosen, used
	}
	take := func(key func(*perigee.FunctionResponse) string, of func(*perigee.FunctionCall) string) {
		open := map[string][]*perigee.FunctionResponse{}
		for _, r := range all {
			if k := key(r); k != "" && !used[r] {
				open[k] = append(open[k], r)
			}
		}
		for i, call := range calls {
			k := of(call)
			if queue := open[k]; chosen[i] == nil && len(queue) > 0 {
				open[k], used[queue[0]] = queue[1:], true
				chosen[i] = a.fit(call, queue[0])
			}
		}
	}
	take(func(r *perigee.FunctionResponse) string { return r.ID }, func(c *perigee.FunctionCall) string { return c.ID })
	take(func(r *perigee.FunctionResponse) string { return r.Name }, func(c *perigee.FunctionCall) string { return c.Name })
	for i, call := range calls {
		if chosen[i] == nil {
			a.notes.Repaired("missing result of tool " + clip(a.names.Client(call.Name)))
			chosen[i] = &perigee.FunctionResponse{ID: call.ID, Name: call.Name, Response: lost}
		}
	}
	return chosen, used
}

// fit gives a result the id and the name of its call.
func (a *adapter) fit(call *perigee.FunctionCall, r *perigee.FunctionResponse) *perigee.FunctionResponse {
	if r.ID == call.ID && r.Name == call.Name {
		return r
	}
	if r.ID != "" && call.ID != "" && r.ID != call.ID {
		a.notes.Repaired("id of the result of tool " + clip(a.names.Client(call.Name)))
	}
	c := *r
	c.ID, c.Name = call.ID, call.Name
	return &c
}
