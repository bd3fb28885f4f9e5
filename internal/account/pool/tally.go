package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/steadyclock"
)

// A tally is how many accounts one cause keeps from being leased.
type tally struct {
	Kind   providererr.Kind
	Count  int
	First  steadyclock.Instant // when the first of them is back, or probed; 0 if never
	Probed bool                // it is probed, although it may have to cool down for longer
}

// tallies has one Tally for each cause.
type tallies []tally

// Add adds the accounts of a Tally.
func (list *tallies) Add(t tally) {
	i := slices.IndexFunc(*list, func(other tally) bool { return other.Kind == t.Kind })
	if i < 0 {
		*list = append(*list, t)
		return
	}
	sum := &(*list)[i]
	sum.Count += t.Count
	if t.First > 0 && (sum.First == 0 || t.First < sum.First) {
		sum.First, sum.Probed = t.First, t.Probed
	}
}

// Decisive returns the cause that an error reports: the one that ends first, or else the one that
// is easiest to remove. The list must not be empty.
func (list tallies) Decisive() tally {
	return slices.MinFunc(list, func(x, y tally) int {
		if (x.First == 0) != (y.First == 0) {
			return cmp.Compare(y.First, x.First)
		}
		return cmp.Or(cmp.Compare(x.First, y.First), causeEase(x.Kind)-causeEase(y.Kind))
	})
}

// Message states that no account is usable for a model, and lists the causes.
func (list tallies) Message(model string, now steadyclock.Instant) string {
	parts, total := make([]string, len(list)), 0
	for i, t := range list {
		total += t.Count
		parts[i] = fmt.Sprintf("%d %s", t.Count, cmp.Or(causeOf(t.Kind).Many, "cooling down ("+string(t.Kind)+")"))
		if t.First > now {
			when := "back"
			if t.Probed {
				when = "asked again"
			}
			parts[i] += fmt.Sprintf(" (%s in %s)", when, (t.First - now + time.Second - 1).Truncate(time.Second))
		}
	}
	if model != "" {
		model = " for " + model
	}
	return fmt.Sprintf("no account is usable%s; of %d: %s", model, total, strings.Join(parts, ", "))
}
