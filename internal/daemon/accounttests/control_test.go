package accounttests

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/daemon/remote"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

func TestAccountsAreManaged(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		w := newAccountRig(t, running, "", adaAndBob, nil)
		w.want("ada, bob")
		ctx := t.Context()
		rows, err := w.control().ImportAccounts(ctx, perigee.AccountImport{Upstream: "gravity",
			Document: []byte(`{"accounts":[{"email":"Ada@example.com","refresh_token":"sim-refresh-ada"},{"email":"cyd@example.com","refresh_token":"sim-refresh-cyd","enabled":false}]}`)})
		if want := (perigee.ImportedRow{Email: "ada@example.com", Upstream: "gravity", Result: perigee.ImportRenewed}); err != nil || len(rows) != 2 || rows[0] != want || rows[1].Result != perigee.ImportAdded {
			t.Errorf("got %+v, %v", rows, err)
		}
		w.want("ada, bob, cyd off")
		if err := w.control().UseAccount(ctx, named("cyd@example.com")); err != nil {
			t.Error(err)
		}
		w.want("ada, bob, cyd off")
		if rows, err := w.control().Accounts(ctx); err != nil || rows[0].Email != "cyd@example.com" || rows[1].Email != "ada@example.com" {
			t.Errorf("the preferred account is not listed first: %+v, %v", rows, err)
		}
		w.first("ada")
		row, err := w.control().EnableAccount(ctx, perigee.AccountName{Email: " CYD@example.com", Upstream: "gravity"}, true)
		if err != nil || !row.Enabled || row.Email != "cyd@example.com" {
			t.Errorf("got %+v, %v", row, err)
		}
		w.first("cyd")
		if _, err := w.control().EnableAccount(ctx, named("bob@example.com"), false); err != nil {
			t.Error(err)
		}
		if err := w.control().RemoveAccount(ctx, named("ada@example.com")); err != nil {
			t.Error(err)
		}
		w.want("bob off, cyd")
		if err := w.control().UseAccount(ctx, named("cyd@example.com")); err != nil { // it is the first already
			t.Error(err)
		}
		w.want("bob off, cyd")
	})
}

func TestAccountsThatAreNotThere(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		w := newAccountRig(t, running, "", adaAndBob, nil)
		for name, want := range map[perigee.AccountName]string{
			{Email: "aba@example.com"}:                        "not_found: there is no account aba@example.com; did you mean ada@example.com?",
			{Email: "somebody@else.example"}:                  "not_found: there is no account somebody@else.example; see `perigee account list`",
			{Email: "ada@example.com", Upstream: "elsewhere"}: "not_found: there is no account ada@example.com; see `perigee account list`",
			{}: "invalid: no account is named; name it by its email",
		} {
			_, enable := w.control().EnableAccount(t.Context(), name, true)
			for _, err := range []error{enable, w.control().RemoveAccount(t.Context(), name), w.control().UseAccount(t.Context(), name)} {
				if got := fmt.Sprintf("%s: %v", class(err), err); got != want {
					t.Errorf("%v: got %q, want %q", name, got, want)
				}
			}
		}
		w.want("ada, bob")
	})
}

func TestImportIsAllOrNothing(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		w := newAccountRig(t, running, "", nobodyYet, nil)
		const half = `[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"},{"email":"bob@example.com"},{"email":"nobody","refresh_token":"sim-refresh-x"}]`
		for document, want := range map[string]string{
			half: "2 of 3 accounts cannot be used (account 2: it has no refresh token; account 3: email is not a valid address); correct them, or import the rest with --partial",
			`[{"email":"ada@example.com","refresh_token":"sim-refresh-ada","email":"bob@example.com"}]`: "it is damaged at line 1",
			`[]`:                         "there are no accounts in it",
			``:                           "is empty",
			`{"accounts":[`:              "it is damaged",
			`[{"refresh_token":"x y"}]`:  "1 of 1 accounts cannot be used",
			`{"type":"service_account"}`: "a credential for a service other than",
		} {
			_, err := w.control().ImportAccounts(t.Context(), perigee.AccountImport{Document: []byte(document)})
			if class(err) != perigee.ClassInvalid || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sim-refresh") {
				t.Errorf("%s: got %v, want %q", document, err, want)
			}
		}
		w.want("")
		rows, err := w.control().ImportAccounts(t.Context(), perigee.AccountImport{Document: []byte(half), Partial: true})
		if err != nil || len(rows) != 3 || rows[0].Result != perigee.ImportAdded || rows[1].Result != perigee.ImportSkipped || rows[1].Where != "account 2" || rows[1].Why == "" {
			t.Errorf("got %+v, %v", rows, err)
		}
		w.want("ada")
		_, err = w.control().ImportAccounts(t.Context(), perigee.AccountImport{Upstream: "elsewhere", Document: []byte(adaAlone)})
		if class(err) != perigee.ClassNotFound || !strings.Contains(err.Error(), "these do: gravity") {
			t.Errorf("got %v", err)
		}
	})
}

