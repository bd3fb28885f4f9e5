package thoughtsig

import (
	"context"

	"perigee"
)

// A recall finds what is remembered of the reasoning in the bytes of one request.
type recall struct {
	ctx    context.Context
	memory *Memory
	scope  *scope
	req    *perigee.Request
}

// Foreign returns which of the signatures were made by another provider.
func (r *recall) Foreign(signatures []string) map[string]bool {
	return r.memory.foreign(r.ctx, signatures, r.scope.Provider)
}

// Messages finds the reasoning of messages by the ids of their calls, and by their thinking.
// The request is decoded for that, because not all ids are unique beyond a conversation.
func (r *recall) Messages(list []perigee.Recalled) {
	if r.scope.isUnknown() {
		r.scope.prompt, _ = r.req.Prompt() // without it, what has an id of its own is found
	}
	var keys []string
	origins := make([]string, len(list))
	steps := make([]step, len(list))
	signed := make([][]string, len(list)) // the keys of signatures of calls
	var text textDigest
	for i := range list {
		for _, id := range list[i].Calls {
			if key := r.scope.thoughtsKey(id); id != "" && key != "" {
				steps[i].keys = append(steps[i].keys, key)
				signed[i] = append(signed[i], r.scope.callKey(id))
			}
		}
		if !list[i].Thinking.Empty() {
			origins[i] = r.scope.originKey(r.memory.sums.sum(list[i].Thinking, &text))
			keys = append(keys, origins[i])
		}
		keys = append(append(keys, steps[i].keys...), signed[i]...)
	}
	known := r.memory.find(r.ctx, keys)
	r.memory.follow(r.ctx, steps, known)
	for i := range list {
		at := &list[i]
		at.Known = steps[i].remembered(known, r.scope.Provider)
		at.Foreign = at.Known == nil && r.isForeign(append(append(signed[i], steps[i].keys...), origins[i]), known)
	}
}

// isForeign reports whether one of the entries is another provider's.
func (r *recall) isForeign(keys []string, known entries) bool {
	for _, key := range keys {
		if s := known[key]; s != nil && s.Kind != r.scope.Provider {
			return true
		}
	}
	return false
}
