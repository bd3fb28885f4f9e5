package roster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"perigee"
	"perigee/internal/lib/vscdb"
)

// An accountList is the content of an account file.
type accountList struct {
	// Accounts are the usable accounts, in the order of the file, each person once. They have no
	// upstream. An account's email is empty if the file has none, see oauth.Client.Identify. Its
	// state is perigee.AccountUntested, or the state that the file records.
	Accounts []perigee.SignIn
	Active   string     // the email of the account that was in use; may be empty
	Lines    []FileLine // one for each entry of the file
}

// A FileLine reports on one entry of a file.
type FileLine struct {
	Where   string // "account 3"
	Email   string // may be empty
	Problem string // why it cannot be used; empty if it can
	Note    string // a remark about an account that can be used all the same
	// Nameless reports that the entry can be used, and that the file has no email for it.
	Nameless bool
}

// maxImport bounds a file that is read as JSON; an account takes a few kilobytes at most.
const maxImport = 16 << 20

// readAccounts reads accounts from a file, which it does not change. If an entry cannot be used,
// the whole file is refused, unless partial is true. A file that is refused for its entries is
// still returned, without accounts, for its Lines. Errors name places in the file and never quote
// it. Limits that have expired by now are left out.
func readAccounts(ctx context.Context, path string, partial bool, now time.Time) (*accountList, error) {
	list, err := readAny(ctx, path, now)
	if err != nil {
		if e, ok := errors.AsType[*perigee.Error](err); ok {
			return nil, perigee.Errorf(e.Class, "import %s: %s", path, e.Message).WithHint("%s", e.Hint)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, perigee.Errorf(perigee.ClassInvalid, "import %s: %w", path, err).WithHint("check the path and that the file can be read")
	}
	return list, list.checkUsable(path, partial)
}

func readAny(ctx context.Context, path string, now time.Time) (*accountList, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, unwrapPath(err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, int64(len(vscdb.Magic))))
	if err != nil {
		return nil, unwrapPath(err)
	}
	if string(data) == vscdb.Magic {
		return readIDE(ctx, path)
	}
	rest, err := io.ReadAll(io.LimitReader(file, maxImport+1))
	if err != nil {
		return nil, unwrapPath(err)
	}
	if data = append(data, rest...); len(data) > maxImport {
		return nil, unusableFile("it is larger than %d MiB, which no list of accounts is", maxImport>>20)
	}
	return parseAccounts(data, now)
}

// unwrapPath removes the path from an error that will be reported together with it.
func unwrapPath(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// parseAccounts reads accounts from the text of any of the JSON formats: a list of accounts or one
// of these alone, the document of an export, the file of the OpenCode plugin in its versions 1 to
// 4, and one credential with the type antigravity.
func parseAccounts(data []byte, now time.Time) (*accountList, error) {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	switch {
	case len(bytes.Trim(data, "\x00 \r\n\t")) == 0:
		return nil, unusableFile("it is empty")
	case data[0] != '[' && data[0] != '{':
		return nil, unknownFormat("it is neither JSON nor a database of the IDE")
	}
	return parseJSON(data, now)
}

func unusableFile(format string, args ...any) *perigee.Error {
	return perigee.Errorf(perigee.ClassInvalid, format, args...).
		WithHint("export the accounts again with the program that wrote the file")
}

// unknownFormat returns the error about a file that is something else. Its next step is several
// lines, one for each format.
func unknownFormat(problem string) *perigee.Error {
	return perigee.Errorf(perigee.ClassInvalid, "%s", problem).WithHint("%s", `perigee reads these formats:
  a list:                      [{"email": "ada@example.com", "refresh_token": "…"}]
  one account:                 {"email": "ada@example.com", "refresh_token": "…"}
  an export of perigee:        {"accounts": [{"email": "ada@example.com", "refresh_token": "…"}], "active": "ada@example.com"}
  the OpenCode plugin's file:  {"version": 4, "accounts": [{"email": "ada@example.com", "refreshToken": "…"}], "activeIndex": 0}
  a credential:                {"type": "antigravity", "email": "ada@example.com", "refresh_token": "…"}
  the IDE's own database:      state.vscdb`)
}

// checkUsable returns an error if the accounts may not be used. It does not repeat the Lines.
func (i *accountList) checkUsable(path string, partial bool) error {
	problems := 0
	for _, line := range i.Lines {
		if line.Problem != "" {
			problems++
		}
	}
	switch {
	case len(i.Lines) == 0:
		return perigee.Errorf(perigee.ClassInvalid, "import %s: there are no accounts in it", path).
			WithHint("sign in with `perigee login`, or export them again")
	case problems == 0 || partial && len(i.Accounts) > 0:
		return nil
	}
	i.Accounts = nil
	err := perigee.Errorf(perigee.ClassInvalid, "import %s: %d of %d accounts cannot be used", path, problems, len(i.Lines))
	if len(i.Lines) == 1 {
		err.Message = fmt.Sprintf("import %s: the only account in it cannot be used", path)
	}
	if len(i.Lines) == problems {
		return err.WithHint("sign in with `perigee login`")
	}
	return err.WithHint("correct them, or import the rest with --partial")
}
