package accounttests

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
)

// An accountRig is where accounts are managed: a configuration for the provider's stand-in, with or
// without a daemon.
type accountRig struct {
	t        *testing.T
	provider *simulator.Server
	src      config.Sources
	gateway  *daemontest.Gateway // nil means none runs
}

const nobodyYet = ""

// newAccountRig builds one. more is configuration besides the upstream gravity; document is
// imported first.
func newAccountRig(t *testing.T, running bool, more, document string, change func(*daemon.Options), faults ...simulator.Fault) *accountRig {
	t.Helper()
	provider, url := daemontest.StartSimulator(t, simulator.Options{}, faults...)
	w := &accountRig{t: t, provider: provider, src: daemontest.Sources(daemontest.AntigravityConfig(url, "")+more, daemontest.DataDir(t))}
	if running {
		w.gateway = daemontest.StartIn(t, w.src, change)
	}
	if document != nobodyYet {
		w.imports(document)
	}
	return w
}

// control connects anew each time, as commands do.
func (w *accountRig) control() perigee.Control {
	w.t.Helper()
	loaded, err := config.Load(w.src)
	if err != nil {
		w.t.Fatal(err)
	}
	handle, err := daemon.Connect(w.t.Context(), daemon.Options{Loaded: loaded, Version: "test"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(handle.Close)
	if remote := fmt.Sprintf("%T", handle.AccountControl) == "*remote.Client"; remote != (w.gateway != nil) {
		w.t.Errorf("a daemon is asked: %v", remote)
	}
	return handle.Control
}

// imports brings accounts in.
func (w *accountRig) imports(document string) {
	w.t.Helper()
	if _, err := w.control().ImportAccounts(w.t.Context(), perigee.AccountImport{Document: []byte(document)}); err != nil {
		w.t.Fatal(err)
	}
}

// first checks which account is taken first.
func (w *accountRig) first(who string) {
	w.t.Helper()
	rows, err := w.control().ExplainAccounts(w.t.Context(), "gemini-3-flash")
	if err != nil || len(rows) == 0 || !rows[0].Chosen || rows[0].Email != who+"@example.com" {
		w.t.Errorf("got %+v, %v; want %s first", rows, err, who)
	}
}

// accounts lists them by address, whatever the order in which they are used.
func (w *accountRig) accounts() []perigee.AccountRow {
	w.t.Helper()
	rows, err := w.control().Accounts(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(rows, func(a, b perigee.AccountRow) int { return strings.Compare(a.Email, b.Email) })
	return rows
}

// list writes the accounts in short, by address.
func (w *accountRig) list() string {
	w.t.Helper()
	var words []string
	for _, row := range w.accounts() {
		word, _, _ := strings.Cut(row.Email, "@")
		if !row.Enabled {
			word += " off"
		}
		if !perigee.UsableState(row.State) {
			word += " " + row.State
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func (w *accountRig) want(what string) {
	w.t.Helper()
	if got := w.list(); got != what {
		w.t.Errorf("the accounts are %q, want %q", got, what)
	}
}

// times counts the calls of a method that the provider was asked.
func (w *accountRig) times(method string) (n int) {
	for _, call := range w.provider.Calls() {
		if strings.HasSuffix(call.Path, method) {
			n++
		}
	}
	return n
}

// call asks a model through the daemon.
func (w *accountRig) call() (int, string) {
	w.t.Helper()
	resp := daemontest.Ask(w.t, w.gateway, "generateContent", "")
	return resp.StatusCode, daemontest.Rest(w.t, resp)
}

// mustAnswer asks a model, which has to answer.
func (w *accountRig) mustAnswer() {
	w.t.Helper()
	if status, body := w.call(); status != http.StatusOK {
		w.t.Fatalf("got %d: %s", status, body)
	}
}

const (
	adaAndBob = `[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"},{"email":"bob@example.com","refresh_token":"sim-refresh-bob"}]`
	adaAlone  = `[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"}]`
)

func named(email string) perigee.AccountName { return perigee.AccountName{Email: email} }

func class(err error) perigee.Class {
	if err == nil {
		return ""
	}
	return perigee.AsError(err).Class
}

// everyWay runs a test with a daemon, over its socket, and without one.
func everyWay(t *testing.T, test func(t *testing.T, running bool)) {
	t.Parallel()
	for name, running := range map[string]bool{"with a daemon": true, "without a daemon": false} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, running) })
	}
}
