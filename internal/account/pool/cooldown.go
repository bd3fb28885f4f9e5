package pool

import (
	"cmp"
	"iter"
	"log/slog"
	"slices"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/steadyclock"
)

// How long accounts cool down.
const (
	// longestBrief is the longest delay for which waiting is better than losing the prompt cache.
	longestBrief = 3 * time.Second
	// maxBriefs is how many brief cooldowns in a row are waited for.
	maxBriefs = 3
	// grace is added to the delays of the provider, which are sometimes a little short.
	grace            = 500 * time.Millisecond
	notFoundCooldown = 10 * time.Minute
	// worthStoring is the shortest cooldown that is stored.
	worthStoring = 30 * time.Second

	// probeEvery is how often one call per quota group is let through to an account that cools
	// down, when no account is usable. A guessed cooldown is probed once it is that old, and a
	// cooldown from the provider when it is older than believed: the provider may name a week, and
	// then reset the window, or sell more quota, before that.
	probeEvery = time.Minute
	believed   = time.Hour
)

// guesses are the cooldowns after failures for which the provider gives no duration; the other
// kinds follow providererr.Ladder.
var guesses = map[providererr.Kind]time.Duration{
	providererr.KindProject:         10 * time.Minute,
	providererr.KindCredits:         30 * time.Minute,
	providererr.KindUnauthenticated: time.Minute, // a new access token was refused as well
}

// A cooldown is a time during which an account is not used: as a whole, for one quota group, or for
// one model.
type cooldown struct {
	group   *quotaGroup // nil for the whole account
	missing bool        // it is for a model that the account does not have

	since        instant
	until        instant          // if not after the present, there is no cooldown
	kind         providererr.Kind // why
	fromProvider bool             // the provider gave the duration; otherwise it is a guess
	brief        bool             // so short that waiting is better than another account
	model        string           // that was asked

	failures int       // in a row without a delay: the step of providererr.Ladder
	briefs   int       // brief cooldowns in a row
	failedAt instant   // when the last failure was counted
	endedAt  instant   // when quota figures last ended it
	stored   time.Time // its end as last stored, by this pool or another
}

