package accounttests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// A thousand calls at once while accounts come and go. One account is left alone, and so every call
// is answered; without such a one a call may also be told, in so many words, that there was no
// account to ask.
func TestCallsWhileAccountsComeAndGo(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	const calls, further = 1000, 200
	c := newCrowd(t)
	c.ask(calls, c.provider.emails[1:])
	steady, answered := c.changes, c.answered
	for class, n := range c.refused {
		t.Errorf("%d calls were refused as %s although one account was always usable", n, class)
	}
	for _, email := range c.provider.emails[2:] {
		enable(t, c.owner, email, false)
	}
	c.ask(further, c.provider.emails[:2])
	for class := range c.refused {
		// No account is enabled; or the account was taken away while its token was on the way.
		if class != perigee.ClassUnauthenticated && class != perigee.ClassUnavailable {
			t.Errorf("calls were refused as %s", class)
		}
	}
	if answered != calls || c.answered == answered {
		t.Errorf("%d of %d calls were answered, and %d of the further ones", answered, calls, c.answered-answered)
	}
	t.Logf("%d concurrent calls during %d changes: %d answered, none refused; %d more during %d changes of all accounts: %d answered, refused %v",
		calls, steady, answered, further, c.changes-steady, c.answered-answered, c.refused)
}

// A crowd asks all at once while accounts are changed. Half of its calls stay open until there were
// changes enough, and the rest comes one after the other with the changes.
type crowd struct {
	t        *testing.T
	provider *turnstile
	gateway  *daemontest.Gateway
	owner    *daemontest.Owner

	mu       sync.Mutex
	changed  chan struct{} // closed by the next change
	changes  int
	enough   int
	answered int
	refused  map[perigee.Class]int
}

// changesPerCrowd is how many changes there are at least while a crowd asks.
const changesPerCrowd = 30

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, changed: make(chan struct{})}
	c.provider = newPacedTurnstile(t, 10, "3", func() {}, func(context.Context, time.Duration) error {
		c.waitFor(func() bool { return c.changes >= c.enough })
		return nil
	})
	c.gateway = daemontest.Start(t, daemontest.AntigravityConfig(c.provider.URL, "selection: round_robin\n    max_wait: 2s"), nil)
	c.owner = daemontest.AdminOf(t, c.gateway)
	for _, email := range c.provider.emails {
		refresh, _ := c.provider.consent(t, email)
		bringIn(t, c.owner, email, refresh)
	}
	return c
}

// waitFor returns when something holds; changes make it hold.
func (c *crowd) waitFor(holds func() bool) {
	for {
		c.mu.Lock()
		held, changed := holds(), c.changed
		c.mu.Unlock()
		if held {
			return
		}
		select {
		case <-changed:
		case <-c.t.Context().Done():
			return
		}
	}
}

// ask makes n calls while some accounts are changed. At the end these are there and enabled.
func (c *crowd) ask(n int, emails []string) {
	c.mu.Lock()
	c.refused = map[perigee.Class]int{}
	start := c.changes
	c.enough = start + changesPerCrowd
	c.mu.Unlock()
	var workers sync.WaitGroup
	called := make(chan struct{}, n)
	for i := range n {
		workers.Go(func() {
			if i%2 == 1 {
				c.waitFor(func() bool { return c.changes >= start+i%changesPerCrowd })
			}
			c.call(i)
			called <- struct{}{}
		})
	}
	over, end := context.WithCancel(c.t.Context())
	many := min(3, len(emails))
	for w := range many { // each has accounts of its own, so that it knows what it will be told
		workers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1000))
			for over.Err() == nil {
				change(c.t, c.owner, c.provider, emails[random.IntN((len(emails)-w+many-1)/many)*many+w], random.IntN(3))
				c.mu.Lock()
				c.changes++
				close(c.changed)
				c.changed = make(chan struct{})
				c.mu.Unlock()
			}
		})
	}
	for range n {
		await.Receive(c.t, called, "the end of a call")
	}
	end()
	await.Return(c.t, workers.Wait, "the end of the changes")
}

// call asks, with even numbers for an answer that takes its time.
func (c *crowd) call(i int) {
	text := fmt.Sprintf("Question %d. [[text: the answer is %d]]", i, i)
	if i%2 == 0 {
		text += " [[chunks: 4]] [[pace: 1s]]"
	}
	r, err := askIn(c.t.Context(), c.gateway.URL(), &dialectRigs[i/2%len(dialectRigs)], i%16 < 8, "gemini-3-flash", text)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.t.Errorf("call %d: %v", i, err)
	case r.answered():
		c.answered++
	default:
		if bad := r.explains(); bad != "" {
			c.t.Errorf("call %d: %s: %s", i, bad, r)
		}
		c.refused[perigee.Class(r.header.Get("X-Perigee-Class"))]++
	}
}

// change takes an account away in one of three ways and brings it back.
func change(t *testing.T, o *daemontest.Owner, p *turnstile, email string, how int) {
	switch how {
	case 0, 1:
		enable(t, o, email, false)
		enable(t, o, email, true)
	default:
		expectOK(t, o, http.MethodDelete, "/v1/accounts?email="+url.QueryEscape(email), "")
		refresh, _ := p.consent(t, email)
		bringIn(t, o, email, refresh)
	}
}

func enable(t *testing.T, o *daemontest.Owner, email string, enabled bool) {
	expectOK(t, o, http.MethodPatch, "/v1/accounts", fmt.Sprintf(`{"email":%q,"enabled":%v}`, email, enabled))
}

func bringIn(t *testing.T, o *daemontest.Owner, email, refresh string) {
	expectOK(t, o, http.MethodPost, "/v1/accounts", fmt.Sprintf(`[{"email":%q,"refresh_token":%q,"project_id":%q}]`, email, refresh, projectOf(email)))
}

func expectOK(t *testing.T, o *daemontest.Owner, method, path, body string) {
	status, answer, err := o.Do(t.Context(), method, path, body)
	if err != nil || status != http.StatusOK {
		t.Errorf("%s %s: %d %s %v", method, path, status, strings.TrimSpace(answer), err)
	}
}
