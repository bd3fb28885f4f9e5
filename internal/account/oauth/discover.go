package oauth

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// DiscoverOptions are the endpoints of project discovery, and how they are called.
type DiscoverOptions struct {
	Endpoints []string          // as configured; they are tried in reverse order
	UserAgent string            // the gateway turns clients away by it
	Transport http.RoundTripper // nil for one of package wire
	Now       func() time.Time  // time.Now if nil
	Logger    *slog.Logger      // nil discards all records
}

// A Discoverer finds out for which project an account makes its calls, and has one made when there
// is none. It may be used concurrently.
type Discoverer struct {
	opts DiscoverOptions
	http caller
	poll time.Duration // between two polls of an onboarding
}

// maxPolls is the maximum number of polls of an onboarding.
const maxPolls = 10

// NewDiscoverer returns a Discoverer. It makes no calls.
func NewDiscoverer(opts DiscoverOptions) *Discoverer {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Endpoints = slices.Clone(opts.Endpoints)
	slices.Reverse(opts.Endpoints)
	return &Discoverer{opts: opts, http: newCaller(opts.Transport, opts.UserAgent, opts.Now), poll: 5 * time.Second}
}

// A Project is the cloud project that calls are made for, and its terms.
type Project struct {
	ID       string
	Tier     string // free-tier, standard-tier, g1-pro-tier …; the paid one if there is one
	TierName string // for a person; may be empty
}

// Discover returns the project of the account that an access token belongs to. An account that has
// none is onboarded to the tier that the provider offers first, except for tiers that require a
// project of the user's own. onboarding, if not nil, is called before each poll of an onboarding,
// with its number from 1 on and the maximum number.
//
// When the provider refuses the account, the error wraps a *Refusal. Its Link is where the account
// is verified, if verification is missing.
func (d *Discoverer) Discover(ctx context.Context, access perigee.Secret, onboarding func(poll, most int)) (Project, error) {
	assist, err := d.load(ctx, access)
	if err != nil {
		return Project{}, err
	}
	if assist.project() != "" {
		return assist.withTier(assist.project()), nil
	}
	tier, err := assist.choose(d.opts.Now())
	if err != nil {
		return Project{}, err
	}
	id, err := d.onboard(ctx, access, tier, onboarding)
	if err != nil {
		return Project{}, err
	}
	// Only this answer has the tier, and it may have the project that the onboarding did not
	// return.
	if after, err := d.load(ctx, access); err == nil {
		assist = after
	} else if id == "" {
		return Project{}, err
	}
	if id = cmp.Or(id, assist.project()); id == "" {
		return Project{}, perigee.Errorf(perigee.ClassUnavailable, "the provider has set the account up without a project").
			WithHint("try again in a minute; if that does not help, sign in to Antigravity itself with this account once")
	}
	found := assist.withTier(id)
	found.Tier = cmp.Or(found.Tier, tier.ID)
	return found, nil
}

// Look returns the project that the provider has for the account; its ID is empty if there is none.
// Unlike Discover it never creates a project. due reports whether Discover would create one,
// because the account was never onboarded and does not have to bring its own project.
func (d *Discoverer) Look(ctx context.Context, access perigee.Secret) (found Project, due bool, err error) {
	assist, err := d.load(ctx, access)
	if err != nil {
		return Project{}, false, err
	}
	found = assist.withTier(assist.project())
	due = found.ID == "" && found.Tier == "" && slices.ContainsFunc(assist.Allowed, func(t tier) bool { return t.ID != "" && !t.OwnProject })
	return found, due, nil
}

// metadata names the protocol. The platform is only in the User-Agent, which states the real one.
var metadata = json.RawMessage(`{"ideType":"ANTIGRAVITY","pluginType":"GEMINI"}`)

func (d *Discoverer) load(ctx context.Context, access perigee.Secret) (*assistance, error) {
	var answer assistance
	err := d.call(ctx, access, "loadCodeAssist", map[string]any{"metadata": metadata}, &answer)
	return &answer, err
}

// onboard repeats the onboarding call until it returns a project: the same call starts and polls.
// The id is empty if the provider did not return one.
func (d *Discoverer) onboard(ctx context.Context, access perigee.Secret, tier tier, onboarding func(poll, most int)) (string, error) {
	body := map[string]any{"tierId": tier.ID, "metadata": metadata}
	for poll := range maxPolls {
		if poll > 0 && !perigee.Pause(ctx, d.poll) {
			return "", ctx.Err()
		}
		if onboarding != nil {
			onboarding(poll+1, maxPolls)
		}
		var operation struct {
			Done     bool            `json:"done"`
			Error    json.RawMessage `json:"error"`
			Response struct {
				Project projectID `json:"cloudaicompanionProject"`
			} `json:"response"`
		}
		if err := d.call(ctx, access, "onboardUser", body, &operation); err != nil {
			return "", err
		}
		if len(operation.Error) > 0 && string(operation.Error) != "null" {
			return "", d.failed(operation.Error)
		}
		if operation.Done {
			return string(operation.Response.Project), nil
		}
	}
	return "", perigee.Errorf(perigee.ClassUnavailable, "the provider is still setting the account up").
		WithHint("try again in a minute")
}

// failed classifies the error of an operation, which comes with status 200.
func (d *Discoverer) failed(status json.RawMessage) error {
	body, err := json.Marshal(map[string]json.RawMessage{"error": status})
	if err == nil {
		if v, ok := providererr.ClassifyStreamError(body, d.opts.Now()); ok {
			return &Refusal{v}
		}
	}
	return perigee.Errorf(perigee.ClassUnavailable, "the provider could not set the account up").WithHint("try again in a minute")
}

// call calls the endpoints one after the other until one answers, or returns an error that the
// other endpoints would return as well. If none answers, the error is the one of the first
// endpoint.
func (d *Discoverer) call(ctx context.Context, access perigee.Secret, method string, body, answer any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var first error
	for _, endpoint := range d.opts.Endpoints {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(endpoint, "/")+"/v1internal:"+method, bytes.NewReader(encoded))
		if err != nil {
			return perigee.Errorf(perigee.ClassInvalid, "the endpoint %q is not a URL", endpoint).
				WithHint("check endpoints of this upstream in the configuration")
		}
		req.Header.Set("Authorization", "Bearer "+access.Reveal())
		req.Header.Set("Content-Type", "application/json")
		err = d.http.do(req, answer, access)
		if err == nil || ctx.Err() != nil {
			return err
		}
		d.opts.Logger.DebugContext(ctx, "endpoint did not answer", "method", method, "host", req.URL.Host, "error", err)
		if first == nil {
			first = err
		}
		if !othersMayAnswer(err) {
			return err
		}
	}
	if first == nil {
		return perigee.Errorf(perigee.ClassInvalid, "there is no endpoint to ask").
			WithHint("set endpoints of this upstream in the configuration")
	}
	return first
}

func othersMayAnswer(err error) bool {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return refusal.NextHost
	}
	return perigee.AsError(err).Class == perigee.ClassUnavailable
}
