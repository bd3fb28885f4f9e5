package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee/internal/adapt/providererr"
)

// A tally is how many accounts one cause keeps from being leased.
type tally struct {
	kind   providererr.Kind
	count  int
	first  instant // when the first of them is back, or probed; 0 if never
	probed bool    // it is probed, although it may have to cool down for longer
}

// tallies has one tally for each cause.
type tallies []tally

// add adds the accounts of a tally.
func (list *tallies) add(t tally) {
	i := slices.IndexFunc(*list, func(other tally) bool { return other.kind == t.kind })
	if i < 0 {
		*list = append(*list, t)
		return
	}
	sum := &(*list)[i]
	sum.count += t.count
	if t.first > 0 && (sum.first == 0 || t.first < sum.first) {
		sum.first, sum.probed = t.first, t.probed
	}
}

// decisive returns the cause that an error reports: the one that ends first, or else the one that
// is easiest to remove. The list must not be empty.
func (list tallies) decisive() tally {
	return slices.MinFunc(list, func(x, y tally) int {
		if (x.first == 0) != (y.first == 0) {
			return cmp.Compare(y.first, x.first)
		}
		return cmp.Or(cmp.Compare(x.first, y.first), causeEase(x.kind)-causeEase(y.kind))
	})
}

// message states that no account is usable for a model, and lists the causes.
func (list tallies) message(model string, now instant) string {
	parts, total := make([]string, len(list)), 0
	for i, t := range list {
		total += t.count
		parts[i] = fmt.Sprintf("%d %s", t.count, cmp.Or(causeOf(t.kind).many, "cooling down ("+string(t.kind)+")"))
		if t.first > now {
			when := "back"
			if t.probed {
				when = "asked again"
			}
			parts[i] += fmt.Sprintf(" (%s in %s)", when, (t.first - now + time.Second - 1).Truncate(time.Second))
		}
	}
	if model != "" {
		model = " for " + model
	}
	return fmt.Sprintf("no account is usable%s; of %d: %s", model, total, strings.Join(parts, ", "))
}
