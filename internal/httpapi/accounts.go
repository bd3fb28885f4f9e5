package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

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
	in := perigee.AccountImport{Upstream: query.Get("upstream")}
	if in.Partial, err = boolParameter(query, "partial"); err != nil {
		return err
	}
	if in.Document, err = c.readBody(); err != nil {
		return err
	}
	rows, err := control.ImportAccounts(c.r.Context(), in)
	if err != nil {
		return err
	}
	return writeList(c, rows)
}

// changeAccount answers PATCH /v1/accounts: {"email", "upstream", "enabled"}.
func (c *call) changeAccount() error {
	control, err := c.control()
	if err != nil {
		return err
	}
	var name perigee.AccountName
	var enabled *bool
	if err := c.readCommand(map[string]any{"email": &name.Email, "upstream": &name.Upstream, "enabled": &enabled}); err != nil {
		return err
	}
	if enabled == nil {
		return perigee.Errorf(perigee.ClassInvalid, "nothing is to be changed").WithNext(`say "enabled": true or false`)
	}
	row, err := control.EnableAccount(c.r.Context(), name, *enabled)
	if err != nil {
		return err
	}
	return c.writeValue(row)
}

// removeAccount answers DELETE /v1/accounts?email=&upstream=, or with the same in a body as useAccount takes it. Where both
// are given they must agree: which of two accounts to forget is not to be guessed.
func (c *call) removeAccount() error {
	control, err := c.control()
	if err != nil {
		return err
	}
	name := perigee.AccountName{Email: c.r.URL.Query().Get("email"), Upstream: c.r.URL.Query().Get("upstream")}
	if c.r.ContentLength != 0 {
		var body perigee.AccountName
		if err := c.readCommand(map[string]any{"email": &body.Email, "upstream": &body.Upstream}); err != nil {
			return err
		}
		if name.Email != "" && name.Email != body.Email || name.Upstream != "" && name.Upstream != body.Upstream {
			return perigee.Errorf(perigee.ClassInvalid, "the address and the body name different accounts").WithNext("name the account once")
		}
		name = body
	}
	if err := control.RemoveAccount(c.r.Context(), name); err != nil {
		return err
	}
	return c.writeValue(name)
}

// useAccount answers POST /v1/accounts/use: {"email", "upstream"}.
func (c *call) useAccount() error {
	control, err := c.control()
	if err != nil {
		return err
	}
	var name perigee.AccountName
	if err := c.readCommand(map[string]any{"email": &name.Email, "upstream": &name.Upstream}); err != nil {
		return err
	}
	if err := control.UseAccount(c.r.Context(), name); err != nil {
		return err
	}
	return c.writeValue(name)
}

// accountStatus answers GET /v1/accounts/status?model=: who would be taken now, and why not the others.
func (c *call) accountStatus() error {
	control, err := c.control()
	if err != nil {
		return err
	}
	rows, err := control.ExplainAccounts(c.r.Context(), c.r.URL.Query().Get("model"))
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
			return bad("the member %q is not known here, or stands there twice", shorten(name))
		}
		delete(fields, name)
		if err := decoder.Decode(field); err != nil {
			return bad("the member %q cannot be read: %w", shorten(name), err)
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
