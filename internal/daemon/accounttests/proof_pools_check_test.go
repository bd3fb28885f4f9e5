package accounttests

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/simulator"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// ask makes a call, in turns in all dialects, and checks all that has to be true of it. With must
// it has to be answered.
func (c *cell) ask(must bool) {
	c.t.Helper()
	n := c.asked
	c.asked++
	text := fmt.Sprintf("Question %d. [[text: the answer is %d and a few words more]] [[chunks: 4]]", n, n)
	before, began := c.unusable(), c.now()
	r, err := askIn(c.t.Context(), c.gateway.URL(), &dialectRigs[(n+len(c.emails))%len(dialectRigs)], n%2 == 0, c.model, text)
	if err != nil {
		c.t.Fatal(err)
	}
	await.Until(c.t, "the provider is done", func() bool { return c.open.Load() == 0 })
	calls := c.provider.Calls()[c.seen:]
	c.seen += len(calls)
	slices.SortStableFunc(calls, func(a, b simulator.Call) int { return a.Time.Compare(b.Time) })
	met := c.observe(n, calls)
	if r.answered() {
		c.answered++
		return
	}
	class := r.header.Get("X-Perigee-Class")
	c.refused[class]++
	bad := r.explains()
	switch {
	case bad != "":
	case must:
		bad = "it was to be answered"
	case !c.trouble.allows(r, c.moment.token):
		bad = "another error was expected"
	default:
		bad = c.excuse(before, met)
	}
	if bad == "" && r.status == http.StatusTooManyRequests {
		bad = c.wrongDelay(r, began)
	}
	if bad != "" {
		c.t.Errorf("call %d: %s: %s\nthe provider was asked by %v; before, %d could not be", n, bad, r, met, len(before))
	}
}

// unusable is the accounts that need not be asked now.
func (c *cell) unusable() map[string]bool {
	now := c.now()
	set := maps.Clone(c.stopped)
	for email, until := range c.out {
		if until.After(now) {
			set[email] = true
		}
	}
	return set
}

// A meeting is what one call met at the provider.
type meeting struct {
	struck    map[string]int  // by account
	given     map[string]bool // accounts that the trouble counts against
	hosts     map[string]bool // that were in trouble
	questions int
	strikes   int
}

func (m meeting) String() string {
	return fmt.Sprintf("%d questions, %d strikes on %v, given up %v", m.questions, m.strikes, slices.Sorted(maps.Keys(m.struck)), slices.Sorted(maps.Keys(m.given)))
}

// observe looks at what the provider was asked during a call.
func (c *cell) observe(n int, calls []simulator.Call) meeting {
	m := meeting{struck: map[string]int{}, given: map[string]bool{}, hosts: map[string]bool{}}
	braked := c.braked()
	for _, call := range calls {
		question := isQuestion(call)
		if question && call.Fault == "" && call.Status == http.StatusOK {
			clear(c.locked)
		}
		if question {
			m.questions++
			if until := c.resting[call.Account]; call.Time.Before(until) {
				c.t.Errorf("call %d: %s was asked %s before its rest was over", n, call.Account, until.Sub(call.Time))
			}
			if c.stopped[call.Account] {
				c.t.Errorf("call %d: %s was asked although it was stopped", n, call.Account)
			}
		}
		if question && call.Rule != "" && call.Fault == "" {
			c.t.Errorf("call %d: the provider refused a request because of %s", n, call.Rule)
		}
		if call.Fault == "" || !question && !c.moment.token || c.moment.token && call.Path != "/token" {
			continue
		}
		m.strikes++
		m.hosts[call.Host] = true
		if m.struck[call.Account]++; c.moment.token {
			c.giveUp(call, &m)
		} else if c.trouble.scope == scopeAccount && m.struck[call.Account] >= c.trouble.needs {
			c.giveUp(call, &m)
		}
	}
	for email := range m.struck {
		c.failed[email]++
	}
	c.requests += m.questions
	c.strikes += m.strikes
	switch {
	case m.questions > 100:
		c.t.Errorf("call %d: %d requests for one call", n, m.questions)
	case c.trouble.burns && !c.moment.token && len(m.given) > 2:
		c.t.Errorf("call %d: %d accounts were spent on one cause", n, len(m.given))
	case braked && m.questions > 0:
		c.t.Errorf("call %d: %d requests, although two accounts were locked in a row", n, m.questions)
	case len(c.locked) > 2:
		c.t.Errorf("call %d: %d accounts were locked in a row", n, len(c.locked))
	case c.trouble.scope == scopeHost && !c.moment.token && len(m.struck) > 2:
		c.t.Errorf("call %d: trouble of the provider's own moved it to %d accounts", n, len(m.struck))
	case c.trouble.scope == scopeHost && !c.moment.token && !c.trouble.moves && len(m.struck) > 1:
		c.t.Errorf("call %d: what is about the model moved it to another account", n)
	case c.spared() && len(c.stopped) > 2:
		c.t.Errorf("call %d: the sign-in server has cost %d accounts within a moment", n, len(c.stopped))
	}
	return m
}

// spared reports whether the sign-in server stops accounts. Two of them are enough to leave the
// rest alone.
func (c *cell) spared() bool { return c.moment.token && c.trouble.tokenState != "" }

// spareFor is how long accounts are spared after two other accounts were locked in a row.
const spareFor = 10 * time.Minute

// braked reports whether they are now.
func (c *cell) braked() bool { return len(c.locked) > 1 && c.now().Before(c.lockedAt.Add(spareFor)) }

