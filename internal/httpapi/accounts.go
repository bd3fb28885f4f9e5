package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"

	"perigee"
)

// control is what the owner acts on.
func (c *call) control() (perigee.Control, error) {
	if c.opts.Control == nil {
		return nil, perigee.Errorf(perigee.ClassUnimplemented, "there are no accounts here")
	}
	return c.opts.Control, nil
}

// accounts answers GET /v1/accounts.
func (c *call) accounts() error {
	control, err := c.control()
	if err != nil {
		return err
	}
	if err := knownParameters(c.r.URL.Query()); err != nil {
		return err
	}
	rows, err := control.Accounts(c.r.Context())
	if err != nil {
		return err
	}
	return writeList(c, rows)
}

// importAccounts answers POST /v1/accounts?upstream=&partial=. The body is a file of accounts, in any of the JSON formats.
func (c *call) importAccounts() error {
	control, err := c.control()
	if err != nil {
		return err
	}
	query := c.r.URL.Query()
	if err := knownParameters(query, "upstream", "partial"); err != nil {
		return err
	}
	in := perigee.AccountImport{Upstream: query.Get("upstream")}
	if in.Partial, err = boolParameter(query, "partial"); err != nil {
		return err
	}
	if in.Document, err = c.readBody(); err != nil {
		return err
	}
	if len(bytes.TrimSpace(in.Document)) == 0 {
		return perigee.Errorf(perigee.ClassInvalid, "the body is empty").WithNext(`send accounts as JSON, such as [{"email": "ada@example.com", "refresh_token": "…"}]`)
	}
	rows, err := control.ImportAccounts(c.r.Context(), in)
	if err != nil {
		return err
	}
	return writeList(c, rows)
}

// changeAccount answers PATCH /v1/accounts: {"email", "upstream", "enabled"}. The account may also be named in the query.
func (c *call) changeAccount() error {
	control, err := c.control()
	if err != nil {
		return err
	}
	var enabled *bool
	name, err := c.readAccount(map[string]any{"enabled": &enabled})
	if err != nil {
		return err
	}
	if enabled == nil {
		return perigee.Errorf(perigee.ClassInvalid, "nothing is to be changed").WithNext(`send {"email": "ada@example.com", "enabled": true} or false`)
	}
	row, err := control.EnableAccount(c.r.Context(), name, *enabled)
	if err != nil {
		return err
	}
	return c.writeValue(row)
}

// removeAccount answers DELETE /v1/accounts: {"email", "upstream"}, or the same in the query.
func (c *call) removeAccount() error {
	control, err := c.control()
	if err != nil {
		return err
	}
	name, err := c.readAccount(nil)
	if err != nil {
		return err
	}
	if err := control.RemoveAccount(c.r.Context(), name); err != nil {
		return err
	}
	return c.writeValue(name)
}

// useAccount answers POST /v1/accounts/use: {"email", "upstream"}, or the same in the query.
func (c *call) useAccount() error {
	control, err := c.control()
	if err != nil {
		return err
	}
	name, err := c.readAccount(nil)
	if err != nil {
		return err
	}
	if err := control.UseAccount(c.r.Context(), name); err != nil {
		return err
	}
	return c.writeValue(name)
}

// readAccount reads which account a request is about, from its query or its body, and what else the body says. Where both name it
// they must agree: which of two accounts is meant is not to be guessed.
func (c *call) readAccount(more map[string]any) (perigee.AccountName, error) {
	query := c.r.URL.Query()
	name := perigee.AccountName{Email: query.Get("email"), Upstream: query.Get("upstream")}
	if err := knownParameters(query, "email", "upstream"); err != nil {
		return name, err
	}
	var body perigee.AccountName
	if c.r.ContentLength != 0 {
		fields := map[string]any{"email": &body.Email, "upstream": &body.Upstream}
		maps.Copy(fields, more)
		if err := c.readCommand(fields); err != nil {
			return name, err
		}
	}
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	if differ(name.Email, body.Email) || differ(name.Upstream, body.Upstream) {
		return name, perigee.Errorf(perigee.ClassInvalid, "query and body name different accounts").WithNext("name the account once")
	}
	name.Email, name.Upstream = cmp.Or(name.Email, body.Email), cmp.Or(name.Upstream, body.Upstream)
	if name.Email == "" {
		return name, perigee.Errorf(perigee.ClassInvalid, "no account is named").WithNext("name it by its email")
	}
	return name, nil
}

// accountStatus answers GET /v1/accounts/status?model=: who would be taken now, and why not the others.
func (c *call) accountStatus() error {
	control, err := c.control()
	if err != nil {
		return err
	}
	query := c.r.URL.Query()
	if err := knownParameters(query, "model"); err != nil {
		return err
	}
	rows, err := control.ExplainAccounts(c.r.Context(), query.Get("model"))
	if err != nil {
		return err
	}
	return writeList(c, rows)
}

// readCommand reads a small JSON object that says what to do into the fields that it may have. A member that nobody knows,
// or that stands there twice, is a mistake.
func (c *call) readCommand(fields map[string]any) error {
	body, err := c.readBody()
	if err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return perigee.Errorf(perigee.ClassInvalid, format, args...).WithNext(`send an object such as {"email": "ada@example.com"}`)
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
			return bad("unknown or repeated member %q", shorten(name))
		}
		delete(fields, name)
		if err := decoder.Decode(field); err != nil {
			return bad("member %q cannot be read: %w", shorten(name), err)
		}
	}
	_, err = decoder.Token()
	if _, after := decoder.Token(); err != nil || !errors.Is(after, io.EOF) {
		return bad("the body is damaged")
	}
	return nil
}

// writeList answers with a JSON array.
func writeList[T any](c *call, rows []T) error {
	if rows == nil {
		rows = []T{}
	}
	return c.writeValue(rows)
}
