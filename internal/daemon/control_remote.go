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
type remote struct {
	client *http.Client
	limits remoteLimits
}

var _ perigee.Control = remote{}

// remoteLimits are how long the daemon may take.
type remoteLimits struct {
	alive   time.Duration // for anything that it knows, and to show that it is there before it is given something long to do
	quota   time.Duration // when the provider has to be asked
	lookup  time.Duration // when it may be asked about each of many accounts, or when there is much to sum up
	compact time.Duration // when it has to move gigabytes
}

func newRemote(cfg *config.Config) remote {
	usual := remoteLimits{alive: 10 * time.Second, quota: 30 * time.Second, lookup: 2 * time.Minute, compact: time.Hour}
	return remote{limits: usual, client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "unix", SocketPath(cfg))
		},
	}}}
}

// of says how long a request may take.
func (l remoteLimits) of(method, path string) time.Duration {
	path, _, _ = strings.Cut(path, "?")
	switch {
	case path == quotaPath || path == modelsPath:
		return l.quota
	case path == compactPath:
		return l.compact
	case path == usagePath || path == storePath || path == accountsPath && method == http.MethodPost:
		return l.lookup
	}
	return l.alive
}

// ask makes a request of the daemon. An answer that is an error comes back as the *perigee.Error that it was. A daemon that
// hangs takes connections all the same, so before something that may take long it has to show that it does not.
func (r remote) ask(ctx context.Context, method, path string, body []byte, into any) error {
	limit := r.limits.of(method, path)
	if limit > r.limits.alive {
		if err := r.send(ctx, http.MethodGet, healthPath, nil, &struct{}{}, r.limits.alive); err != nil {
			return err
		}
	}
	return r.send(ctx, method, path, body, into, limit)
}

func (r remote) send(ctx context.Context, method, path string, body []byte, into any, limit time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(bounded, method, "http://perigee"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return noAnswer(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return noAnswer(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(resp, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the daemon's answer cannot be read, it may be of another version: %w", err)
	}
	return nil
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
		return perigee.Errorf(perigee.ClassInternal, "the daemon answered %s", resp.Status).WithNext("it may be of another version: restart it")
	}
	return &perigee.Error{Class: class, Message: said.Error.Message}
}

const (
	accountsPath = "/v1/accounts"
	quotaPath    = "/v1/quota"
	usagePath    = "/v1/usage"
	modelsPath   = "/v1/models"
	healthPath   = "/health"
	auditPath    = "/v1/audit"
)

func (r remote) Accounts(ctx context.Context) (rows []perigee.AccountRow, err error) {
	err = r.ask(ctx, http.MethodGet, accountsPath, nil, &rows)
	return rows, err
}

func (r remote) ImportAccounts(ctx context.Context, in perigee.AccountImport) (rows []perigee.ImportedRow, err error) {
	query := url.Values{"upstream": {in.Upstream}}
	if in.Partial {
		query.Set("partial", "true")
	}
	err = r.ask(ctx, http.MethodPost, accountsPath+"?"+query.Encode(), in.Document, &rows)
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
	err = r.ask(ctx, http.MethodPatch, accountsPath, body, &row)
	return row, err
}

func (r remote) RemoveAccount(ctx context.Context, name perigee.AccountName) error {
	query := url.Values{"email": {name.Email}, "upstream": {name.Upstream}}
	err := r.ask(ctx, http.MethodDelete, accountsPath+"?"+query.Encode(), nil, &struct{}{})
	return err
}

func (r remote) UseAccount(ctx context.Context, name perigee.AccountName) error {
	body, err := json.Marshal(name)
	if err != nil {
		return err
	}
	err = r.ask(ctx, http.MethodPost, accountsPath+"/use", body, &struct{}{})
	return err
}

func (r remote) ExplainAccounts(ctx context.Context, model string) (rows []perigee.ChoiceRow, err error) {
	err = r.ask(ctx, http.MethodGet, accountsPath+"/status?"+url.Values{"model": {model}}.Encode(), nil, &rows)
	return rows, err
}

func (r remote) Models(ctx context.Context, upstream string) (list perigee.ModelList, err error) {
	query := url.Values{"problems": {"true"}, "upstream": {upstream}}
	err = r.ask(ctx, http.MethodGet, modelsPath+"?"+query.Encode(), nil, &list)
	return list, err
}

func (r remote) Quota(ctx context.Context) (list perigee.QuotaList, err error) {
	err = r.ask(ctx, http.MethodGet, quotaPath+"?problems=true", nil, &list)
	return list, err
}
