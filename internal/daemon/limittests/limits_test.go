package limittests

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
	"perigee/internal/store/sqlstore"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// refused asks and expects a 429 that says when to come back.
func refused(t *testing.T, g *daemontest.Gateway, key string, class perigee.Class) string {
	t.Helper()
	resp := daemontest.Ask(t, g, daemontest.Streaming, key)
	body := daemontest.Rest(t, resp)
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("X-Perigee-Class") != string(class) || resp.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %v: %s", resp.StatusCode, resp.Header, body)
	}
	return resp.Header.Get("Retry-After")
}

func TestConcurrencyOfAll(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config("limits: {concurrency: 2}\n"), nil)
	one, two := daemontest.OpenStream(t, g, ""), daemontest.OpenStream(t, g, "")
	if after := refused(t, g, "", perigee.ClassRateLimited); after != "1" {
		t.Errorf("Retry-After is %s", after)
	}
	resp, err := daemontest.Client.Get(g.URL() + "/health")
	if err != nil {
		t.Fatal(err)
	}
	if daemontest.Rest(t, resp); resp.StatusCode != http.StatusOK {
		t.Errorf("health: %d", resp.StatusCode)
	}
	close(stage.GoOn)
	daemontest.Rest(t, one)
	daemontest.Rest(t, two)
	await.Until(t, "there is room again", func() bool { return daemontest.Status(t, g, daemontest.Streaming, "") == http.StatusOK })
}

func TestConcurrencyOfAKey(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config("keys:\n  - {name: one, secret: secret-one, concurrency: 1}\n  - {name: two, secret: secret-two}\n"), nil)
	first := daemontest.OpenStream(t, g, "secret-one")
	refused(t, g, "secret-one", perigee.ClassRateLimited)
	other := daemontest.OpenStream(t, g, "secret-two")
	close(stage.GoOn)
	daemontest.Rest(t, first)
	daemontest.Rest(t, other)
	await.Until(t, "the key has room again", func() bool { return daemontest.Status(t, g, daemontest.Streaming, "secret-one") == http.StatusOK })
}

func TestTokensPerDay(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	dir, clock := daemontest.DataDir(t), &perigeetest.Clock{}
	spend(t, dir,
		perigee.Call{ID: "yesterday", Time: clock.Now().Add(-24 * time.Hour), Client: perigee.Client{Key: "one"}, Usage: perigee.Usage{Input: 1000}},
		perigee.Call{ID: "other", Time: clock.Now(), Client: perigee.Client{Key: "two"}, Usage: perigee.Usage{Input: 1000}},
		perigee.Call{ID: "today", Time: clock.Now(), Client: perigee.Client{Key: "one"}, Usage: perigee.Usage{Input: 60, Output: 39}},
	)
	text := stage.Config("keys:\n  - {name: one, secret: secret-one, tokens_per_day: 100}\n  - {name: two, secret: secret-two, tokens_per_day: 1000}\n")
	g := daemontest.StartIn(t, daemontest.Sources(text, dir), func(o *daemon.Options) { o.Now = clock.Now })
	if got := daemontest.Status(t, g, daemontest.Streaming, "secret-one"); got != http.StatusOK {
		t.Errorf("with one token left the status is %d", got)
	}
	// Until midnight: 14 h 33 min 7 s.
	if after := refused(t, g, "secret-two", perigee.ClassExhausted); after != "52387" {
		t.Errorf("Retry-After is %s", after)
	}
	await.Until(t, "the call has been counted", func() bool {
		clock.Advance(3 * time.Second) // what was read before is not believed any more
		return daemontest.Status(t, g, daemontest.Streaming, "secret-one") == http.StatusTooManyRequests
	})
	clock.Advance(15 * time.Hour)
	if got := daemontest.Status(t, g, daemontest.Streaming, "secret-two"); got != http.StatusOK {
		t.Errorf("on the next day the status is %d", got)
	}
}

// A client that leaves each answer before the provider has named its tokens spends an estimate of
// them.
func TestAbandonedStreamsCountForTokensPerDay(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config("keys: [{name: one, secret: secret-one, tokens_per_day: 20}]\n"), nil)
	for range 2 {
		_ = daemontest.OpenStream(t, g, "secret-one").Body.Close()
		await.Receive(t, stage.Gone, "the provider to notice")
	}
	await.Until(t, "both calls have been counted", func() bool { return g.Active() == 0 })
	refused(t, g, "secret-one", perigee.ClassExhausted)
	_, usage := g.Request(t, http.MethodGet, "/v1/usage?by=key", "secret-one", "")
	if !strings.Contains(usage, `"input_tokens":20,`) {
		t.Errorf("the usage is %s", usage)
	}
}

// While nothing can be written to the database, what a key spends still counts.
func TestTokensPerDayWhileNothingCanBeStored(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	dir := daemontest.DataDir(t)
	g := daemontest.StartIn(t, daemontest.Sources(stage.Config("keys:\n  - {name: one, secret: secret-one, tokens_per_day: 20}\n"), dir), nil)
	if got := daemontest.Status(t, g, daemontest.Streaming, "secret-one"); got != http.StatusOK {
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
		return daemontest.Status(t, g, daemontest.Streaming, "secret-one") == http.StatusTooManyRequests
	})
	if rows, err := daemontest.Recorded(t.Context(), dir); err != nil || len(rows) >= calls {
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
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config(""), nil)
	bodies := make([]string, many)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			resp, err := daemontest.Client.Post(g.URL()+"/v1beta/models/gemini-2.5-flash:"+daemontest.Streaming, "application/json", strings.NewReader(daemontest.Question))
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
		await.Receive(t, stage.Begun, "all streams to be open at once")
	}
	close(stage.GoOn)
	await.Return(t, all.Wait, "the streams")
	want := fmt.Sprintf("data: %s\r\n\r\ndata: %s\r\n\r\n", daemontest.FirstEvent, daemontest.LastEvent)
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
