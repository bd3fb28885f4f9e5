// Package remote controls a running daemon through its socket.
package remote

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
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/mcp/ask"
)

// ErrNoAnswer means that a daemon was reached and did not answer, so the result is unknown.
var ErrNoAnswer = errors.New("the daemon does not answer; see its log, or restart it with perigee serve --replace")

// Patience is how long the daemon may take for an answer that needs no call.
const Patience = 10 * time.Second

// Paths of the admin API. Commands use the aliases of the paths below /perigee/v1, because a daemon
// that is older than those may still be running after an upgrade.
const (
	accountsPath = "/v1/accounts"
	quotaPath    = "/v1/quota"
	usagePath    = "/v1/usage"
	modelsPath   = "/v1/models"
	explainPath  = "/v1/explain"
	healthPath   = "/health"
	AuditPath    = "/v1/audit"
	StorePath    = "/v1/store"
	CompactPath  = "/v1/store/compact"
	StatusPath   = "/v1/status"

	LangserverPath = "/v1/langserver"
)

// A Client talks to a daemon. It implements the interfaces of perigee.Control.
type Client struct {
	client *http.Client
	limits limits
}

// New returns the client of the daemon with a socket.
func New(socket string) *Client {
	usual := limits{alive: Patience, quota: 30 * time.Second, lookup: 2 * time.Minute, compact: time.Hour}
	return &Client{limits: usual, client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket) },
	}}}
}

func dial(ctx context.Context, socket string) (net.Conn, error) {
	return (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "unix", socket)
}

// Running reports whether a daemon accepts connections on a socket.
func Running(ctx context.Context, socket string) bool {
	conn, err := dial(ctx, socket)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// limits are how long the daemon may take.
type limits struct {
	alive   time.Duration // for answers that need no call, and to check that it is alive before a long request
	quota   time.Duration // when the provider has to be asked
	lookup  time.Duration // when it may be asked about each of many accounts, or when there is much to sum up
	compact time.Duration // when it has to move gigabytes
}

// of returns how long a request may take.
func (l limits) of(method, path string) time.Duration {
	path, _, _ = strings.Cut(path, "?")
	switch {
	case path == quotaPath || path == modelsPath || path == explainPath:
		return l.quota
	case path == CompactPath:
		return l.compact
	case path == usagePath || path == StorePath || path == accountsPath && method == http.MethodPost:
		return l.lookup
	}
	return l.alive
}

// Control returns the client as a Control.
func (c *Client) Control() perigee.Control {
	return perigee.Control{AccountControl: c, RoutingControl: c, QuotaControl: c}
}

// Asker has the daemon answer asks.
func (c *Client) Asker() ask.Asker { return &ask.RelayClient{HTTP: c.client, URL: "http://perigee"} }

// Ask makes a request of the daemon, with body as JSON unless it is nil or a []byte, and decodes
// the answer. An answer that is an error comes back as the *perigee.Error that it was. A daemon
// that hangs accepts connections all the same, so before something that may take long it has to
// answer a short question.
func Ask[T any](ctx context.Context, c *Client, method, path string, body any) (answer T, err error) {
	limit := c.limits.of(method, path)
	if limit > c.limits.alive {
		if _, err := c.send(ctx, c.limits.alive, http.MethodGet, healthPath, nil); err != nil {
			return answer, err
		}
	}
	text, ok := body.([]byte)
	if !ok && body != nil {
		if text, err = json.Marshal(body); err != nil {
			return answer, err
		}
	}
	raw, err := c.send(ctx, limit, method, path, text)
	if err == nil {
		if err = json.Unmarshal(raw, &answer); err != nil {
			err = fmt.Errorf("the daemon's answer cannot be read, it may be of another version: %w", err)
		}
	}
	return answer, err
}

// send returns the body of the answer.
func (c *Client) send(ctx context.Context, limit time.Duration, method, path string, body []byte) ([]byte, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(bounded, method, "http://perigee"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, noAnswer(ctx, limit, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, noAnswer(ctx, limit, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(resp, raw)
	}
	return raw, nil
}

// noAnswer returns the error about a daemon that does not answer, or ctx's if the caller has
// stopped waiting.
func noAnswer(ctx context.Context, limit time.Duration, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w (%w)", ErrNoAnswer, silence(limit))
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL, which is internal
	}
	return fmt.Errorf("%w (%v)", ErrNoAnswer, err)
}

// A silence is the time in which no answer came.
type silence time.Duration

func (s silence) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(s)) }

func (s silence) Unwrap() error { return context.DeadlineExceeded }