// giveUp notes that trouble counts against an account.
func (c *cell) giveUp(call simulator.Call, m *meeting) {
	m.given[call.Account] = true
	state := c.trouble.state
	if c.moment.token {
		state = c.trouble.tokenState
	}
	if state == perigee.AccountBanned || state == perigee.AccountVerification {
		c.locked[call.Account], c.lockedAt = true, call.Time
	}
	if c.moment.token {
		c.out[call.Account] = call.Time.Add(10 * time.Second)
		if c.trouble.tokenState != "" {
			c.stopped[call.Account] = true
		}
		return
	}
	c.out[call.Account] = call.Time.Add(c.trouble.out)
	if c.trouble.rests > 0 {
		c.resting[call.Account] = call.Time.Add(c.trouble.rests)
	}
	if c.trouble.state != "" {
		c.stopped[call.Account] = true
	}
}

// mostLoans is how many accounts one call tries.
const mostLoans = 20

// excuse is empty when a call had a reason to fail: there was no account, and no endpoint, left to
// ask.
func (c *cell) excuse(before map[string]bool, m meeting) string {
	all := maps.Clone(before)
	maps.Copy(all, m.given)
	everybody := len(all) == len(c.emails)
	switch {
	case c.braked():
	case c.spared() && len(c.stopped) == 2:
	case c.moment.token:
		if !everybody && len(m.given) < 3 {
			return "others could have been asked"
		}
	case c.trouble.scope == scopeAccount:
		spent := c.trouble.burns && len(m.given) == 2 || c.trouble.alike && len(all) > 1 || m.questions == mostLoans
		if !everybody && !spent {
			return "others could have been asked"
		}
		if c.trouble.brief && m.strikes == 1 && len(before) == 0 {
			return "it was worth waiting for"
		}
	case c.trouble.scope == scopeHost:
		if len(m.hosts) < len(c.hosts) {
			return "another endpoint could have been asked"
		}
		if c.trouble.moves && len(m.struck) < min(2, len(c.emails)) {
			return "another account could have been asked"
		}
		least := 2 * len(c.hosts)
		if c.trouble.hangs {
			least-- // on a busy machine first_byte is over before one of the requests has reached the provider
		}
		if c.trouble.again && len(c.emails) == 1 && m.strikes < least {
			return "it could have been asked again"
		}
	case m.strikes < c.trouble.needs:
		return "it could have been asked again"
	}
	return ""
}

// wrongDelay says what is wrong with Retry-After where the provider told how long. The call began
// when the clock said so, and what it takes was true at some moment from then on.
func (c *cell) wrongDelay(r *reply, began time.Time) string {
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		return "Retry-After is no number of seconds"
	}
	if !c.trouble.announced || c.moment.token {
		return ""
	}
	first := time.Time{}
	for _, until := range c.resting {
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	least, most := first.Sub(c.now())-time.Second, first.Sub(began)+3*time.Second
	if got := time.Duration(seconds) * time.Second; got < least || got > most {
		return fmt.Sprintf("Retry-After is %s, and it takes %s to %s", got, least, most)
	}
	return ""
}

// standing checks what the owner sees: an account that was not at fault is ready and has no
// cooldown.
func (c *cell) standing(when string) {
	now := c.now()
	for _, row := range daemontest.Rows[perigee.AccountRow](c.t, c.owner, "/v1/accounts") {
		state := perigee.AccountReady
		if c.stopped[row.Email] {
			state = c.trouble.state
			if c.moment.token {
				state = c.trouble.tokenState
			}
		}
		if row.State != state || !row.Enabled {
			c.t.Errorf("%s: %s is %s (%s), want %s", when, row.Email, row.State, row.Reason, state)
		}
		if len(row.Cooldowns) > 0 && !c.out[row.Email].After(now) && !c.restsRightly(row) {
			c.t.Errorf("%s: %s rests, but had no part in it: %v", when, row.Email, row.Cooldowns)
		}
	}
}

// restsRightly reports whether an account has a cooldown although it need not be left alone:
// because other accounts go first.
func (c *cell) restsRightly(row perigee.AccountRow) bool {
	reason := row.Cooldowns[0].Reason
	return len(row.Cooldowns) == 1 && (reason == "breaker_open" && c.braked() || reason == "unavailable" && c.failed[row.Email] >= 3)
}

// tallied adds up cells.
type tallied struct {
	mu                                        sync.Mutex
	cells, calls, answered, requests, strikes int
	refused                                   map[string]int
}

func (n *tallied) add(c *cell) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cells++
	n.calls += c.asked
	n.answered += c.answered
	n.requests += c.requests
	n.strikes += c.strikes
	if n.refused == nil {
		n.refused = map[string]int{}
	}
	for class, count := range c.refused {
		n.refused[class] += count
	}
}

func (n *tallied) String() string {
	var list []string
	for _, class := range slices.Sorted(maps.Keys(n.refused)) {
		name := class
		if name == "" {
			name = "broken off in the stream"
		}
		list = append(list, fmt.Sprintf("%d %s", n.refused[class], name))
	}
	return fmt.Sprintf("%d kinds of trouble at %d moments for pools of 1, 3 and 20: %d scripts, %d calls, %d requests upstream, %d of them in trouble; %d answered, refused: %s",
		len(troubles), len(moments), n.cells, n.calls, n.requests, n.strikes, n.answered, strings.Join(list, ", "))
}
