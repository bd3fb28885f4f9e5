package adapt

import (
	"crypto/sha256"
	"math/big"
	"strconv"
	"strings"

	"perigee"
)

// identify gives each call an id that Claude accepts and that no other call has, and its result the
// same one. The list is paired: the results of the model's calls come first in the content behind
// them, in the same order.
func identify(list []perigee.Content) {
	used := make(map[string]int, len(list)/2)
	var round []string // the ids of the calls in this round
	answered := 0      // how many of them have a result
	for i := range list {
		list[i].Parts = perigee.EditParts(list[i].Parts, func(p *perigee.Part) bool {
			switch {
			case p.Kind == perigee.PartCall:
				if answered == len(round) {
					round, answered = round[:0], 0
				}
				id := freeID(used, p.Call.ID)
				round = append(round, id)
				if id != p.Call.ID {
					call := *p.Call
					call.ID = id
					p.Call = &call
				}
			case p.Kind == perigee.PartResponse && answered < len(round):
				answered++
				if id := round[answered-1]; id != p.Response.ID {
					response := *p.Response
					response.ID = id
					p.Response = &response
				}
			}
			return true
		})
	}
}

// freeID makes an id legal and different from those before it.
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
	return strings.Map(func(r rune) rune { // which returns the same string while nothing changes
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, id)
}

// digestID returns an id of n letters and digits for another id, always the same one.
func digestID(id string, n int) string {
	sum := sha256.Sum256([]byte(id))
	return new(big.Int).SetBytes(sum[:]).Text(62)[:n]
}
