package roster

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"perigee"
	"perigee/internal/testing/perigeetest/dbtest"
)

var update = flag.Bool("update", false, "rewrite the expected parts of testdata")

// readAt is when the files of testdata are read.
var readAt = time.Date(2025, 10, 9, 9, 0, 0, 0, time.UTC)

var codePoint = regexp.MustCompile(`⟪([0-9a-f]{4})⟫`)

// TestImportFiles reads each file of testdata/import and compares the report, whole and partial. In
// the files ⟪feff⟫ is a character that cannot be seen.
func TestImportFiles(t *testing.T) {
	names, err := filepath.Glob("testdata/read/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			file := codePoint.ReplaceAllFunc(archive.Files[0].Data, func(match []byte) []byte {
				n, _ := strconv.ParseUint(string(match[len("⟪"):len("⟪")+4]), 16, 32)
				return []byte(string(rune(n)))
			})
			got := report(t, file)
			if *update {
				archive.Files = append(archive.Files[:1], txtar.File{Name: "report", Data: []byte(got)})
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(archive.Files[1].Data); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// report imports a file both ways and writes down what came of it.
func report(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	list, err := readAccounts(t.Context(), path, false, readAt)
	write(&b, list, err, path)
	if list != nil && err != nil {
		list, err := readAccounts(t.Context(), path, true, readAt)
		b.WriteString("\npartial:\n")
		list.Lines = nil
		write(&b, list, err, path)
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if !strings.HasPrefix(line, "+ ") && strings.Contains(line, "fake-") {
			t.Errorf("a token is shown: %s", line)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, data) {
		t.Errorf("the file was changed, %v", err)
	}
	return b.String()
}

func write(b *strings.Builder, list *accountList, err error, path string) {
	if list != nil {
		if list.Active != "" {
			fmt.Fprintf(b, "active %s\n", list.Active)
		}
		for _, line := range list.Lines {
			fmt.Fprintln(b, strings.TrimRight(strings.Join([]string{line.Where, line.Email, line.Problem, line.Note, map[bool]string{true: "nameless"}[line.Nameless]}, " | "), " |"))
		}
		for _, a := range list.Accounts {
			fmt.Fprintf(b, "+ %s %s", a.Email, a.Refresh.Reveal())
			for name, value := range map[string]string{"project": a.ProjectID} {
				if value != "" {
					fmt.Fprintf(b, " %s=%s", name, value)
				}
			}
			if !a.Added.IsZero() {
				fmt.Fprintf(b, " added=%s", a.Added.Format(time.RFC3339))
			}
			if !a.Enabled {
				b.WriteString(" disabled")
			}
			if a.State != perigee.AccountUntested {
				fmt.Fprintf(b, " %s: %s", a.State, a.Reason)
			}
			for _, c := range a.Cooldowns {
				fmt.Fprintf(b, " rests(%s, %s, %s, until %s)", c.Family, c.Pool, c.Reason, c.Until.Format(time.RFC3339))
			}
			b.WriteString("\n")
		}
	}
	if err != nil {
		fmt.Fprintf(b, "%s: %s\n", perigee.AsError(err).Class, strings.ReplaceAll(err.Error(), path, "FILE"))
	}
}

func TestImportWhatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "no"), dir} {
		_, err := readAccounts(t.Context(), path, false, readAt)
		if e := wantClass(t, err, perigee.ClassInvalid); strings.Count(e.Error(), path) != 1 {
			t.Errorf("got %q", e.Error())
		}
	}
}

func TestImportOfAHugeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("["); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Truncate(maxImport+1), file.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = readAccounts(t.Context(), path, false, readAt)
	if e := wantClass(t, err, perigee.ClassInvalid); !strings.Contains(e.Message, "larger than 16 MiB") {
		t.Errorf("got %v", e)
	}
}

func TestExportIsReadBack(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "accounts.json")
	if err := os.WriteFile(path, []byte("something that was there"), 0o644); err != nil {
		t.Fatal(err)
	}
	bob := adaSignIn()
	bob.Email, bob.Refresh, bob.Enabled, bob.ProjectID = "bob@example.com", perigee.NewSecret("sim-refresh-bob"), false, "p<&>"
	bob.Added = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	lost := perigee.SignIn{Account: perigee.Account{Email: "lost@example.com"}}
	eve, ban := bob, bob
	eve.Email, eve.Refresh, eve.State, eve.Reason = "eve@example.com", perigee.NewSecret("e"), perigee.AccountVerification, "open https://example.com/"+strings.Repeat("very-", 500)+"long first"
	ban.Email, ban.Refresh, ban.State, ban.Reason = "ban@example.com", perigee.NewSecret("b"), perigee.AccountBanned, "it did what it should not"
	bob.Cooldowns = []perigee.Cooldown{{Family: "gemini", Pool: "antigravity", Until: readAt.Add(time.Hour), Reason: "quota"}}
	kept, skipped, err := exportable([]perigee.SignIn{adaSignIn(), lost, bob, eve, ban})
	if err != nil || !slices.Equal(skipped, []string{"lost@example.com"}) {
		t.Fatalf("skipped %v, %v", skipped, err)
	}
	if err := writeAccounts(path, kept, "bob@example.com", true); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("it is %v, %v", info.Mode(), err)
	}
	list, err := readAccounts(t.Context(), path, false, readAt)
	if err != nil || list.Active != "bob@example.com" {
		t.Fatalf("got %+v, %v", list, err)
	}
	var got []perigee.SignIn
	for _, a := range list.Accounts {
		a.Upstream = "antigravity"
		got = append(got, a)
	}
	want := []perigee.SignIn{adaSignIn(), bob, eve, ban}
	for i := range want[:2] {
		want[i].State = perigee.AccountUntested // it has to be tested again after import
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 1 {
		t.Errorf("there are %q", names)
	}
}

func TestExportThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	list := []perigee.SignIn{adaSignIn()}
	wantClass(t, writeAccounts(filepath.Join(dir, "no", "accounts.json"), list, "", true), perigee.ClassInvalid)
	wantClass(t, writeAccounts(dir, list, "", true), perigee.ClassInvalid) // a directory is in the way
	_, _, err := exportable(nil)
	wantClass(t, err, perigee.ClassNotFound)
	var left []string
	_ = filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return nil
	})
	if len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestCanceledImport(t *testing.T) {
	path := dbtest.NewEditor(t, "WAL").Path
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := readAccounts(ctx, path, false, readAt); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("testdata/read/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parseAccounts(data, readAt)
		if err != nil {
			wantClass(t, err, perigee.ClassInvalid)
			return
		}
		for _, a := range list.Accounts {
			if a.Refresh.IsZero() || a.Email != strings.ToLower(a.Email) {
				t.Errorf("unusable: %+v", a)
			}
		}
	})
}

func wantClass(t *testing.T, err error, class perigee.Class) *perigee.Error {
	t.Helper()
	e, ok := errors.AsType[*perigee.Error](err)
	if !ok || e.Class != class {
		t.Fatalf("got error %v, want one of class %s", err, class)
	}
	return e
}

func adaSignIn() perigee.SignIn {
	return perigee.SignIn{Account: perigee.Account{Email: "ada@example.com", Upstream: "antigravity", Enabled: true, State: perigee.AccountReady},
		Refresh: perigee.NewSecret("sim-refresh-ada")}
}
