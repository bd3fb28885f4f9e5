// Package api is the upstream for providers with API keys. A request in a dialect that the provider
// speaks is sent unchanged; any other is encoded anew from its prompt, after package adapt has
// adapted the prompt to the API.
//
// A Provider is a value with everything that is particular to one API. The rest of the package is
// the same for all: keys with their cooldowns, requests that are sent again, time limits, the
// record of attempts, and answers on their way to the caller.
//
// Failover between upstreams is up to routing. Only a rejected or exhausted API key is replaced by
// the next one here, before any part of the answer was returned.
package api

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/lib/match"
	"perigee/internal/lib/terminal"
	"perigee/internal/lib/wire"
	"perigee/internal/store/config"
)

// Answers in one piece, lists and errors are read up to these sizes.
const (
	maxAnswer = 256 << 20
	maxList   = 64 << 20
	maxError  = 256 << 10
)

// Options configure the connection to the API. URL is required; other zero values mean defaults.
type Options struct {
	Name string // name in the configuration
	URL  string
	Keys []perigee.Secret // without one, requests have no credentials
	// RoundRobin spreads calls over all keys. Otherwise the first one without a cooldown is used.
	RoundRobin bool
	// Concurrency is the maximum number of open calls; 0 means no limit. Further calls wait for up
	// to Wait.
	Concurrency int
	Wait        time.Duration
	// Models are patterns for the models that are offered. If it is empty, all are.
	Models    []string
	UserAgent string
	Header    http.Header // added to each request
	Members   Members
	FirstByte time.Duration // how long to wait for the first event; 0 means no limit
	Idle      time.Duration // how long a stream may be quiet; 0 means no limit
	// OwnFirstByte and OwnIdle are set if these limits are settings of the upstream itself. Otherwise
	// they are limits.first_byte and limits.idle.
	OwnFirstByte, OwnIdle bool
	Transport             http.RoundTripper
	Logger                *slog.Logger
	Now                   func() time.Time
}

// An Upstream calls the API of a provider.
type Upstream struct {
	*Provider
	opts    Options
	client  *http.Client
	keys    *keyring
	keyless bool // requests have no credentials, neither keys nor configured headers
	places  places
	changes map[bool][]*change // of configured members, by Wire.snakeCase
}

// New returns an upstream. It connects on the first call.
func New(provider *Provider, opts Options) *Upstream {
	opts.URL = strings.TrimSuffix(cmp.Or(provider.address, opts.URL), "/")
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	others := credentials(opts.Header)
	u := &Upstream{Provider: provider, opts: opts, client: wire.NewClient(opts.Transport), keys: newKeyring(opts.Keys, others...)}
	u.keyless = len(opts.Keys) == 0 && len(others) == 0 && u.access == nil
	u.keys.roundRobin = opts.RoundRobin
	u.changes = map[bool][]*change{false: opts.Members.changes(false), true: opts.Members.changes(true)}
	if u.access != nil {
		u.access.use(u.client.Transport, opts.UserAgent)
	}
	if opts.Concurrency > 0 {
		u.places = places{taken: make(chan struct{}, opts.Concurrency), wait: opts.Wait}
	}
	return u
}

// credentials returns the secrets in configured headers.
func credentials(h http.Header) (list []perigee.Secret) {
	for _, values := range h {
		for _, value := range values {
			if secret := config.CredentialIn(value); secret != "" {
				list = append(list, perigee.NewSecret(secret))
			}
		}
	}
	return list
}

// Close drops idle connections.
func (u *Upstream) Close() error {
	u.client.CloseIdleConnections()
	return nil
}

// Summary describes the credentials of calls, for people.
func (u *Upstream) Summary() string {
	switch {
	case u.access != nil:
		return "Google credentials"
	case len(u.opts.Keys) == 0:
		return "no key"
	}
	return terminal.Number(len(u.opts.Keys), "key", "keys")
}

