// Package antigravity is the upstream for the Antigravity gateway with the user's own Google
// sign-in. The gateway's API is private, and the upstream is off until the owner of the
// configuration has accepted the risk of the provider's terms.
//
// A call leases an account, adapts the prompt to the model's family, sends it to one endpoint after
// the other, and returns the answer as events. A request that the provider refuses for a reason
// that can be repaired is repaired and sent again, but only before the client has received
// anything.
//
// The package does not choose accounts and keeps no tokens: it leases them and reports results.
// Package providererr classifies errors, and package adapt decides what a prompt must look like.
package antigravity

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"math"
	"net/http"
	"runtime"
	"strings"
	"time"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt"
	"perigee/internal/adapt/schema"
	"perigee/internal/lib/wire"
)

// DefaultClientVersion is the version of the protocol's own client that this build follows. Newer
// models answer older clients with 404.
const DefaultClientVersion = "2.9.1"

// UserAgent returns the User-Agent header: the token that the gateway requires, the platform, and
// perigee.
func UserAgent(clientVersion, version string) string {
	return "antigravity/" + cmp.Or(clientVersion, DefaultClientVersion) + " " + runtime.GOOS + "/" + runtime.GOARCH + " perigee/" + version
}

// An AccountPool chooses the accounts that calls are made with; *pool.Pool is one.
type AccountPool interface {
	Acquire(req pool.Request) pool.Acquisition
}

// Options configure the connection to the gateway. Zero values mean defaults.
type Options struct {
	Name            string // name in the configuration
	Endpoints       []string
	Accounts        AccountPool
	UserAgent       string
	KeepThinking    bool
	SessionRecovery bool
	FirstByte       time.Duration // how long to wait for the first event; 0 means no limit
	Idle            time.Duration // how long a stream may be quiet; 0 means no limit
	Transport       http.RoundTripper
	Carried         bool // Transport puts the bodies of requests into its own, and calls wire.Sent
	Logger          *slog.Logger
	Now             func() time.Time
}

// An Upstream calls the Antigravity gateway.
type Upstream struct {
	opts       Options
	client     *http.Client
	hosts      hosts
	quarantine quarantine
	schemas    *schema.Cache // digests of all tools that clients declare
}

var (
	_ perigee.Upstream     = (*Upstream)(nil)
	_ perigee.TokenCounter = (*Upstream)(nil)
	_ perigee.ModelLister  = (*Upstream)(nil)
)

// New returns an upstream. It connects on the first call.
func New(opts Options) *Upstream {
	for i, endpoint := range opts.Endpoints {
		opts.Endpoints[i] = strings.TrimSuffix(endpoint, "/")
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
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

// StopLimit returns how many stop sequences of a prompt the gateway takes. Clients of the Gemini API
// get its own error about more.
func (u *Upstream) StopLimit(req *perigee.Request) int {
	if req.Dialect == perigee.DialectGemini {
		return math.MaxInt
	}
	return adapt.MaxStops
}

// Stream returns the answer of the model as events. It always requests a stream; callers that want
// one answer collect it.
func (u *Upstream) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		c := newCall(u, req, yield)
		if err := c.run(ctx); err != nil && !c.left {
			yield(perigee.Event{}, err)
		}
	}
}
