package doctor

import (
	"context"
	"fmt"
	"time"

	"perigee"
	"perigee/internal/store/config"
)

// nearlySpent is the fraction of a budget at which a key gets a warning.
const nearlySpent = 0.8

// Budgets checks how much of their daily budgets client keys have used.
type Budgets struct {
	Loaded *config.Loaded
	// Spent returns the usage of keys since a time, by their names. If that cannot be read, there
	// are no results: the check of the store reports the reason.
	Spent func(ctx context.Context, since time.Time) (map[string]perigee.Spent, error)
	Now   time.Time
}

// Check returns one result for each key with a budget.
func (b Budgets) Check(ctx context.Context) (results []Result) {
	var spent map[string]perigee.Spent
	for i, k := range b.Loaded.Config.Keys {
		if k.TokensPerDay == 0 && k.CostPerDay == 0 {
			continue
		}
		if spent == nil {
			var err error
			if spent, err = b.Spent(ctx, b.Now.UTC().Truncate(24*time.Hour)); err != nil {
				return nil
			}
		}
		results = append(results, b.key(i, k, spent[k.Name]))
	}
	return results
}

func (b Budgets) key(i int, k config.Key, spent perigee.Spent) Result {
	var results []Result
	for _, limit := range []struct {
		member    string
		max, used float64
		words     string
	}{
		{"cost_per_day", k.CostPerDay, spent.USD, fmt.Sprintf("%s of %s", perigee.USD(spent.USD), perigee.USD(k.CostPerDay))},
		{"tokens_per_day", float64(k.TokensPerDay), float64(spent.Tokens), fmt.Sprintf("%d of %d tokens", spent.Tokens, k.TokensPerDay)},
	} {
		check, detail := NameKey+k.Name, "used "+limit.words+" for today"
		fix := editOrigin(b.Loaded.Origins[fmt.Sprintf("keys[%d].%s", i, limit.member)])
		switch {
		case limit.max == 0:
		case limit.used >= limit.max:
			results = append(results, fail(check, fix, "%s: its calls get 429 until midnight UTC", detail))
		case limit.used >= nearlySpent*limit.max:
			results = append(results, warn(check, fix, "%s", detail))
		default:
			results = append(results, ok(check, "%s", detail))
		}
	}
	return merge(NameKey+k.Name, results)
}
