package pool

import (
	"slices"

	"perigee/internal/adapt/models"
)

// A group is a set of models that the provider counts together.
type group string

const (
	groupGemini  group = "gemini"
	groupThird   group = "claude" // and gpt-oss, which the provider counts with it
	groupImage   group = "image"
	groupOther   group = "other"
	groupControl group = "" // calls that ask no model
)

func groupOf(req Request) group {
	family := req.Family
	if family == models.Other {
		if req.Model == "" {
			return groupControl
		}
		family = models.Of(req.Model).Family
	}
	switch family {
	case models.Gemini, models.Gemini2:
		return groupGemini
	case models.Claude, models.GPTOSS:
		return groupThird
	case models.Image:
		return groupImage
	}
	return groupOther
}

// A quotaGroup is a group of models in one pool of quota. The cooldowns of an account in one quota
// group do not affect the other groups.
type quotaGroup struct {
	id    int // place in member.cooldowns and member.least
	group group
	pool  string

	current *member // the account of sticky and hybrid selection; nil if there is none yet
	turn    int     // index of the member that round robin has chosen last

	lastUnexplained occurrence // the last refusal without a reason
	served          instant    // start of the latest call that was answered
	probedAt        instant    // when a call was last let through to an account that cools down
}

// A occurrence is when something was seen, and with which account.
type occurrence struct {
	member *member
	at     instant
}

func newQuotaGroups(pools []string) (list []*quotaGroup) {
	add := func(g group, pool string) {
		list = append(list, &quotaGroup{id: firstGroup + len(list), group: g, pool: pool, turn: -1})
	}
	for i, pool := range pools {
		if (pool == PoolAntigravity || pool == PoolCLI) && !slices.Contains(pools[:i], pool) {
			add(groupGemini, pool)
		}
	}
	if slices.Contains(pools, PoolAntigravity) {
		add(groupThird, PoolAntigravity)
		add(groupImage, PoolAntigravity)
		add(groupOther, PoolAntigravity)
	}
	add(groupControl, PoolAntigravity) // lists and counts use no quota
	return list
}
