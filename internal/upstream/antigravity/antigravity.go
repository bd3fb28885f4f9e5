// Package antigravity is the upstream for the Antigravity gateway with the user's own Google sign-in. It speaks a private
// interface, and is off until the owner of the configuration has accepted what the provider's terms say about that.
//
// A call borrows an account, is prepared for the model's family, goes to the first endpoint that will have it, and
// comes back as events. What the provider refuses for a reason that can be mended is mended and sent once more. All
// of that happens before the first byte of an answer reaches the client, and never after.
//
// The package does not choose accounts and keeps no tokens: it borrows and says how it went. What an
// error means is for package verdict to say, and what a prompt must look like for package prepare.
package antigravity

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"time"

	"perigee"
	"perigee/internal/account"
	"perigee/internal/schema"
	"perigee/internal/upstream/wire"
)

// DefaultClientVersion is the version of the protocol's own client that this build was made after. Newer models answer
// older ones with 404.
const DefaultClientVersion = "2.9.1"

// UserAgent says truthfully who calls: the token that the gateway goes by, the platform, and our own name.
func UserAgent(clientVersion, version string) string {
	if clientVersion == "" {
		clientVersion = DefaultClientVersion
	}
	return "antigravity/" + clientVersion + " " + runtime.GOOS + "/" + runtime.GOARCH + " perigee/" + version
}

// Options say how to reach the gateway. Zero values mean defaults.
type Options struct {
	Name            string // as the configuration calls it
	Endpoints       []string
	Accounts        account.Lender
	UserAgent       string
	KeepThinking    bool
	SessionRecovery bool
	FirstByte       time.Duration // how long to wait for the first event; 0: forever
	Idle            time.Duration // how long a stream may be quiet; 0: forever
	Transport       http.RoundTripper
	Logger          *slog.Logger
	Now             func() time.Time
}

// An Upstream asks the Antigravity gateway.
type Upstream struct {
	opts       Options
	client     *http.Client
	hosts      hosts
	quarantine quarantine
	schemas    *schema.Cache // of all tools that clients declare
}

var (
	_ perigee.Upstream     = (*Upstream)(nil)
	_ perigee.TokenCounter = (*Upstream)(nil)
	_ perigee.ModelLister  = (*Upstream)(nil)
)

// New returns an upstream. It connects when it is first asked.
func New(opts Options) *Upstream {
	for i, endpoint := range opts.Endpoints {
		opts.Endpoints[i] = strings.TrimSuffix(endpoint, "/")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Upstream{
		opts: opts, client: wire.NewClient(opts.Transport),
		hosts: hosts{list: opts.Endpoints, now: opts.Now}, quarantine: quarantine{now: opts.Now},
		schemas: schema.NewCache(schema.CacheBytes),
	}
}

// Close drops idle connections.
func (u *Upstream) Close() error {
	u.client.CloseIdleConnections()
	return nil
}

// Stream asks the model. The gateway is always asked for a stream; who wants one answer collects it.
func (u *Upstream) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		c := newCall(u, req, yield)
		if err := c.run(ctx); err != nil && !c.left {
			yield(perigee.Event{}, err)
		}
	}
}
