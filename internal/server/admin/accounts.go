package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"

	"perigee"
	"perigee/internal/server/mount"
)

// accounts answers GET /v1/accounts.
func (a *API) accounts(r *http.Request) ([]perigee.AccountRow, error) {
	if err := mount.KnownParameters(r.URL.Query()); err != nil {
		return nil, err
	}
	return a.Control.Accounts(r.Context())
}

// importAccounts answers POST /v1/accounts?upstream=&partial=. The body is a file of accounts, in
// any of the JSON formats.
func (a *API) importAccounts(r *http.Request) ([]perigee.ImportedRow, error) {
	query := r.URL.Query()
	if err := mount.KnownParameters(query, "upstream", "partial"); err != nil {
		return nil, err
	}
	in := perigee.AccountImport{Upstream: query.Get("upstream")}
	var err error
	if in.Partial, err = mount.BoolParameter(query, "partial"); err != nil {
		return nil, err
	}
	if in.Document, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(in.Document)) == 0 {
		return nil, perigee.Errorf(perigee.ClassInvalid, "the body is empty").
			WithHint(`send accounts as JSON, such as [{"email": "ada@example.com", "refresh_token": "…"}]`)
	}
	return a.Control.ImportAccounts(r.Context(), in)
}

// changeAccount answers PATCH /v1/accounts: {"email", "upstream", "enabled"}. The account may also
// be named in the query.
func (a *API) changeAccount(r *http.Request) (perigee.AccountRow, error) {
	var enabled *bool
	name, err := readAccount(r, map[string]any{"enabled": &enabled})
	if err == nil && enabled == nil {
		err = perigee.Errorf(perigee.ClassInvalid, "nothing is to be changed").
			WithHint(`send {"email": "ada@example.com", "enabled": true} or false`)
	}
	if err != nil {
		return perigee.AccountRow{}, err
	}
	return a.Control.EnableAccount(r.Context(), name, *enabled)
}

// actOn answers a request about one account, {"email", "upstream"} or the same in the query, with
// its name: DELETE /v1/accounts and POST /v1/accounts/use.
func (a *API) actOn(act func(perigee.AccountControl, context.Context, perigee.AccountName) error) mount.Handler {
	return mount.Value(func(r *http.Request) (perigee.AccountName, error) {
		name, err := readAccount(r, nil)
		if err == nil {
			err = act(a.Control, r.Context(), name)
		}
		return name, err
	})
}

// readAccount reads the name of an account from the query or the body of a request, and the other
// members of the body into more. It is an error if the query and the body name different accounts.
func readAccount(r *http.Request, more map[string]any) (perigee.AccountName, error) {
	query := r.URL.Query()
	name := perigee.AccountName{Email: query.Get("email"), Upstream: query.Get("upstream")}
	if err := mount.KnownParameters(query, "email", "upstream"); err != nil {
		return name, err
	}
	var body perigee.AccountName
	if r.ContentLength != 0 {
		fields := map[string]any{"email": &body.Email, "upstream": &body.Upstream}
		maps.Copy(fields, more)
		if err := readCommand(r, fields); err != nil {
			return name, err
		}
	}
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	if differ(name.Email, body.Email) || differ(name.Upstream, body.Upstream) {
		return name, perigee.Errorf(perigee.ClassInvalid, "query and body name different accounts").WithHint("name the account once")
	}
	name.Email, name.Upstream = cmp.Or(name.Email, body.Email), cmp.Or(name.Upstream, body.Upstream)
	if name.Email == "" {
		return name, perigee.Errorf(perigee.ClassInvalid, "no account is named").WithHint("name it by its email")
	}
	return name, nil
}

// accountStatus answers GET /v1/accounts/status?model=: which account would be used now, and why
// the rest would not.
func (a *API) accountStatus(r *http.Request) ([]perigee.ChoiceRow, error) {
	query := r.URL.Query()
	if err := mount.KnownParameters(query, "model"); err != nil {
		return nil, err
	}
	return a.Control.ExplainAccounts(r.Context(), query.Get("model"))
}

// readCommand reads a small JSON object into the fields that it may have. Unknown and repeated
// members are errors.
func readCommand(r *http.Request, fields map[string]any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return perigee.Errorf(perigee.ClassInvalid, format, args...).WithHint(`send an object such as {"email": "ada@example.com"}`)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return bad("the body is not a JSON object")
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return bad("the body is damaged: %w", err)
		}
		name, _ := key.(string)
		field, ok := fields[name]
		if !ok {
			return bad("unknown or repeated member %q", mount.Shorten(name))
		}
		delete(fields, name)
		if err := decoder.Decode(field); err != nil {
			return bad("member %q cannot be read: %w", mount.Shorten(name), err)
		}
	}
	_, err = decoder.Token()
	if _, after := decoder.Token(); err != nil || !errors.Is(after, io.EOF) {
		return bad("the body is damaged")
	}
	return nil
}
