package prepare

import (
	"slices"
	"strconv"
	"strings"

	"perigee"
)

// identify gives each call an id that Claude takes and that no other call has, and its result the same one. The list is
// paired: the results of the model's calls stand first in the content behind them, in the same order.
func identify(list []perigee.Content) {
	g := ids{used: make(map[string]int, len(list)/2)}
	for i := range list {
		list[i].Parts = g.give(list[i].Parts)
	}
}

// ids are those that the calls of a conversation have been given so far.
type ids struct {
	used     map[string]int
	calls    []string // of the calls of this round
	answered int      // how many of them have a result
}

// give returns the parts of a turn with their ids. The parts given stay as they are.
func (g *ids) give(parts []perigee.Part) []perigee.Part {
	owned := false
	for i := range parts {
		old, id := g.next(&parts[i])
		if id == old {
			continue
		}
		if !owned {
			parts, owned = slices.Clone(parts), true
		}
		switch part := &parts[i]; part.Kind {
		case perigee.PartCall:
			call := *part.Call
			call.ID = id
			part.Call = &call
		case perigee.PartResponse:
			response := *part.Response
			response.ID = id
			part.Response = &response
		}
	}
	return parts
}

// next returns the id that a call or a result has, and the one that it gets.
func (g *ids) next(p *perigee.Part) (old, id string) {
	switch {
	case p.Kind == perigee.PartCall:
		if g.answered == len(g.calls) {
			g.calls, g.answered = g.calls[:0], 0
		}
		id = freeID(g.used, p.Call.ID)
		g.calls = append(g.calls, id)
		return p.Call.ID, id
	case p.Kind == perigee.PartResponse && g.answered < len(g.calls):
		g.answered++
		return p.Response.ID, g.calls[g.answered-1]
	}
	return "", ""
}

// freeID makes an id legal and unlike those before it.
func freeID(used map[string]int, id string) string {
	id = legalID(id)
	for {
		n := used[id] + 1
		used[id] = n
		if n == 1 {
			return id
		}
		next := id + "_" + strconv.Itoa(n)
		if used[next] == 0 {
			used[next] = 1
			return next
		}
	}
}

func legalID(id string) string {
	if id == "" {
		return "call"
	}
	legal := func(r rune) bool {
		return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	for i := range len(id) {
		if !legal(rune(id[i])) {
			return strings.Map(func(r rune) rune {
				if legal(r) {
					return r
				}
				return '_'
			}, id)
		}
	}
	return id
}