// active ranges over the cooldowns of the account that are not over.
func (m *member) active() iter.Seq[*cooldown] {
	return func(yield func(*cooldown) bool) {
		for _, list := range [][]cooldown{m.cooldowns, m.missing} {
			for i := range list {
				if list[i].until > m.pool.now && !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// doubtAt returns when the account may be probed although it cools down.
func (c *cooldown) doubtAt() instant {
	if c.fromProvider {
		return c.since + believed
	}
	return c.since + probeEvery
}

func (p *Pool) public(c *cooldown) perigee.Cooldown {
	pub := perigee.Cooldown{Until: p.date(c.until).UTC(), Reason: string(c.kind)}
	if c.group != nil {
		pub.Family, pub.Pool = string(c.group.group), c.group.pool
	}
	return pub
}

// A failure is a reason for a cooldown.
type failure struct {
	kind  providererr.Kind
	delay time.Duration // as given by the provider; 0 if it gave none
	model string
	began instant // of the call that failed
}

// startCooldown starts or extends a cooldown, and reports whether the failure counts. Of several
// calls that were under way together only the first does: the later failures have no information
// about the time since.
func (m *member) startCooldown(c *cooldown, f failure) (counts bool) {
	now := m.pool.now
	counts = f.began > c.failedAt
	fromProvider := f.delay > 0
	brief := fromProvider && f.delay <= longestBrief
	if counts {
		if exhausted(f.kind) && c.endedAt > 0 && now-c.endedAt < lookEvery {
			m.lookAt = max(m.lookAt, now+lookAfterWrong) // the figures were wrong
		}
		c.failedAt = now
		c.briefs++
		if !brief {
			c.briefs = 0
		}
		if !fromProvider {
			c.failures++
		}
	}
	d := min(f.delay, providererr.MaxDelay) + grace
	if !fromProvider {
		d = cmp.Or(guesses[f.kind], providererr.Ladder(max(c.failures, 1)))
	}
	replaces := fromProvider && !c.fromProvider || fromProvider == c.fromProvider && now+d > c.until && (counts || fromProvider)
	if c.until > now && !replaces {
		if counts {
			c.since = now // it is confirmed
		}
		return counts
	}
	c.since, c.until, c.kind, c.fromProvider, c.model = now, now+d, f.kind, fromProvider, f.model
	c.brief = brief && c.briefs <= maxBriefs
	if d >= worthStoring {
		m.save(c)
	}
	m.pool.logAfter(slog.LevelInfo, "account cooled down",
		"account", m.email, "kind", f.kind, "model", f.model, "for", d.Round(time.Millisecond))
	return counts
}

// endCooldown ends a cooldown before its time.
func (m *member) endCooldown(c *cooldown) {
	stored := c.until-c.since >= worthStoring
	c.until, c.brief = m.pool.now, false
	if stored {
		m.save(c)
	}
}

// clearCooldown ends a cooldown and resets its count of failures.
func (m *member) clearCooldown(c *cooldown) {
	c.failures, c.briefs = 0, 0
	if c.until > m.pool.now {
		m.endCooldown(c)
	}
}

func (m *member) clearCooldowns() {
	m.missing = nil
	for i := range m.cooldowns {
		m.clearCooldown(&m.cooldowns[i])
	}
}

// save stores a cooldown, which may be over by now. The one of provider faults is never stored.
func (m *member) save(c *cooldown) {
	if c == &m.cooldowns[providerFaults] {
		return
	}
	pub := m.pool.public(c)
	if c.until > m.pool.now {
		c.stored = pub.Until
	}
	if m.pool.opts.Store != nil {
		key := cooldownKey{m.signIn.Upstream, m.email, pub.Family, pub.Pool}
		m.pool.cooldowns.Put(key, storedCooldown{key, pub})
	}
}

// restore takes over the cooldowns that other pools have stored since. It skips those that this
// pool has stored itself or has taken over before, even if the pool has ended them since.
func (m *member) restore() {
	p := m.pool
	for _, stored := range m.signIn.Cooldowns {
		c := m.cooldownOf(stored)
		if c == nil || stored.Until.Sub(c.stored).Abs() < time.Millisecond {
			continue
		}
		c.stored = stored.Until
		d := min(stored.Until.Sub(p.opts.Now()), providererr.MaxDelay)
		if d <= 0 || p.now+d <= c.until {
			continue
		}
		c.since, c.until, c.kind, c.fromProvider, c.brief, c.model = p.now, p.now+d, providererr.Kind(stored.Reason), true, false, ""
	}
}

// cooldownOf returns the cooldown for a stored one; nil if the pool does not have its quota group.
func (m *member) cooldownOf(stored perigee.Cooldown) *cooldown {
	if stored.Family == "" && stored.Pool == "" {
		return &m.cooldowns[wholeAccount]
	}
	for _, g := range m.pool.groups {
		if string(g.group) == stored.Family && g.pool == stored.Pool {
			return &m.cooldowns[g.id]
		}
	}
	return nil
}

// maxMissing limits the models that an account is recorded not to have. There are fewer real ones:
// the other names are misspelt, and the oldest are dropped.
const maxMissing = 32

// missingModel returns the cooldown of a model that the account does not have; nil if it may have
// the model.
func (m *member) missingModel(g *quotaGroup, model string) *cooldown {
	for i := range m.missing {
		if c := &m.missing[i]; c.group == g && c.model == model {
			return c
		}
	}
	return nil
}

// setMissing records that the account does not have a model, or may not use it. Whether such a
// model exists is shown when another account has it.
func (m *member) setMissing(g *quotaGroup, model string, kind providererr.Kind) {
	c := m.missingModel(g, model)
	if c == nil {
		if len(m.missing) >= maxMissing {
			noted := func(c cooldown) instant {
				if !m.pool.servedLately(c.model) { // it may not exist, and is dropped first
					return c.since - steadyclock.Start
				}
				return c.since
			}
			oldest := slices.MinFunc(m.missing, func(a, b cooldown) int { return cmp.Compare(noted(a), noted(b)) })
			m.clearMissing(oldest.group, oldest.model)
		}
		m.missing = append(m.missing, cooldown{})
		c = &m.missing[len(m.missing)-1]
	}
	now := m.pool.now
	*c = cooldown{group: g, missing: true, since: now, until: now + notFoundCooldown, kind: kind, model: model}
}

func (m *member) clearMissing(g *quotaGroup, model string) {
	m.missing = slices.DeleteFunc(m.missing, func(c cooldown) bool { return c.group == g && c.model == model })
}

const (
	servedAge = time.Hour // how long a model that was served is known to exist
	maxServed = 256       // models that are remembered; there are fewer
)

// servedLately reports whether some account is known to have a model.
func (p *Pool) servedLately(model string) bool {
	at, ok := p.served.Get(model)
	return ok && p.now-at < servedAge
}
