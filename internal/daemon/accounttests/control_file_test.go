package accounttests

import (
	"database/sql"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the IDE's own database

	"perigee"
	"perigee/internal/account/roster"
	"perigee/internal/daemon"
	"perigee/internal/store/config"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// bring imports a file as the command does.
func (w *accountRig) bring(path string, partial bool) ([]perigee.ImportedRow, error) {
	w.t.Helper()
	file, err := roster.ReadFile(w.t.Context(), path, partial)
	if err != nil {
		return nil, err
	}
	return w.control().ImportAccounts(w.t.Context(), perigee.AccountImport{Document: file.Document, Partial: partial})
}

func TestImportOfEachFormat(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		for format, c := range map[string]struct{ text, want string }{
			"a list":       {adaAndBob, "ada, bob"},
			"an export":    {`{"accounts":[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"},{"email":"bob@example.com","refresh_token":"sim-refresh-bob","enabled":false}],"active":"ada@example.com"}`, "ada, bob off"},
			"the plugin's": {`{"version":3,"accounts":[{"email":"ada@example.com","refreshToken":"sim-refresh-ada","addedAt":1700000000000},{"email":"bob@example.com","refreshToken":"sim-refresh-bob","verificationRequired":true}],"activeIndex":0}`, "ada, bob verification"},
			"a credential": {`{"type":"antigravity","email":"ada@example.com","refresh_token":"sim-refresh-ada","project_id":"sim-project-ada"}`, "ada"},
		} {
			w := newAccountRig(t, running, "", nobodyYet, nil)
			if _, err := w.bring(write(t, "accounts.json", c.text), false); err != nil {
				t.Errorf("%s: %v", format, err)
			}
			w.want(c.want)
		}
	})
}

// message encodes fields of text, which is all that the IDE's rows need.
func message(fields ...any) string {
	var b strings.Builder
	for i := 0; i < len(fields); i += 2 {
		number, text := fields[i].(int), fields[i+1].(string)
		b.WriteByte(byte(number<<3 | 2))
		for n := len(text); ; n >>= 7 {
			if n < 0x80 {
				b.WriteByte(byte(n))
				break
			}
			b.WriteByte(byte(n) | 0x80)
		}
		b.WriteString(text)
	}
	return b.String()
}

// The IDE's database says nothing of whose the token is; the provider does.
func TestImportFromTheIDE(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		path := filepath.Join(t.TempDir(), "state.vscdb")
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
		row := message(1, "oauthTokenInfoSentinelKey", 2, message(1, encode(message(1, "an-access-token", 3, "sim-refresh-bob"))))
		for _, statement := range []string{
			"CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)",
			"INSERT INTO ItemTable VALUES ('antigravityUnifiedStateSync.oauthToken', '" + encode(message(1, row)) + "')",
		} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		_ = db.Close()
		w := newAccountRig(t, running, "", nobodyYet, nil)
		rows, err := w.bring(path, false)
		if err != nil || len(rows) != 1 || rows[0].Email != "bob@example.com" || rows[0].Result != perigee.ImportAdded {
			t.Errorf("got %+v, %v", rows, err)
		}
		w.want("bob")
	})
}

func TestRefusedFilesAreReportedLineByLine(t *testing.T) {
	t.Parallel()
	path := write(t, "half.json", `[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"},{"email":"bob@example.com"}]`)
	file, err := roster.ReadFile(t.Context(), path, false)
	if class(err) != perigee.ClassInvalid || file == nil || file.Document != nil || len(file.Lines) != 2 || file.Lines[1].Problem == "" || file.Lines[1].Email != "bob@example.com" {
		t.Errorf("got %+v, %v", file, err)
	}
	if file, err = roster.ReadFile(t.Context(), path, true); err != nil || len(file.Document) == 0 || strings.Contains(string(file.Document), "bob") {
		t.Errorf("got %+v, %v", file, err)
	}
	if file, err = roster.ReadFile(t.Context(), filepath.Join(t.TempDir(), "missing"), true); err == nil || file != nil {
		t.Errorf("got %+v, %v", file, err)
	}
}

