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

// How long the daemon may take: for what it knows, and for what it may have to ask the provider about many accounts.
const (
	remoteTime = 10 * time.Second
	askingTime = 2 * time.Minute
)

// ask makes a request of the daemon. An answer that is an error comes back as the *perigee.Error that it was.
func (r remote) ask(ctx context.Context, method, path string, body []byte, into any) (http.Header, error) {
	patience := remoteTime
	if method == http.MethodPost || path == quotaPath {
		patience = askingTime
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://perigee"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the address in it means nothing to anybody
		}
		return nil, fmt.Errorf("the daemon does not answer: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("the daemon broke off: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var refusal struct{ Error struct{ Message string } }
		_ = json.Unmarshal(raw, &refusal)
		return nil, &perigee.Error{Class: perigee.Class(resp.Header.Get("X-Perigee-Class")), Message: refusal.Error.Message}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("the daemon's answer cannot be read; is it of another version? %w", err)
	}
	return resp.Header, nil
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
