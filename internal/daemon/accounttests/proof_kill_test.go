package accounttests

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/store/sqlstore"
	"perigee/internal/store/vault"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

var kills = flag.Int("kills", 10, "how often TestKilledWhileTokensRotate kills the daemon")

// Five hundred kills, by hand with -kills 500: whatever a daemon had confirmed before it was killed
// holds afterwards. Its provider, which rotates tokens and lives on, says which tokens are still
// good.
func TestKilledWhileTokensRotate(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	l := newKillLoop(t)
	n := 0
	for ; n < *kills || n < 5**kills && l.tooLittle(); n++ { // daemons on a slow machine get less done before they are killed
		l.live()
		l.examine(n)
		if t.Failed() {
			break
		}
	}
	if l.tooLittle() {
		t.Errorf("too little happened: %d imports, %d removals, %d uses, %d rotations", l.imports, l.removals, l.uses, l.rotations)
	}
	t.Logf("%d kills: %d imports, %d removals, %d uses, %d rotations (%d cut off before they were stored), %d answers; %d lost, %d resurrected, database %s",
		n, l.imports, l.removals, l.uses, l.rotations, l.forgiven, l.answers, l.lost, l.resurrected, map[bool]string{true: "damaged", false: "intact"}[l.damaged])
}

// tooLittle reports whether so little has been confirmed that surviving it proves nothing.
func (l *killLoop) tooLittle() bool {
	return l.imports < *kills/2 || l.removals < *kills/4 || l.uses < *kills/4 || l.rotations < *kills
}

// A killLoop is a data directory whose daemons are killed, with what they have confirmed.
type killLoop struct {
	t        *testing.T
	dir      string
	provider *turnstile
	config   string
	random   *rand.Rand

	mu       sync.Mutex
	known    map[string]*confirmed // by email
	events   int
	fatal    int           // the event at which the daemon is killed
	reached  chan struct{} // closed then
	imports  int
	removals int
	uses     int
	answers  int

	using     bool            // the mark is being moved
	preferred map[string]bool // the accounts that may be preferred, as far as was confirmed; empty means none

	rotations, forgiven, lost, resurrected int
	damaged                                bool
}

// A confirmed is what is known of one account. While it is being changed by a daemon that may not
// live to say so it is both.
type confirmed struct {
	there, unsure bool
	chain         int // of the sign-in that was imported last
	busy          bool
}

const people = 12

func newKillLoop(t *testing.T) *killLoop {
	l := &killLoop{t: t, dir: daemontest.DataDir(t), random: rand.New(rand.NewPCG(5, 500)), known: map[string]*confirmed{}, preferred: map[string]bool{"": true}}
	l.provider = newTurnstile(t, people, "0.04", l.happened)
	l.config = daemontest.AntigravityConfig(l.provider.URL, "selection: round_robin\n    max_wait: 1s")
	for _, email := range l.provider.emails {
		l.known[email] = &confirmed{}
	}
	return l
}

// happened counts what goes on until it is time to kill.
func (l *killLoop) happened() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events++; l.events == l.fatal {
		close(l.reached)
	}
}

// live runs a daemon, keeps it busy and kills it.
func (l *killLoop) live() {
	l.mu.Lock()
	l.events, l.fatal, l.reached = 0, 1+l.random.IntN(60), make(chan struct{})
	seed := l.random.Uint64()
	l.mu.Unlock()
	l.provider.shutOff(false)
	c := daemontest.StartChild(l.t, l.config, l.dir)
	token, err := os.ReadFile(filepath.Join(l.dir, "admin.token"))
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	var workers sync.WaitGroup
	for i := range uint64(2) {
		workers.Go(func() {
			l.manage(ctx, &daemontest.Owner{Base: c.URL, Token: strings.TrimSpace(string(token))}, rand.New(rand.NewPCG(seed, i)))
		})
	}
	for i := range 3 {
		workers.Go(func() { l.converse(ctx, c.URL, i) })
	}
	await.Receive(l.t, l.reached, "something to happen")
	c.Kill(l.t)
	l.provider.shutOff(true)
	cancel()
	await.Return(l.t, workers.Wait, "the workers")
}

