package dialect

import (
	"slices"

	"perigee"
)

// Searches collects the searches of an answer. The zero value is ready to use.
type Searches struct {
	list    []*perigee.Grounding // none is covered by the next one
	queries map[string]bool      // that the client has received
	urls    map[string]bool
}

// Add adds grounding from the provider. Some models repeat it with every piece of an answer, each
// time with more: then the later one replaces the earlier one. Some models report each search once.
func (t *Searches) Add(g *perigee.Grounding) {
	if g == nil {
		return
	}
	if last := len(t.list) - 1; last >= 0 && covers(g, t.list[last]) {
		t.list[last] = g
		return
	}
	t.list = append(t.list, g)
}

// covers reports whether g includes all of before.
func covers(g, before *perigee.Grounding) bool {
	for _, query := range before.Queries {
		if !slices.Contains(g.Queries, query) {
			return false
		}
	}
	for _, source := range before.Sources {
		if !slices.ContainsFunc(g.Sources, func(s perigee.Source) bool { return s.URL == source.URL }) {
			return false
		}
	}
	return true
}

// New returns the searches that the client has not received, and marks them as received.
func (t *Searches) New() []perigee.Grounding {
	if t.queries == nil {
		t.queries, t.urls = map[string]bool{}, map[string]bool{}
	}
	var list []perigee.Grounding
	for _, g := range t.list {
		var fresh perigee.Grounding
		for _, query := range g.Queries {
			if !t.queries[query] {
				t.queries[query] = true
				fresh.Queries = append(fresh.Queries, query)
			}
		}
		for _, source := range g.Sources {
			if !t.urls[source.URL] {
				t.urls[source.URL] = true
				fresh.Sources = append(fresh.Sources, source)
			}
		}
		if len(fresh.Queries) > 0 || len(fresh.Sources) > 0 {
			list = append(list, fresh)
		}
	}
	return list
}

// All returns the grounding of the whole answer, or nil if there is none.
func (t *Searches) All() *perigee.Grounding {
	if len(t.list) < 2 {
		for _, g := range t.list {
			return g
		}
		return nil
	}
	all := &perigee.Grounding{}
	for _, g := range t.list {
		before := int64(len(all.Sources))
		all.Queries = append(all.Queries, g.Queries...)
		all.Sources = append(all.Sources, g.Sources...)
		for _, s := range g.Supports {
			own := make([]int64, 0, len(s.Sources))
			for _, i := range s.Sources {
				if i >= 0 && i < int64(len(g.Sources)) {
					own = append(own, before+i)
				}
			}
			s.Sources = own
			all.Supports = append(all.Supports, s)
		}
	}
	return all
}
