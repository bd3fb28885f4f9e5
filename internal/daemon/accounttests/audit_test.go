package accounttests

import (
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
)

// breakAudit has the database refuse every entry.
func breakAudit(t *testing.T, cfg *config.Config) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+daemon.StoreOptions(cfg).Path+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no entries today'); END`); err != nil {
		t.Fatal(err)
	}
}

// TestExportNeedsAnEntry: refresh tokens do not leave without a trace; everything else goes on with
// a warning.
func TestExportNeedsAnEntry(t *testing.T) {
	everyWay(t, func(t *testing.T, running bool) {
		book := make(daemontest.Logbook, 10_000)
		w := newAccountRig(t, running, "", adaAndBob, func(o *daemon.Options) { o.Logger = slog.New(book) })
		loaded, err := config.Load(w.src)
		if err != nil {
			t.Fatal(err)
		}
		breakAudit(t, loaded.Config)
		dir := t.TempDir()
		_, err = daemon.ExportAccounts(t.Context(), daemon.Options{Loaded: loaded}, "", filepath.Join(dir, "out.json"), true)
		if class(err) != perigee.ClassUnavailable || !strings.Contains(err.Error(), "nothing was exported: the audit log cannot be written") {
			t.Errorf("got %v", err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
			t.Errorf("there is %v (%v)", files, err)
		}
		if _, err := w.control().EnableAccount(t.Context(), named("ada@example.com"), false); err != nil {
			t.Error(err)
		}
		w.want("ada off, bob")
		if running {
			book.Line(t, "account disable", "actor=socket", "object=ada@example.com", "result=ok")
			book.Line(t, "audit entry not stored", "account.disable", "no entries today")
		}
	})
}

func TestExportReplacesNothingUnasked(t *testing.T) {
	t.Parallel()
	w := newAccountRig(t, false, "", adaAndBob, nil)
	loaded, err := config.Load(w.src)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{target, link} {
		if _, err := daemon.ExportAccounts(t.Context(), daemon.Options{Loaded: loaded}, "", path, false); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: got %v", path, err)
		}
	}
	if got, err := os.ReadFile(target); string(got) != "mine" {
		t.Errorf("the file has %q (%v)", got, err)
	}
}

func TestReloadsAreRecordedWithNamesOnly(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g, book, write := daemontest.Follow(t, stage.Config("keys: [{name: laptop, secret: secret-laptop}]\n"))
	write(stage.Config("keys: [{name: laptop, secret: secret-second}, {name: desk, secret: secret-desk}]\nstrict: true\n"))
	line := book.Line(t, "configuration reloaded", "actor=file", "config.yaml", "changed=keys.laptop changed")
	write(stage.Config("keys: [{name: laptop, secret: secret-third}\n"))
	book.Line(t, "keeping the previous one")
	for refused := false; !refused; refused = len(daemontest.Entries(t, g.Config)) == 2 { // the row follows the line
		if t.Context().Err() != nil {
			t.Fatal("the refused reload is not recorded")
		}
	}
	rows := daemontest.Entries(t, g.Config)
	if rows[0].Action != perigee.AuditConfigReload || rows[0].Result != "invalid" || rows[0].Actor != perigee.ActorFile {
		t.Errorf("the refused one is %+v", rows[0])
	}
	if want := "changed: keys.laptop changed, keys.desk added, strict"; rows[1].Detail != want || rows[1].Result != "ok" {
		t.Errorf("got %+v, want %q", rows[1], want)
	}
	for _, text := range []string{line, rows[0].Detail + rows[0].Object, rows[1].Detail} {
		if strings.Contains(text, "secret-") {
			t.Errorf("a secret is in %s", text)
		}
	}
}
