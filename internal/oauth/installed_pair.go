package oauth

import (
	"slices"

	"perigee"
)

// How near an id and a secret are that belong together.
const (
	nearEnough = 4 << 10
	// An id is a rival of the nearest one when it is not clearly further away: a list of clients has as much between two
	// of them as inside one.
	rivalTimes, rivalBytes = 2, 128
	maxGroup               = 256
)

// A pairing finds out which secret of a file belongs to which id: to the nearest. It does not guess between rivals, and
// reports each of them, unless ids and secrets take turns, as in a list of clients.
type pairing struct {
	found func(id string, secret perigee.Secret)
	group []sighting // each near enough to the next
}

// take takes the next id or secret of the file.
func (p *pairing) take(t sighting) {
	if n := len(p.group); n > 0 && (gap(p.group[n-1], t) > nearEnough || n == maxGroup) {
		p.end()
	}
	p.group = append(p.group, t)
}

// end says that nothing follows that is near enough.
func (p *pairing) end() {
	inTurn := takeTurns(p.group)
	for i, secret := range p.group {
		if secret.id != "" {
			continue
		}
		ids := rivals(p.group, secret)
		// The partner of the first is the second, of the third the fourth, whichever of them are the ids.
		if partner := i ^ 1; inTurn && slices.Contains(ids, p.group[partner].id) {
			ids = []string{p.group[partner].id}
		}
		for _, id := range ids {
			p.found(id, secret.secret)
		}
	}
	p.group = nil
}

// rivals are the ids that a secret may belong to.
func rivals(group []sighting, secret sighting) (ids []string) {
	nearest := int64(nearEnough + 1)
	for _, t := range group {
		if t.id != "" {
			nearest = min(nearest, gap(t, secret))
		}
	}
	limit := min(nearest*rivalTimes+rivalBytes, nearEnough)
	for _, t := range group {
		if t.id != "" && gap(t, secret) <= limit && !slices.Contains(ids, t.id) {
			ids = append(ids, t.id)
		}
	}
	return ids
}

// takeTurns says whether ids and secrets alternate, with as many of the ones as of the others.
func takeTurns(group []sighting) bool {
	for i := 1; i < len(group); i++ {
		if (group[i].id == "") == (group[i-1].id == "") {
			return false
		}
	}
	return len(group)%2 == 0
}

// gap is how many bytes there are between two of them.
func gap(a, b sighting) int64 { return max(b.at-a.end, a.at-b.end, 0) }