func TestImportAsksWhoseItIs(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		w := newAccountRig(t, running, "", nobodyYet, nil)
		_, err := w.control().ImportAccounts(t.Context(), perigee.AccountImport{Document: []byte(`[{"refresh_token":"sim-refresh-bob"},{"refresh_token":"sim-refresh-revoked"}]`)})
		if class(err) != perigee.ClassUnauthenticated || strings.Contains(err.Error(), "sim-refresh") {
			t.Errorf("got %v", err)
		}
		w.want("")
		rows, err := w.control().ImportAccounts(t.Context(), perigee.AccountImport{Partial: true, Document: []byte(`[{"refresh_token":"sim-refresh-bob"},{"refresh_token":"sim-refresh-revoked"}]`)})
		if err != nil || len(rows) != 2 || rows[0].Email != "bob@example.com" || rows[1].Result != perigee.ImportSkipped {
			t.Errorf("got %+v, %v", rows, err)
		}
		w.want("bob")
	})
}

// The account that was in use in the program that wrote the file stays in use.
func TestImportKeepsWhoWasInUse(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		w := newAccountRig(t, running, "", `{"accounts":`+adaAndBob+`,"active":"bob@example.com"}`, nil)
		w.first("bob")
		w = newAccountRig(t, running, "", adaAlone, nil)
		if _, err := w.control().ImportAccounts(t.Context(), perigee.AccountImport{Document: []byte(`{"accounts":` + adaAndBob + `,"active":"bob@example.com"}`)}); err != nil {
			t.Error(err)
		}
		w.want("ada, bob")
		w.first("ada") // what is decided here is not changed by a file
	})
}

func TestExplainFollowsAliasesAndRoutes(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		w := newAccountRig(t, running, "  - {name: simulator, kind: simulator}\nmodels:\n  aliases: {gpt-4o: gemini-3-flash-high}\n  routes: [{match: \"claude-*\", to: [simulator]}]\n", adaAndBob, nil)
		if _, err := w.control().EnableAccount(t.Context(), named("ada@example.com"), false); err != nil {
			t.Fatal(err)
		}
		route, err := w.control().ExplainRoute(t.Context(), perigee.RouteQuestion{Model: "models/claude-sonnet-4-6"})
		if err != nil || route.Upstream != "simulator" {
			t.Errorf("the name of the resource leads to %+v, %v", route, err)
		}
		for model, want := range map[string]string{
			"gemini-3-flash":    "bob antigravity taken: usable: first usable account; bob gemini-cli: usable, if no account of the pool antigravity is; ada antigravity: it is disabled; `perigee account enable` changes that; ada gemini-cli: it is disabled; `perigee account enable` changes that",
			"gpt-4o":            "bob antigravity taken: usable: first usable account; bob gemini-cli: usable, if no account of the pool antigravity is; ada antigravity: it is disabled; `perigee account enable` changes that; ada gemini-cli: it is disabled; `perigee account enable` changes that",
			"models/gpt-4o":     "bob antigravity taken: usable: first usable account; bob gemini-cli: usable, if no account of the pool antigravity is; ada antigravity: it is disabled; `perigee account enable` changes that; ada gemini-cli: it is disabled; `perigee account enable` changes that",
			"claude-sonnet-4-6": "bob antigravity: models.routes sends this model to simulator; ada antigravity: models.routes sends this model to simulator",
		} {
			rows, err := w.control().ExplainAccounts(t.Context(), model)
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, row := range rows {
				who, _, _ := strings.Cut(row.Email, "@")
				who += " " + row.Pool
				if row.Chosen {
					who += " taken"
				}
				said = append(said, who+": "+row.Why)
			}
			if got := strings.Join(said, "; "); got != want {
				t.Errorf("%s: got %q, want %q", model, got, want)
			}
		}
	})
}

