package daemon_test

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/perigeetest"
	"perigee/internal/perigeetest/await"
	"perigee/internal/sqlstore"
)

// refused asks and expects a 429 that says when to come back.
func refused(t *testing.T, g *gateway, key string, class perigee.Class) string {
	t.Helper()
	resp := ask(t, g, streaming, key)
	body := rest(t, resp)
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("X-Perigee-Class") != string(class) || resp.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %v: %s", resp.StatusCode, resp.Header, body)
	}
	return resp.Header.Get("Retry-After")
}

func TestConcurrencyOfAll(t *testing.T) {
	t.Parallel()
	stage := newStage(t)
	g := start(t, stage.config("limits: {concurrency: 2}\n"), nil)
	one, two := openStream(t, g, ""), openStream(t, g, "")
	if after := refused(t, g, "", perigee.ClassRateLimited); after != "1" {
		t.Errorf("Retry-After is %s", after)
	}
	resp, err := client.Get(g.URL() + "/health")
	if err != nil {
		t.Fatal(err)
	}
	if rest(t, resp); resp.StatusCode != http.StatusOK {
		t.Errorf("health: %d", resp.StatusCode)
	}
	close(stage.goOn)
	rest(t, one)
	rest(t, two)
	await.Until(t, "there is room again", func() bool { return status(t, g, streaming, "") == http.StatusOK })
}

func TestConcurrencyOfAKey(t *testing.T) {
	t.Parallel()
	stage := newStage(t)
	g := start(t, stage.config("keys:\n  - {name: one, secret: secret-one, concurrency: 1}\n  - {name: two, secret: secret-two}\n"), nil)
	first := openStream(t, g, "secret-one")
	refused(t, g, "secret-one", perigee.ClassRateLimited)
	other := openStream(t, g, "secret-two")
	close(stage.goOn)
	rest(t, first)
	rest(t, other)
	await.Until(t, "the key has room again", func() bool { return status(t, g, streaming, "secret-one") == http.StatusOK })
}

func TestTokensPerDay(t *testing.T) {
	t.Parallel()
	stage := newStage(t)
	close(stage.goOn)
	dir, clock := dataDir(t), &perigeetest.Clock{}
	spend(t, dir,
		perigee.Call{ID: "yesterday", Time: clock.Now().Add(-24 * time.Hour), Client: perigee.Client{Key: "one"}, Usage: perigee.Usage{Input: 1000}},
		perigee.Call{ID: "other", Time: clock.Now(), Client: perigee.Client{Key: "two"}, Usage: perigee.Usage{Input: 1000}},
		perigee.Call{ID: "today", Time: clock.Now(), Client: perigee.Client{Key: "one"}, Usage: perigee.Usage{Input: 60, Output: 39}},
	)
	text := stage.config("keys:\n  - {name: one, secret: secret-one, tokens_per_day: 100}\n  - {name: two, secret: secret-two, tokens_per_day: 1000}\n")
	g := startIn(t, sources(text, dir), func(o *daemon.Options) { o.Now = clock.Now })
	if got := status(t, g, streaming, "secret-one"); got != http.StatusOK {
		t.Errorf("with one token left the status is %d", got)
	}
	// Until midnight: 14 h 33 min 7 s.
	if after := refused(t, g, "secret-two", perigee.ClassExhausted); after != "52387" {
		t.Errorf("Retry-After is %s", after)
	}
	await.Until(t, "the call has been counted", func() bool {
		clock.Advance(3 * time.Second) // what was read before is not believed any more
		return status(t, g, streaming, "secret-one") == http.StatusTooManyRequests
	})
	clock.Advance(15 * time.Hour)
	if got := status(t, g, streaming, "secret-two"); got != http.StatusOK {
		t.Errorf("on the next day the status is %d", got)
	}
}

// A client that leaves each answer before the provider has named its tokens spends an estimate of them.
func TestAbandonedStreamsCountForTokensPerDay(t *testing.T) {
	t.Parallel()
	stage := newStage(t)
	g := start(t, stage.config("keys: [{name: one, secret: secret-one, tokens_per_day: 20}]\n"), nil)
	for range 2 {
		_ = openStream(t, g, "secret-one").Body.Close()
		await.Receive(t, stage.gone, "the provider to notice")
	}
	await.Until(t, "both calls have been counted", func() bool { return g.Active() == 0 })
	refused(t, g, "secret-one", perigee.ClassExhausted)
	_, usage := request(t, g, http.MethodGet, "/v1/usage?by=key", "secret-one", "")
	if !strings.Contains(usage, `"input_tokens":20,`) {
		t.Errorf("the usage is %s", usage)
	}
}

// While nothing can be written to the database, what a key spends still counts.
func TestTokensPerDayWhileNothingCanBeStored(t *testing.T) {
	t.Parallel()
	stage := newStage(t)
	close(stage.goOn)
	dir := dataDir(t)
	g := startIn(t, sources(stage.config("keys:\n  - {name: one, secret: secret-one, tokens_per_day: 20}\n"), dir), nil)
	if got := status(t, g, streaming, "secret-one"); got != http.StatusOK {
		t.Fatalf("the first call: %d", got)
	}
	db, err := sql.Open("sqlite", "file:"+dir+"/perigee.db?_txlock=immediate&_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(t.Context(), nil) // it has the write lock from here on
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	calls := 0
	await.Until(t, "the tokens of the day are spent", func() bool {
		calls++
		return status(t, g, streaming, "secret-one") == http.StatusTooManyRequests
	})
	if rows, err := recorded(t.Context(), dir); err != nil || len(rows) >= calls {
		t.Errorf("%d of %d calls were stored, %v", len(rows), calls, err)
	}
	if calls > 20 {
		t.Errorf("it took %d calls", calls)
	}
}

// spend writes calls into a database before a daemon has it.
func spend(t *testing.T, dir string, calls ...perigee.Call) {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: dir + "/perigee.db"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range calls {
		calls[i].Outcome = perigee.OutcomeDone
	}
	if err := store.SaveCalls(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// Many streams at once: each gets its own answer, and each is recorded.
func TestManyStreamsAtOnce(t *testing.T) {
	t.Parallel()
	const many = 200
	stage := newStage(t)
	g := start(t, stage.config(""), nil)
	bodies := make([]string, many)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			resp, err := client.Post(g.URL()+"/v1beta/models/gemini-2.5-flash:"+streaming, "application/json", strings.NewReader(question))
			if err != nil {
				bodies[i] = err.Error()
				return
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if bodies[i] = string(body); err != nil {
				bodies[i] += err.Error()
			}
		})
	}
	for range many {
		await.Receive(t, stage.begun, "all streams to be open at once")
	}
	close(stage.goOn)
	all.Wait()
	want := fmt.Sprintf("data: %s\r\n\r\ndata: %s\r\n\r\n", firstEvent, lastEvent)
	for i, body := range bodies {
		if body != want {
			t.Fatalf("stream %d got %q", i, body)
		}
	}
	calls, err := g.Stop(t.Context())
	if err != nil || len(calls) != many {
		t.Fatalf("%d calls were recorded (%v)", len(calls), err)
	}
	for _, c := range calls {
		if c.Outcome != perigee.OutcomeDone || c.Usage.Output != 3 {
			t.Errorf("recorded %+v", c)
		}
	}
}