// manage imports, prefers and removes accounts until the daemon is gone.
func (l *killLoop) manage(ctx context.Context, o *daemontest.Owner, random *rand.Rand) {
	for ctx.Err() == nil {
		email, there := l.take(random)
		var ok bool
		switch random.IntN(3) {
		case 0:
			ok = there && l.remove(ctx, o, email) || !there && l.sign(ctx, o, email)
		case 1:
			ok = there && l.use(ctx, o, email) || !there && l.sign(ctx, o, email)
		default:
			ok = l.sign(ctx, o, email)
		}
		if !ok {
			return
		}
		l.happened()
	}
}

// take reserves an account for a change.
func (l *killLoop) take(random *rand.Rand) (email string, there bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		email = l.provider.emails[random.IntN(people)]
		if c := l.known[email]; !c.busy {
			c.busy = true
			return email, c.there
		}
	}
}

// sign imports a new sign-in of an account. One that was not confirmed stays unsure until it is
// examined, as with all changes.
func (l *killLoop) sign(ctx context.Context, o *daemontest.Owner, email string) bool {
	l.begin(func() { l.known[email].unsure = true })
	refresh, chain := l.provider.consent(l.t, email)
	return l.end(email, l.imported(ctx, o, email, refresh), func() {
		l.imports++
		*l.known[email] = confirmed{there: true, chain: chain}
	})
}

// remove forgets an account, and with it the mark if it has it.
func (l *killLoop) remove(ctx context.Context, o *daemontest.Owner, email string) bool {
	l.begin(func() {
		l.known[email].unsure = true
		if l.preferred[email] {
			l.preferred[""] = true
		}
	})
	status, body, err := o.Do(ctx, http.MethodDelete, "/v1/accounts?email="+url.QueryEscape(email), "")
	return l.end(email, l.confirms(status, body, err, "remove "+email), func() {
		l.removals++
		*l.known[email] = confirmed{}
		delete(l.preferred, email)
	})
}

// use prefers an account. Two at a time would leave open which was the last.
func (l *killLoop) use(ctx context.Context, o *daemontest.Owner, email string) bool {
	busy := false
	l.begin(func() {
		if busy = l.using; !busy {
			l.using, l.preferred[email] = true, true
		}
	})
	if busy {
		return l.sign(ctx, o, email)
	}
	status, body, err := o.Do(ctx, http.MethodPost, "/v1/accounts/use", fmt.Sprintf(`{"email":%q}`, email))
	ok := l.confirms(status, body, err, "use "+email)
	l.begin(func() { l.using = false })
	return l.end(email, ok, func() {
		l.uses++
		l.preferred = map[string]bool{email: true}
	})
}

// begin notes that from here on a value is unsure.
func (l *killLoop) begin(note func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	note()
}

// end notes what was confirmed, and gives the account back.
func (l *killLoop) end(email string, ok bool, note func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ok {
		note()
	}
	l.known[email].busy = false
	return ok
}

// imported reports whether the daemon confirmed an import. One that is not answered is not
// confirmed; any other answer is wrong.
func (l *killLoop) imported(ctx context.Context, o *daemontest.Owner, email, refresh string) bool {
	document := fmt.Sprintf(`[{"email":%q,"refresh_token":%q,"project_id":%q}]`, email, refresh, projectOf(email))
	status, body, err := o.Do(ctx, http.MethodPost, "/v1/accounts", document)
	return l.confirms(status, body, err, "import "+email)
}

func (l *killLoop) confirms(status int, body string, err error, what string) bool {
	if err == nil && status != http.StatusOK {
		l.t.Errorf("%s: %d %s", what, status, body)
	}
	return err == nil && status == http.StatusOK
}