// refusal returns the error that the daemon answered with.
func refusal(resp *http.Response, raw []byte) error {
	var said struct{ Error struct{ Message string } }
	_ = json.Unmarshal(raw, &said)
	class := perigee.Class(resp.Header.Get("X-Perigee-Class"))
	if said.Error.Message == "" || class == "" {
		return perigee.Errorf(perigee.ClassInternal, "the daemon answered %s", resp.Status).
			WithHint("it may be of another version: restart it")
	}
	return &perigee.Error{Class: class, Message: said.Error.Message}
}

// Status returns the configuration and state of the daemon.
func (c *Client) Status(ctx context.Context) (perigee.DaemonStatus, error) {
	return Ask[perigee.DaemonStatus](ctx, c, http.MethodGet, StatusPath, nil)
}

// nothing is the type of answers that do not matter.
type nothing = struct{}

// Accounts lists the accounts.
func (c *Client) Accounts(ctx context.Context) ([]perigee.AccountRow, error) {
	return Ask[[]perigee.AccountRow](ctx, c, http.MethodGet, accountsPath, nil)
}

// ImportAccounts adds accounts.
func (c *Client) ImportAccounts(ctx context.Context, in perigee.AccountImport) ([]perigee.ImportedRow, error) {
	query := url.Values{"upstream": {in.Upstream}}
	if in.Partial {
		query.Set("partial", "true")
	}
	return Ask[[]perigee.ImportedRow](ctx, c, http.MethodPost, accountsPath+"?"+query.Encode(), in.Document)
}

// EnableAccount enables or disables an account.
func (c *Client) EnableAccount(ctx context.Context, name perigee.AccountName, enabled bool) (perigee.AccountRow, error) {
	return Ask[perigee.AccountRow](ctx, c, http.MethodPatch, accountsPath, struct {
		perigee.AccountName
		Enabled bool `json:"enabled"`
	}{name, enabled})
}

// RemoveAccount removes an account.
func (c *Client) RemoveAccount(ctx context.Context, name perigee.AccountName) error {
	query := url.Values{"email": {name.Email}, "upstream": {name.Upstream}}
	_, err := Ask[nothing](ctx, c, http.MethodDelete, accountsPath+"?"+query.Encode(), nil)
	return err
}

// UseAccount makes an account the preferred one.
func (c *Client) UseAccount(ctx context.Context, name perigee.AccountName) error {
	_, err := Ask[nothing](ctx, c, http.MethodPost, accountsPath+"/use", name)
	return err
}

// ExplainAccounts reports which account a call to a model would get, and why.
func (c *Client) ExplainAccounts(ctx context.Context, model string) ([]perigee.ChoiceRow, error) {
	return Ask[[]perigee.ChoiceRow](ctx, c, http.MethodGet, accountsPath+"/status?"+url.Values{"model": {model}}.Encode(), nil)
}

// ExplainRoute reports which upstream would answer a call, and why.
func (c *Client) ExplainRoute(ctx context.Context, q perigee.RouteQuestion) (perigee.RouteExplanation, error) {
	query := url.Values{"model": {q.Model}}
	if q.Agent != "" {
		query.Set("agent", q.Agent)
	}
	if q.InputTokens != nil {
		query.Set("input_tokens", strconv.FormatInt(*q.InputTokens, 10))
	}
	if q.Images != nil {
		query.Set("images", strconv.FormatBool(*q.Images))
	}
	if q.Tools != nil {
		query.Set("tools", strconv.FormatBool(*q.Tools))
	}
	return Ask[perigee.RouteExplanation](ctx, c, http.MethodGet, explainPath+"?"+query.Encode(), nil)
}

// Models lists the models.
func (c *Client) Models(ctx context.Context, upstream string, fresh bool) (perigee.ModelList, error) {
	query := url.Values{"problems": {"true"}, "upstream": {upstream}}
	if fresh {
		query.Set("fresh", "true")
	}
	return Ask[perigee.ModelList](ctx, c, http.MethodGet, modelsPath+"?"+query.Encode(), nil)
}

// Quota is always read from the provider: requests on the daemon's socket are the owner's.
func (c *Client) Quota(ctx context.Context, _ bool) (perigee.QuotaList, error) {
	return Ask[perigee.QuotaList](ctx, c, http.MethodGet, quotaPath+"?problems=true", nil)
}

// Open makes a request with an answer that is read while it arrives, for as long as the daemon
// takes. The caller closes its body, and checks its status; Refusal returns the error of a refused
// request.
func (c *Client) Open(ctx context.Context, method, path string) (*http.Response, error) {
	if _, err := c.send(ctx, c.limits.alive, http.MethodGet, healthPath, nil); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://perigee"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, noAnswer(ctx, 0, err) // there is no limit
	}
	return resp, nil
}

// Refusal returns the error that the daemon has answered with.
func Refusal(resp *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // a missing part is not needed
	return refusal(resp, raw)
}
