package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"perigee"
)

// Resting returns the reason why a call for a model would be refused now: each API key has a
// cooldown, the first until the returned time. It returns "" if there is no reason.
func (u *Upstream) Resting(model string) (why string, until time.Time) {
	u.keys.mu.Lock()
	defer u.keys.mu.Unlock()
	now := u.opts.Now()
	if until = u.keys.cooldownEnd(quota{model: model}, now); until.IsZero() {
		return "", until
	}
	done := "refused"
	if slices.ContainsFunc(u.keys.keys, func(k *key) bool { return !k.until.After(now) }) {
		done = "limited"
	}
	if len(u.keys.keys) == 1 {
		return fmt.Sprintf("the provider has %s its %s", done, u.credential()), until
	}
	return fmt.Sprintf("the provider has %s its %d API keys", done, len(u.keys.keys)), until
}

// cooldownEnd returns the end of the first cooldown of a key for a quota, or the zero time if a key
// has none. The caller holds the lock.
func (r *keyring) cooldownEnd(q quota, now time.Time) (until time.Time) {
	for _, k := range r.keys {
		rest := k.rest(q, now)
		if rest == 0 {
			return time.Time{}
		}
		if end := now.Add(rest); until.IsZero() || end.Before(until) {
			until = end
		}
	}
	return until
}

// KeyProblems returns the models for which all keys have a cooldown, and the keys that the
// provider has refused since they were last accepted.
func (u *Upstream) KeyProblems() (list []perigee.KeyProblem) {
	now := u.opts.Now()
	u.keys.mu.Lock()
	defer u.keys.mu.Unlock()
	limited := map[quota]time.Time{}
	var refused []string
	for _, k := range u.keys.keys {
		for q := range k.models {
			if until := u.keys.cooldownEnd(q, now); q.operation == "" && !until.IsZero() {
				limited[q] = until
			}
		}
		if !k.rejected.IsZero() || k.until.After(now) {
			refused = append(refused, fmt.Sprint(k.number))
		}
	}
	all, name := len(u.keys.keys), u.opts.Name
	if len(refused) > 0 {
		why := fmt.Sprintf("the provider refuses API key %s of %d", strings.Join(refused, " and "), all)
		switch {
		case u.keyless:
			why = noKeys
		case u.access != nil:
			why = "the provider refuses its access token"
		}
		list = append(list, perigee.KeyProblem{Upstream: name, Why: why})
	}
	for _, q := range slices.SortedFunc(maps.Keys(limited), func(a, b quota) int { return strings.Compare(a.model, b.model) }) {
		why := "its " + u.credential() + " is limited"
		if all > 1 {
			why = fmt.Sprintf("its %d API keys are limited", all)
		}
		list = append(list, perigee.KeyProblem{Upstream: name, Model: q.model, Why: why, Until: limited[q].UTC().Truncate(time.Second)})
	}
	return list
}