// Changes leave other accounts their tokens: enabling one makes no other sign in again.
func TestChangesKeepTokens(t *testing.T) {
	t.Parallel()
	w := newAccountRig(t, true, "", adaAndBob, nil)
	w.call()
	before := w.times("/token")
	for _, err := range []error{
		w.control().UseAccount(t.Context(), named("bob@example.com")),
		w.control().UseAccount(t.Context(), named("ada@example.com")),
		w.control().RemoveAccount(t.Context(), named("bob@example.com")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if status, body := w.call(); status != http.StatusOK || w.times("/token") != before {
		t.Errorf("got %d after %d refreshes, %d before: %s", status, w.times("/token"), before, body)
	}
}

// An account that the provider stopped is kept as such, with the reason, and enabling it means
// trying it again.
func TestStoppedAccountsAreTriedAgainWhenEnabled(t *testing.T) {
	t.Parallel()
	w := newAccountRig(t, true, "", adaAlone, nil, simulator.Fault{When: simulator.When{Method: "streamGenerateContent"}, Times: 1, Do: "validation_required"})
	if status, body := w.call(); status != http.StatusForbidden || !strings.Contains(body, "VERIFICATION_REQUIRED") {
		t.Errorf("got %d: %s", status, body)
	}
	w.want("ada verification")
	rows, err := w.control().Accounts(t.Context())
	if err != nil || !strings.Contains(rows[0].Reason, "https://") {
		t.Errorf("got %+v, %v", rows, err)
	}
	if status, _ := w.call(); status != http.StatusForbidden {
		t.Errorf("it was used again: %d", status)
	}
	if _, err := w.control().EnableAccount(t.Context(), named("ada@example.com"), true); err != nil {
		t.Fatal(err)
	}
	w.want("ada")
	if status, body := w.call(); status != http.StatusOK {
		t.Errorf("got %d: %s", status, body)
	}
}

// Enabling a signed-out account does not make it ready.
func TestSignedOutAccountsStaySo(t *testing.T) {
	t.Parallel()
	w := newAccountRig(t, true, "", `[{"email":"old@example.com","refresh_token":"sim-refresh-revoked"}]`, nil)
	if status, body := w.call(); status != http.StatusForbidden || !strings.Contains(body, "perigee login") {
		t.Errorf("got %d: %s", status, body)
	}
	w.want("old signed_out")
	row, err := w.control().EnableAccount(t.Context(), named("old@example.com"), true)
	if err != nil || row.State != perigee.AccountSignedOut {
		t.Errorf("got %+v, %v", row, err)
	}
}

// A daemon whose socket is gone is not worked around: it would not see the change.
func TestNoChangesBehindTheDaemonsBack(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	w := newAccountRig(t, true, "", adaAlone, nil)
	if err := os.Remove(daemon.SocketPath(w.gateway.Config)); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(w.src)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.Connect(t.Context(), daemon.Options{Loaded: loaded}); !errors.Is(err, daemon.ErrNoSocket) {
		t.Errorf("got %v", err)
	}
}

// Whatever is done at once, nothing breaks and no untouched account is refused.
func TestManagingAndCallingAtOnce(t *testing.T) {
	t.Parallel()
	w := newAccountRig(t, true, "", adaAndBob, nil)
	control, somebody := w.control(), &daemontest.Owner{Base: w.gateway.URL()}
	const writers = 4
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	var done atomic.Int64
	steps := make(chan struct{}, 3*writers*rounds)
	for range writers {
		go func() {
			for range rounds {
				_, off := control.EnableAccount(t.Context(), named("bob@example.com"), false)
				bob := control.UseAccount(t.Context(), named("bob@example.com"))
				_, on := control.EnableAccount(t.Context(), named("bob@example.com"), true)
				_, again := control.ImportAccounts(t.Context(), perigee.AccountImport{Document: []byte(adaAndBob)})
				ada := control.UseAccount(t.Context(), named("ada@example.com"))
				_, list := control.Accounts(t.Context())
				for _, err := range []error{off, bob, on, again, ada, list} {
					if err == nil {
						done.Add(1)
					} else if !strings.Contains(err.Error(), perigee.ErrAccountChanged.Error()) && // other writers were faster, time and again
						!errors.Is(err, remote.ErrNoAnswer) { // the client waits for ten seconds, which is little on a busy machine
						t.Error(err)
					}
				}
				steps <- struct{}{}
			}
		}()
		go func() {
			for range 2 * rounds {
				status, body, err := somebody.Do(t.Context(), http.MethodPost, "/v1beta/models/gemini-2.5-flash:generateContent", daemontest.Question)
				if err != nil || status != http.StatusOK {
					t.Errorf("got %d: %s (%v)", status, body, err)
				}
				steps <- struct{}{}
			}
		}()
	}
	for range cap(steps) {
		await.Receive(t, steps, "a change or a call")
	}
	if all := int64(6 * writers * rounds); done.Load() < all/2 {
		t.Errorf("of %d changes only %d were made", all, done.Load())
	}
	if _, err := w.control().EnableAccount(t.Context(), named("bob@example.com"), true); err != nil {
		t.Error(err)
	}
	w.want("ada, bob")
}

// A list of models that failed for want of an account is asked for again as soon as there is one,
// and the other way round.
func TestChangesOfAccountsDropTheListsOfModels(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		w := newAccountRig(t, running, "", adaAlone, nil)
		lists := func(want bool, after string) {
			t.Helper()
			if _, err := w.control().Models(t.Context(), "", false); (err == nil) != want {
				t.Errorf("after %s: %v", after, err)
			}
		}
		lists(true, "the start")
		if _, err := w.control().EnableAccount(t.Context(), named("ada@example.com"), false); err != nil {
			t.Fatal(err)
		}
		lists(false, "disabling the only account")
		if _, err := w.control().EnableAccount(t.Context(), named("ada@example.com"), true); err != nil {
			t.Fatal(err)
		}
		lists(true, "enabling it")
		if err := w.control().RemoveAccount(t.Context(), named("ada@example.com")); err != nil {
			t.Fatal(err)
		}
		lists(false, "removing it")
		if _, err := w.control().ImportAccounts(t.Context(), perigee.AccountImport{Document: []byte(adaAndBob)}); err != nil {
			t.Fatal(err)
		}
		lists(true, "importing two")
	})
}