// What is exported can be imported elsewhere, and is as it was, the order included.
func TestExportAndBack(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		w := newAccountRig(t, running, "", adaAndBob, nil)
		if err := w.control().UseAccount(t.Context(), named("bob@example.com")); err != nil {
			t.Fatal(err)
		}
		if _, err := w.control().EnableAccount(t.Context(), named("ada@example.com"), false); err != nil {
			t.Fatal(err)
		}
		loaded, err := config.Load(w.src)
		if err != nil {
			t.Fatal(err)
		}
		path := write(t, "out.json", "what was there before")
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		done, err := daemon.ExportAccounts(t.Context(), daemon.Options{Loaded: loaded}, "", path, true)
		if err != nil || done.Accounts != 2 || len(done.Skipped) != 0 || len(done.WithoutState) != 0 {
			t.Fatalf("got %+v, %v", done, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
			t.Errorf("the file has mode %v (%v)", info.Mode(), err)
		}
		other := newAccountRig(t, running, "", nobodyYet, nil)
		if _, err := other.bring(path, false); err != nil {
			t.Error(err)
		}
		other.want("ada off, bob")
		if _, err := other.control().EnableAccount(t.Context(), named("ada@example.com"), true); err != nil {
			t.Error(err)
		}
		other.first("bob")
		if _, err := daemon.ExportAccounts(t.Context(), daemon.Options{Loaded: loaded}, "elsewhere", path, true); class(err) != perigee.ClassNotFound {
			t.Errorf("got %v", err)
		}
	})
}

// To move the accounts to another store loses nothing that is known about them.
func TestExportKeepsWhatIsKnown(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		until := time.Now().Add(30 * time.Hour).UTC().Truncate(time.Second)
		w := newAccountRig(t, running, "", nobodyYet, nil)
		file := fmt.Sprintf(`{"version":4,"accounts":[
			{"email":"ada@example.com","refreshToken":"sim-refresh-ada","rateLimitResetTimes":{"claude":%d,"gemini-cli":1000,"gemini-cli:gemini-3-pro-preview":%[1]d}},
			{"email":"bob@example.com","refreshToken":"sim-refresh-bob","verificationRequired":true,"verificationRequiredReason":"prove it","verificationUrl":"https://example.com/%s"},
			{"email":"old@example.com","refreshToken":"sim-refresh-revoked"}],"activeIndex":1}`, until.UnixMilli(), strings.Repeat("x", 300))
		if _, err := w.bring(write(t, "antigravity-accounts.json", file), false); err != nil {
			t.Fatal(err)
		}
		loaded, err := config.Load(w.src)
		if err != nil {
			t.Fatal(err)
		}
		path := write(t, "out.json", "")
		done, err := daemon.ExportAccounts(t.Context(), daemon.Options{Loaded: loaded}, "", path, true)
		if err != nil || done.Accounts != 3 || len(done.WithoutState) != 0 {
			t.Fatalf("got %+v, %v", done, err)
		}
		other := newAccountRig(t, running, "", nobodyYet, nil)
		if _, err := other.bring(path, false); err != nil {
			t.Fatal(err)
		}
		for _, accountRig := range []*accountRig{w, other} {
			rows := accountRig.accounts()
			if len(rows) != 3 {
				t.Fatalf("got %+v", rows)
			}
			ada, bob := rows[0], rows[1]
			if len(ada.Cooldowns) != 1 || ada.Cooldowns[0].Family != "claude" || ada.Cooldowns[0].Until.Sub(until).Abs() > time.Hour {
				t.Errorf("ada rests from %+v", ada.Cooldowns)
			}
			if bob.State != perigee.AccountVerification || bob.Reason != "prove it (https://example.com/"+strings.Repeat("x", 300)+")" || !bob.Preferred {
				t.Errorf("bob is %+v", bob)
			}
			choices, err := accountRig.control().ExplainAccounts(t.Context(), "claude-sonnet-4-6")
			if err != nil || len(choices) == 0 || slices.ContainsFunc(choices, func(c perigee.ChoiceRow) bool { return c.Email == "ada@example.com" && c.Usable }) {
				t.Errorf("got %+v, %v", choices, err)
			}
		}
		// That the third is signed out, which is found out now, is not in the file: a refresh will
		// show.
		w.quota()
		done, err = daemon.ExportAccounts(t.Context(), daemon.Options{Loaded: loaded}, "", path, true)
		if err != nil || done.Accounts != 3 || len(done.WithoutState) != 1 || done.WithoutState[0].Email != "old@example.com" {
			t.Errorf("got %+v, %v", done, err)
		}
	})
}

// An export from when the provider had disabled an account counts where no newer state is known.
func TestBannedAccountsStaySoElsewhere(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		const banned = `{"accounts":[{"email":"ada@example.com","refresh_token":"sim-refresh-ada","enabled":true,"state":"banned","reason":"it did what it should not"}]}`
		w := newAccountRig(t, running, "", nobodyYet, nil)
		if _, err := w.bring(write(t, "out.json", banned), false); err != nil {
			t.Fatal(err)
		}
		w.want("ada banned")
		if _, err := w.control().EnableAccount(t.Context(), named("ada@example.com"), true); err != nil {
			t.Fatal(err)
		}
		w.want("ada")
		if _, err := w.bring(write(t, "out.json", banned), false); err != nil {
			t.Fatal(err)
		}
		w.want("ada")
	})
}
