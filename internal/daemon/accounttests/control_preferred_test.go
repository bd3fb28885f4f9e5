package accounttests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/daemon"
	"perigee/internal/store/config"
)

const adaBobAndCyd = `[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"},{"email":"bob@example.com","refresh_token":"sim-refresh-bob"},{"email":"cyd@example.com","refresh_token":"sim-refresh-cyd"}]`

// preferred lists the accounts with the mark.
func (w *accountRig) preferred() string {
	w.t.Helper()
	var names []string
	for _, row := range w.accounts() {
		if row.Preferred {
			name, _, _ := strings.Cut(row.Email, "@")
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// order lists the accounts in the order in which they would be chosen.
func (w *accountRig) order() string {
	w.t.Helper()
	rows, err := w.control().ExplainAccounts(w.t.Context(), "claude-sonnet-4-6") // which has one pool only
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, row := range rows {
		if name, _, _ := strings.Cut(row.Email, "@"); row.Usable {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func (w *accountRig) wantOrder(preferred, order string) {
	w.t.Helper()
	if p, o := w.preferred(), w.order(); p != preferred || o != order {
		w.t.Errorf("%q is preferred and the order is %q, want %q and %q", p, o, preferred, order)
	}
}

func (w *accountRig) mustUse(email string) {
	w.t.Helper()
	if err := w.control().UseAccount(w.t.Context(), named(email)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *accountRig) mustEnable(email string, enabled bool) {
	w.t.Helper()
	if _, err := w.control().EnableAccount(w.t.Context(), named(email), enabled); err != nil {
		w.t.Fatal(err)
	}
}

// The preferred account comes first; the rest is in the order in which it was added.
func TestPreferredAccountComesFirst(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		w := newAccountRig(t, running, "", adaBobAndCyd, nil)
		w.wantOrder("", "ada, bob, cyd")
		w.mustUse("cyd@example.com")
		w.wantOrder("cyd", "cyd, ada, bob")
		w.mustUse("bob@example.com")
		w.wantOrder("bob", "bob, ada, cyd")
		w.mustEnable("bob@example.com", false)
		w.wantOrder("bob", "ada, cyd") // the mark is for when it is back
		w.mustEnable("bob@example.com", true)
		w.wantOrder("bob", "bob, ada, cyd")
		if err := w.control().RemoveAccount(t.Context(), named("bob@example.com")); err != nil {
			t.Fatal(err)
		}
		w.wantOrder("", "ada, cyd")
		w.imports(adaBobAndCyd)
		w.wantOrder("", "ada, cyd, bob")
	})
}

// The active account of a file is the preferred one, in both directions, and when accounts were
// added stays true.
func TestActiveAccountOfAFileIsThePreferredOne(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		for format, text := range map[string]string{
			"an export":    `{"accounts":` + adaBobAndCyd + `,"active":"bob@example.com"}`,
			"the plugin's": `{"version":3,"accounts":[{"email":"ada@example.com","refreshToken":"sim-refresh-ada"},{"email":"bob@example.com","refreshToken":"sim-refresh-bob"},{"email":"cyd@example.com","refreshToken":"sim-refresh-cyd"}],"activeIndex":1}`,
		} {
			w := newAccountRig(t, running, "", nobodyYet, nil)
			if _, err := w.bring(write(t, "accounts.json", text), false); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			w.wantOrder("bob", "bob, ada, cyd")
		}

		w := newAccountRig(t, running, "", `[{"email":"ada@example.com","refresh_token":"sim-refresh-ada","added_at":"2026-01-01T00:00:00Z"},`+
			`{"email":"bob@example.com","refresh_token":"sim-refresh-bob","added_at":"2026-02-02T00:00:00Z"}]`, nil)
		if active, _ := w.export(); active != "" {
			t.Errorf("nobody is preferred, and %q is active in the export", active)
		}
		w.mustUse("bob@example.com")
		active, added := w.export()
		if active != "bob@example.com" || added["bob@example.com"] != "2026-02-02T00:00:00Z" {
			t.Errorf("%q is active, and they were added at %v", active, added)
		}
	})
}

// export writes the accounts to a file and reads which one is active in it, and when they were
// added.
func (w *accountRig) export() (active string, added map[string]string) {
	w.t.Helper()
	loaded, err := config.Load(w.src)
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(w.t.TempDir(), "out.json")
	if _, err := daemon.ExportAccounts(w.t.Context(), daemon.Options{Loaded: loaded}, "", path, true); err != nil {
		w.t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	var document struct {
		Active   string
		Accounts []struct {
			Email string
			Added string `json:"added_at"`
		}
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		w.t.Fatal(err)
	}
	added = map[string]string{}
	for _, a := range document.Accounts {
		added[a.Email] = a.Added
	}
	return document.Active, added
}
