package thoughtsig

import (
	"context"
	"slices"

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

// Messages finds the reasoning of messages by the ids of their calls, by their thinking and by what is
// sealed in them.
// The request is decoded for that, because not all ids are unique beyond a conversation.
func (r *recall) Messages(list []perigee.Recalled) {
	if r.scope.isUnknown() {
		r.scope.prompt, _ = r.req.Prompt() // without it, what has an id of its own is found
	}
	keys := make([]string, 0, 2*len(list))
	steps := make([]step, len(list))
	own := make([][]string, len(list)) // the keys of each message
	var text textDigest
	for i := range list {
		from := len(keys)
		if !list[i].Thinking.Empty() {
			keys = append(keys, r.scope.originKey(r.memory.sums.sum(list[i].Thinking, &text)))
		}
		for _, sealed := range list[i].Sealed {
			keys = append(keys, signatureKey(sealed))
		}
		calls := len(keys)
		keys = r.scope.addKeys(keys, thoughtsPrefix, list[i].Calls)
		steps[i].keys = slices.Clip(keys[calls:])
		keys = r.scope.addKeys(keys, callPrefix, list[i].Calls)
		own[i] = slices.Clip(keys[from:])
	}
	known := r.memory.find(r.ctx, keys)
	r.memory.follow(r.ctx, steps, known)
	for i := range list {
		list[i].Known = steps[i].remembered(known, r.scope.Provider)
		list[i].Foreign = list[i].Known == nil && r.isForeign(own[i], known)
	}
}

// addKeys appends the keys of ids that have one.
func (s *scope) addKeys(keys []string, prefix string, ids []string) []string {
	for _, id := range ids {
		if key := s.idKey(prefix, id); id != "" && key != "" {
			keys = append(keys, key)
		}
	}
	return keys
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