// credential returns what the provider accepts or refuses.
func (u *Upstream) credential() string {
	if u.access != nil {
		return "access token"
	}
	return "API key"
}

// Secrets returns the credentials and tokens that are not in the configuration, for a redactor.
func (u *Upstream) Secrets() []perigee.Secret {
	if u.access == nil {
		return nil
	}
	return u.access.secrets()
}

// Unusable returns the reason why calls cannot succeed, or "" if none is known. It makes no call.
func (u *Upstream) Unusable() string {
	switch {
	case u.access != nil && u.access.unusable() != "":
		return u.access.unusable()
	case !u.keys.allRejected(u.opts.Now()):
		return ""
	case u.keyless:
		return noKeys
	}
	return "the provider rejects its " + u.credential() + "s"
}

// Forwards reports whether the provider gets the client's own bytes.
func (u *Upstream) Forwards(req *perigee.Request) bool {
	return req.Verbatim(u.wire(req).dialect)
}

// StopLimit returns how many stop sequences of a prompt the provider takes. Clients that get its own
// answers get its own error about more.
func (u *Upstream) StopLimit(req *perigee.Request) int {
	if w := u.wire(req); !w.speaks(req) {
		return w.stops
	}
	return math.MaxInt
}

// Reasoning describes the reasoning in the answer to a request.
func (u *Upstream) Reasoning(req *perigee.Request) perigee.Reasoning {
	if u.reasoning == nil {
		return models.Of(req.Model).Family.Reasoning()
	}
	return u.reasoning(req)
}

// ReadsURLs reports whether the provider fetches the files that a prompt refers to.
func (u *Upstream) ReadsURLs() bool { return u.readsURLs }

// offers returns an error for a model that the configuration leaves out.
func (u *Upstream) offers(model string) error {
	switch {
	case u.isOffered(model) && u.lacks == nil:
		return nil
	case u.isOffered(model):
		return u.lacks(model)
	}
	return &perigee.Error{Class: perigee.ClassNotFound, Upstream: u.opts.Name, Model: model,
		Message: fmt.Sprintf("upstream %s does not offer the model %q", u.opts.Name, perigee.Clip(model, maxNamed)),
		Hint:    "perigee models lists the available models; the models setting of the upstream selects them"}
}

// maxNamed is how many bytes of a model's name an error repeats.
const maxNamed = 100

func (u *Upstream) isOffered(model string) bool {
	return len(u.opts.Models) == 0 || slices.ContainsFunc(u.opts.Models, func(pattern string) bool { return match.Pattern(pattern, model) })
}

// maxCountTime is how long a count may take that is estimated if it fails. Agents ask for counts
// between their calls, and wait for them.
const maxCountTime = 10 * time.Second

// maxDetailsTime is how long the details of a list may take. It is shorter than the time for which
// routing waits for one of several lists.
const maxDetailsTime = 1500 * time.Millisecond

// These are why a request ended that took longer.
var (
	errCountTime   error = timeout("no count within " + maxCountTime.String())
	errDetailsTime error = timeout("no details of all models within " + maxDetailsTime.String())
)

// A timeout is the cause of the end of a request that has a limit of its own.
type timeout string

func (t timeout) Error() string { return string(t) }

// Is makes it an error of a provider that was silent for too long.
func (timeout) Is(target error) bool { return target == wire.ErrFirstByte }