// converse asks models until the daemon is gone, so that accounts are used and their tokens
// renewed.
func (l *killLoop) converse(ctx context.Context, base string, who int) {
	for n := 0; ; n++ {
		question := fmt.Sprintf(`{"contents":[{"parts":[{"text":"Question %d of %d"}]}]}`, n, who)
		o := daemontest.Owner{Base: base}
		status, _, err := o.Do(ctx, http.MethodPost, "/v1beta/models/gemini-3-flash:generateContent", question)
		if err != nil {
			return
		}
		if status == http.StatusOK {
			l.mu.Lock()
			l.answers++
			l.mu.Unlock()
		}
	}
}

// examine compares what is stored with what was confirmed, and with what the provider takes.
func (l *killLoop) examine(n int) {
	t := l.t
	t.Helper()
	path := filepath.Join(l.dir, "perigee.db")
	if verdict := integrity(t, path); verdict != "ok" {
		l.damaged = true
		t.Errorf("kill %d: integrity check: %s", n, verdict)
		return
	}
	key, err := vault.Open(t.Context(), vault.Options{Dir: l.dir, NoKeyring: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	accounts := store.Accounts(key)
	list, err := accounts.SignIns(t.Context(), "gravity")
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.examineMark(n, list)
	for email, c := range l.known {
		i := slices.IndexFunc(list, func(s perigee.SignIn) bool { return s.Email == email })
		switch {
		case i < 0 && c.there && !c.unsure:
			l.lost++
			t.Errorf("kill %d: %s is lost", n, email)
		case i >= 0 && !c.there && !c.unsure:
			l.resurrected++
			t.Errorf("kill %d: %s is back after its removal", n, email)
		case i >= 0:
			l.examineToken(n, accounts, list[i])
		}
		if c.unsure { // now it is known
			*c = confirmed{there: i >= 0}
			if i >= 0 {
				c.chain = l.provider.find(list[i].Refresh.Reveal()).chain
			}
		}
	}
	l.rotations = l.provider.rotations()
}

// examineMark checks that the preferred account is the last confirmed one, and comes first.
func (l *killLoop) examineMark(n int, list []perigee.SignIn) {
	l.t.Helper()
	preferred := ""
	for i, s := range list {
		if s.Preferred && i > 0 {
			l.t.Errorf("kill %d: %s is preferred in place %d", n, s.Email, i)
		}
		if s.Preferred {
			preferred = s.Email
		}
	}
	if !l.preferred[preferred] {
		l.t.Errorf("kill %d: %q is preferred, want one of %v", n, preferred, slices.Sorted(maps.Keys(l.preferred)))
	}
	l.preferred = map[string]bool{preferred: true}
}

// examineToken holds a stored token against what the provider knows. One that was replaced is good
// once more, for a process that did not hear of it; the next daemon gets the new one from the
// start, so that being killed twice in the same moment is not held against it.
func (l *killLoop) examineToken(n int, accounts *sqlstore.Accounts, s perigee.SignIn) {
	t, c := l.t, l.known[s.Email]
	t.Helper()
	bad := func(format string, args ...any) {
		l.lost++
		t.Errorf("kill %d: %s: %s", n, s.Email, fmt.Sprintf(format, args...))
	}
	token := l.provider.find(s.Refresh.Reveal())
	last, used := l.provider.state(token.chain)
	switch {
	case !perigee.UsableState(s.State) || !s.Enabled:
		bad("is %s (%s)", s.State, s.Reason)
	case token.email != s.Email:
		bad("has a token that nobody gave it")
	case !c.unsure && token.chain != c.chain:
		bad("has a token of sign-in %d, but %d was confirmed", token.chain, c.chain)
	case token.turn < used:
		bad("has token %d, but what came with %d was already used", token.turn, used)
	case token.turn < last-1:
		bad("has token %d, but %d was given out", token.turn, last)
	case !l.provider.takes(t, s.Refresh.Reveal()):
		bad("has a token that is no longer good")
	case token.turn == last-1:
		l.forgiven++
		s.Refresh = perigee.NewSecret(l.provider.renew(t, s.Refresh.Reveal()))
		if _, err := accounts.ChangeSignIn(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// integrity asks SQLite itself.
func integrity(t *testing.T, path string) (verdict string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil {
		return err.Error()
	}
	return verdict
}
