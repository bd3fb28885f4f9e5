package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"perigee"
	"perigee/internal/config"
)

// A remote is the control of a running daemon, by way of its socket.
type remote struct{ client *http.Client }

var _ perigee.Control = remote{}

func newRemote(cfg *config.Config) remote {
	return remote{&http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "unix", SocketPath(cfg))
		},
	}}}
}

// How long the daemon may take: for what it knows of accounts, and for what it may have to ask the provider about many of
// them, or to sum up.
const (
	remoteTime = 10 * time.Second
	askingTime = 2 * time.Minute
)

// ask makes a request of the daemon. An answer that is an error comes back as the *perigee.Error that it was.
func (r remote) ask(ctx context.Context, method, path string, body []byte, into any) (http.Header, error) {
	patience := askingTime
	if method != http.MethodPost && strings.HasPrefix(path, accountsPath) {
		patience = remoteTime
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(bounded, method, "http://perigee"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, noAnswer(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, noAnswer(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(resp, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("the daemon's answer cannot be read; is it of another version? %w", err)
	}
	return resp.Header, nil
}

// noAnswer is the error about a daemon that was asked in vain, unless it is the person who did not want to wait.
func noAnswer(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the address in it means nothing to anybody
	}
	return fmt.Errorf("%w (%v)", ErrNoAnswer, err)
}

// refusal is the error that the daemon answered with.
func refusal(resp *http.Response, raw []byte) error {
	var said struct{ Error struct{ Message string } }
	_ = json.Unmarshal(raw, &said)
	class := perigee.Class(resp.Header.Get("X-Perigee-Class"))
	if said.Error.Message == "" || class == "" {
		return perigee.Errorf(perigee.ClassInternal, "the daemon answered %s", resp.Status).WithNext("is it of another version? start it anew")
	}
	return &perigee.Error{Class: class, Message: said.Error.Message}
}

const (
	accountsPath = "/v1/accounts"
	quotaPath    = "/v1/quota"
)

func (r remote) Accounts(ctx context.Context) (rows []perigee.AccountRow, err error) {
	_, err = r.ask(ctx, http.MethodGet, accountsPath, nil, &rows)
	return rows, err
}

func (r remote) ImportAccounts(ctx context.Context, in perigee.AccountImport) (rows []perigee.ImportedRow, err error) {
	query := url.Values{"upstream": {in.Upstream}}
	if in.Partial {
		query.Set("partial", "true")
	}
	_, err = r.ask(ctx, http.MethodPost, accountsPath+"?"+query.Encode(), in.Document, &rows)
	return rows, err
}

func (r remote) EnableAccount(ctx context.Context, name perigee.AccountName, enabled bool) (row perigee.AccountRow, err error) {
	body, err := json.Marshal(struct {
		perigee.AccountName
		Enabled bool `json:"enabled"`
	}{name, enabled})
	if err != nil {
		return row, err
	}
	_, err = r.ask(ctx, http.MethodPatch, accountsPath, body, &row)
	return row, err
}

func (r remote) RemoveAccount(ctx context.Context, name perigee.AccountName) error {
	query := url.Values{"email": {name.Email}, "upstream": {name.Upstream}}
	_, err := r.ask(ctx, http.MethodDelete, accountsPath+"?"+query.Encode(), nil, &struct{}{})
	return err
}

func (r remote) UseAccount(ctx context.Context, name perigee.AccountName) error {
	body, err := json.Marshal(name)
	if err != nil {
		return err
	}
	_, err = r.ask(ctx, http.MethodPost, accountsPath+"/use", body, &struct{}{})
	return err
}

func (r remote) ExplainAccounts(ctx context.Context, model string) (rows []perigee.ChoiceRow, err error) {
	_, err = r.ask(ctx, http.MethodGet, accountsPath+"/status?"+url.Values{"model": {model}}.Encode(), nil, &rows)
	return rows, err
}

func (r remote) Quota(ctx context.Context) (list perigee.QuotaList, err error) {
	header, err := r.ask(ctx, http.MethodGet, quotaPath, nil, &list.Rows)
	list.Problems = header.Values("X-Perigee-Notes")
	return list, err
}