// CountTokens returns the API's count. It waits for at most maxCountTime, except for Gemini clients of
// the Gemini API, which get the API's errors in place of an estimate.
func (u *Upstream) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	if err := u.offers(req.Model); err != nil {
		return nil, err
	}
	w := u.wire(req)
	if w.count == nil {
		return perigee.Passthrough{}.CountTokens(ctx, req)
	}
	m, err := w.count.message(req)
	if err != nil {
		return nil, err
	}
	if err := u.edit(req, w, &m, m.edits); err != nil {
		return nil, err
	}
	if req.Dialect != perigee.DialectGemini || !u.Forwards(req) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, maxCountTime, errCountTime)
		defer cancel()
	}
	q := quota{req.Model, perigee.OperationCount}
	own := w.speaks(req)
	var out outgoing
	send := func() ([]byte, error) {
		out = u.outgoing(w.count.target(u.opts.URL, req.Model), wire.NewBody(m.body...), &req.Origin, own && w.raw)
		out.replace(m.header)
		return u.call(ctx, &req.Origin, &out, q)
	}
	raw, err := send()
	for repair := w.count.repair; err != nil && repair != nil; repair = m.repair {
		repaired, ok := repair(req, &m, err)
		if !ok || u.edit(req, w, &repaired, repaired.edits) != nil || repaired.repeats(&m) {
			break
		}
		m = repaired
		if raw, err = send(); err == nil && m.learns != nil {
			m.learns()
		}
	}
	if err != nil {
		return nil, w.count.missing(err, req.Model)
	}
	if own { // the notes of a translated request are about its answer
		for _, n := range m.notes {
			req.Log.NoteOnce(n)
		}
	}
	count, err := w.count.decode(raw)
	if err == nil && count.Total < 0 {
		err = fmt.Errorf("a count of %d tokens", count.Total)
	}
	if err != nil {
		return nil, u.malformed(req.Model, err)
	}
	count.Upstream, count.Model, count.Header = u.opts.Name, req.Model, out.answered
	if own {
		count.Raw = raw
	}
	return count, nil
}

// Models returns the models that are offered, from all pages of the API's list. It is empty if the
// API has none. The details that the server has of them elsewhere may be missing.
func (u *Upstream) Models(ctx context.Context) ([]perigee.Model, error) {
	if u.models == nil {
		return nil, nil
	}
	var all []perigee.Model
	page := ""
	for range 100 { // a provider with more pages is repeating them
		raw, err := u.get(ctx, u.models.target(u.opts.URL, page))
		if err != nil {
			return nil, err
		}
		models, next, err := u.models.decode(raw)
		if err != nil {
			return nil, u.malformed("", err)
		}
		for i := range models {
			models[i].Upstream = u.opts.Name
		}
		all = append(all, models...)
		if next == "" || next == page {
			break
		}
		page = next
	}
	leftOut := func(m perigee.Model) bool { return !u.isOffered(m.ID) }
	perigee.ReportNames(ctx, slices.DeleteFunc(slices.Clone(all), leftOut))
	if err := u.completeModels(ctx, all); err != nil {
		u.opts.Logger.Info("the server has no details of its models", "upstream", u.opts.Name, "error", err)
	}
	return slices.DeleteFunc(all, leftOut), nil
}

// Probe tests whether calls would be answered, in a request that costs nothing, where the list of
// models does not show that. The list is the one of Models.
func (u *Upstream) Probe(ctx context.Context, list []perigee.Model) error {
	switch {
	case len(list) == 0 && len(u.opts.Models) > 0:
		return &perigee.Error{Class: perigee.ClassNotFound, Upstream: u.opts.Name, Setting: "models",
			Message: fmt.Sprintf("upstream %s: models of the upstream allows none of its models", u.opts.Name)}
	case u.probe == nil:
		return nil
	}
	return u.probe(ctx, u, list)
}

// completeModels adds to the models of the list what the server has elsewhere, as far as it answers
// within maxDetailsTime.
func (u *Upstream) completeModels(ctx context.Context, list []perigee.Model) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxDetailsTime, errDetailsTime)
	defer cancel()
	switch {
	case u.models.describe != nil:
		return u.models.describe(ctx, u, list)
	case u.models.details != nil:
		raw, err := u.get(ctx, u.models.details(u.opts.URL))
		if err != nil {
			return err
		}
		return u.models.complete(list, raw)
	}
	return nil
}
