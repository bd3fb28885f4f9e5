package antigravity

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/providererr"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/lib/wire"
)

// A call is one request with its attempts at accounts, endpoints and repairs, until it is answered
// or none is left.
type call struct {
	upstream *Upstream
	req      *perigee.Request
	spec     models.Spec
	session  string
	yield    func(perigee.Event, error) bool

	left bool // the caller has left
	// the caller has received a part of an answer, so that nothing is retried
	started  bool
	attempts int        // number of requests to the provider, including searches
	searches int        // number of searches
	account  string     // the last account used
	lease    pool.Lease // lease of that account; nil if there is none yet
	try      try        // the current attempt
	// usage of the rounds before the open one, and of answers that were discarded
	spent         perigee.Usage
	retries       *perigee.RetryBudget
	searchResults []perigee.Event // the sources of searches, until the answer starts
	pending       []perigee.Note  // notes to send when the answer starts
}

func newCall(u *Upstream, req *perigee.Request, yield func(perigee.Event, error) bool) *call {
	return &call{upstream: u, req: req, spec: models.Of(req.Model), yield: yield,
		retries: cmp.Or(req.Retries, new(perigee.RetryBudget))}
}

// A message is an adapted request and its encoding.
type message struct {
	adapt.Adapted
	options adapt.AntigravityOptions
	kind    string
	body    []byte
	memory  *perigee.Buffer // of the body
}

// giveBack releases the body after it was sent.
func (m *message) giveBack() {
	m.memory.Release()
	m.body, m.memory = nil, nil
}

// run answers the call. The caller yields the error that it returns. A nil error also means that
// the caller has left.
func (c *call) run(ctx context.Context) error {
	if err := adapt.RefuseImages(c.req, c.spec.Family); err != nil {
		return err
	}
	prompt, err := c.req.Prompt()
	if err != nil {
		return err
	}
	if c.spec.Family != models.Image {
		c.session = sessionID(c.req.Client, prompt)
	}
	r := recovery{call: c, prompt: prompt, options: adapt.AntigravityOptions{
		KeepThinking: c.upstream.opts.KeepThinking,
		WithoutTools: c.upstream.quarantine.among(prompt.Tools, c.spec.Family, c.req.Client.Key),
		Schemas:      c.upstream.schemas,
	}}
	m := c.message(prompt, r.options)
	if err := c.upstream.checkPrompt(c.req, prompt, m.Prompt); err != nil {
		return err
	}
	c.req.OnRelease(func() {
		if m.Search != nil || len(r.dropped) > 0 {
			// search results continue the conversation, and tools that were left out are
			// quarantined at the end
			c.req.Keep()
			return
		}
		prompt, r.prompt, m.Prompt = nil, nil, nil
	})
	for {
		if err := c.req.RefuseIfStrict(m.Notes); err != nil {
			return err
		}
		if c.pending = nil; r.guessed {
			c.pending = m.Notes // they apply only if this attempt is answered
		} else {
			for _, note := range m.Notes {
				c.req.Log.NoteOnce(note)
			}
		}
		if c.left {
			return nil
		}
		v := c.converse(ctx, &m)
		if v == nil && c.started {
			r.confirm()
		}
		if v == nil || c.left {
			return nil
		}
		if c.started || !r.repair(v) {
			return c.explain(v)
		}
		c.searchResults = nil // the conversation starts again, and so do its searches
		refused := m.body
		for m = c.message(prompt, r.options); bytes.Equal(m.body, refused); m = c.message(prompt, r.options) {
			if !r.goFurther(v) {
				return c.explain(v)
			}
		}
		c.upstream.opts.Logger.Info("request repaired", "upstream", c.upstream.opts.Name, "kind", v.Kind)
	}
}

// checkPrompt returns the error for a prompt that the gateway refuses however it is adapted.
func (u *Upstream) checkPrompt(req *perigee.Request, prompt, prepared *perigee.Prompt) error {
	var e *perigee.Error
	if i := adapt.UnknownRole(prompt.Contents); i >= 0 {
		e = perigee.Errorf(perigee.ClassInvalid, "contents[%d].role: want user or model, found %q", i, perigee.Clip(prompt.Contents[i].Role, 40)).
			WithHint("name the role of that content user or model")
	} else if len(prepared.Contents) == 0 {
		what := "the conversation has no message"
		if req.Dialect == perigee.DialectGemini {
			what = "contents is missing or empty"
		}
		e = perigee.Errorf(perigee.ClassInvalid, "%s", what).WithHint("send at least one message of the user's")
	}
	if e == nil {
		return nil
	}
	e.Upstream, e.Model = u.opts.Name, req.Model
	return e
}

// message adapts a prompt and encodes it.
func (c *call) message(p *perigee.Prompt, options adapt.AntigravityOptions) message {
	m := message{Adapted: adapt.ForAntigravity(p, c.spec, options), options: options, kind: requestType(c.spec)}
	m.encode(c.session)
	return m
}

// requestType returns the type of a request to a model.
func requestType(spec models.Spec) string {
	if spec.Family == models.Image {
		return typeImage
	}
	return typeAgent
}

// encode writes the adapted prompt into a buffer of package wire. Requests for images and searches
// have no session.
func (m *message) encode(session string) {
	p := withSession(m.Prompt, session)
	body := dialect.AppendRequest(wire.Buffer(dialect.RequestSize(p)), p)
	m.body, m.memory = body, perigee.NewBuffer(func() { wire.Recycle(body) })
}

func (c *call) send(ev perigee.Event) bool {
	if !c.left {
		c.left = !c.yield(ev, nil)
	}
	return !c.left
}

const (
	// maxLeases bounds the number of accounts that one call tries.
	maxLeases = 20
	// maxAttempts bounds the number of requests of one call to the provider, for any purpose. A
	// call that can still be answered does not come near it.
	maxAttempts = 100
)

// ask sends a message with one account after the other until one is answered. It returns nil for an
// answer, and otherwise the last error.
func (c *call) ask(ctx context.Context, m *message, out *answer) *providererr.Diagnosis {
	acquisition := c.upstream.opts.Accounts.Acquire(c.poolRequest())
	// an account that is tried again after a pause counts once; the pool bounds the waiting
	accounts := map[string]bool{}
	var v *providererr.Diagnosis
	for {
		lease, err := acquisition.Next(ctx)
		if err != nil {
			return exhausted(v, c.failed(ctx, err), causeOf(err))
		}
		c.account, c.lease = lease.Account().Email, lease
		c.begin("")
		accounts[c.account] = true
		began := c.upstream.opts.Now()
		v = c.sendLeased(ctx, lease, m, out)
		took := c.upstream.opts.Now().Sub(began)
		c.step(lease, v)
		if v == nil || c.started || c.left || !belongsToAccount(v) || tooLate(v, took) || len(accounts) == maxLeases {
			return v
		}
		c.upstream.opts.Logger.Info("trying another account", "upstream", c.upstream.opts.Name, "kind", v.Kind, "delay", v.Delay)
	}
}

// poolRequest describes the accounts that can serve the call.
func (c *call) poolRequest() pool.Request {
	return pool.Request{Model: c.req.Model, Family: c.spec.Family, Session: c.session, OnTokenFailure: c.tokenFailed}
}

// A try is one request to an endpoint, or the preparation of one with a leased account.
type try struct {
	endpoint string // empty if nothing was sent
	began    time.Time
	recorded bool
}

// begin starts a try.
func (c *call) begin(endpoint string) {
	c.try = try{endpoint: endpoint, began: c.upstream.opts.Now()}
}

// step records the try that has ended, once: account, endpoint, the reason for the choice, and the
// outcome. An only account that answers at once is not recorded.
func (c *call) step(lease pool.Lease, v *providererr.Diagnosis) {
	if c.try.recorded {
		return
	}
	c.try.recorded = true
	a := lease.Account()
	step := perigee.Attempt{Upstream: c.upstream.opts.Name, Account: a.Email, Endpoint: c.try.endpoint, Why: a.Why,
		Took: c.upstream.opts.Now().Sub(c.try.began)}
	if v != nil {
		step.Class, step.Error = v.Error.Class, v.Error.Message
	} else if step.Why == pool.WhyOnly && len(c.req.Log.Attempts()) == 0 {
		return
	}
	c.req.Log.AddAttempt(step)
}

// tokenFailed records an account that the pool chose and that had no access token.
func (c *call) tokenFailed(lease pool.Lease, err error, took time.Duration) {
	c.account = lease.Account().Email
	c.upstream.tokenFailures(c.req.Log)(lease, err, took)
}

// tokenFailures returns a function that adds an attempt for each account without an access token.
func (u *Upstream) tokenFailures(log *perigee.CallLog) pool.TokenFailureFunc {
	return func(lease pool.Lease, err error, took time.Duration) {
		a, e := lease.Account(), perigee.AsError(err)
		log.AddAttempt(perigee.Attempt{Upstream: u.opts.Name, Account: a.Email, Why: a.Why,
			Class: e.Class, Error: e.Message, Took: took})
	}
}

// sendLeased sends a message with a leased account and ends the lease, also after a panic in the
// reader of the answer.
func (c *call) sendLeased(ctx context.Context, lease pool.Lease, m *message, out *answer) (v *providererr.Diagnosis) {
	v = &providererr.Diagnosis{Kind: kindCanceled, Scope: providererr.ScopeNone, Error: perigee.Errorf(perigee.ClassCanceled, "the call was canceled")}
	defer func() { lease.Done(v) }()
	v = c.askWith(ctx, lease, m, out)
	return v
}

// exhausted returns the error for a call that no account is left for. none is the pool's error
// about all accounts, and last is the error of the last account tried. last is added when both
// have the same cause, unless it names a time, which applies to one account only.
func exhausted(last, none *providererr.Diagnosis, cause providererr.Kind) *providererr.Diagnosis {
	switch {
	case last == nil:
		return none
	case none.Kind != kindCanceled && (last.Scope == providererr.ScopeProvider || last.Scope == providererr.ScopeNetwork):
		return last // a lack of other accounts is no evidence about the provider
	case cause == "" && none.Kind == kindNoAccount && none.Error.Cause == nil:
		return last // the pool only reports that there is no other account
	case none.Kind == kindCanceled || !sameCause(last.Kind, cause):
		return none
	}
	e := *none.Error
	e.Cause = last.Error // the provider was called
	if last.Delay == 0 {
		e.Message += " (" + strings.TrimRight(last.Error.Message, ".") + ")"
	}
	if last.Delay == 0 || (e.Retry-last.Delay).Abs() <= sameTime {
		e.Details = last.Error.Details // programs read the time from there
	}
	e.Status = last.Error.Status
	if last.Link != "" || last.Kind == providererr.KindNotFound || e.Hint == "" {
		e.Hint = last.Error.Hint // the provider's hint is more specific
	}
	joined := *none
	joined.Error, joined.Link = &e, last.Link
	return &joined
}

// sameTime is the maximum difference between the provider's delay and the pool's that counts as
// the same time: the pool adds a little.
const sameTime = 2 * time.Second

// causeOf returns the cause of a pool error, or "" if it is unknown.
func causeOf(err error) providererr.Kind {
	if short, ok := errors.AsType[*pool.Shortage](err); ok {
		return short.Kind
	}
	v, _ := providererr.Of(err)
	return v.Kind
}

func sameCause(last, cause providererr.Kind) bool {
	if last == providererr.KindIneligible {
		last = providererr.KindBan // the pool does not distinguish them
	}
	return last == cause
}

// belongsToAccount reports whether the call may succeed with another account, or with the same one
// later. The pool decides which.
func belongsToAccount(v *providererr.Diagnosis) bool {
	switch v.Scope {
	case providererr.ScopeAccount, providererr.ScopeAccountFamily, providererr.ScopeAccountModel, providererr.ScopeProvider, providererr.ScopeNetwork:
		return true
	}
	return false
}

// tooLate reports whether the provider took so long to fail that the client should get the error
// instead of another attempt.
func tooLate(v *providererr.Diagnosis, took time.Duration) bool {
	return took > patience && (v.Scope == providererr.ScopeProvider || v.Scope == providererr.ScopeNetwork)
}

// patience is how long all endpoints together may take to fail. After that no other account is
// tried.
const patience = 30 * time.Second

// emptyPause is the wait before the retry after an empty answer.
const emptyPause = 250 * time.Millisecond

// askWith sends a message with one account. It renews a refused token once, looks up a refused
// project once, and retries an empty answer within the call's retry budget.
func (c *call) askWith(ctx context.Context, lease pool.Lease, m *message, out *answer) *providererr.Diagnosis {
	for renewed, moved := false, false; ; c.begin("") {
		token, err := lease.Token(ctx)
		if err != nil {
			return c.withoutToken(ctx, err)
		}
		project := lease.Account().Project
		out.acceptEmpty = !c.retries.Left()
		v := c.askHosts(ctx, lease, token, m, out)
		switch {
		case v == nil || c.started || c.left:
			return v
		case v.Kind == providererr.KindUnauthenticated && !renewed:
			c.step(lease, v)
			lease.Refused(token)
			renewed = true
		case !moved && findsProject(ctx, lease, v, project):
			c.step(lease, v)
			moved = true
		case v.Kind == kindEmpty && c.retries.Take():
			c.step(lease, v) // the discarded answer was charged
			if !perigee.Pause(ctx, emptyPause) {
				return v
			}
		default:
			return v
		}
	}
}

// askHosts sends a message to one endpoint after the other. It returns the error of the first
// endpoint that was reached.
func (c *call) askHosts(ctx context.Context, lease pool.Lease, token perigee.Secret, m *message, out *answer) (first *providererr.Diagnosis) {
	leased := lease.Account()
	for _, host := range c.upstream.hosts.content(leased.CLI) {
		if c.attempts++; c.attempts > maxAttempts {
			return tooOften(first)
		}
		e := envelope{Project: leased.Project, Model: c.req.Model, Type: m.kind, CLI: leased.CLI}
		if m.kind != typeSearch {
			e.RequestID = requestID(c.req.ID, c.attempts)
		}
		before, after := e.Wrap()
		body := wire.NewBody(before, m.body, after).ShowTo(c.req.Log).In(m.memory).Carried(c.upstream.opts.Carried)
		body.ReleaseWith(c.req, m.giveBack)
		c.begin(host)
		v := c.askHost(ctx, host, token, body, out)
		if v == nil || c.started || c.left || !v.NextHost || ctx.Err() != nil {
			return v
		}
		// the endpoint's own error: the account's error may come from an earlier endpoint
		c.step(lease, v)
		if first == nil || first.Kind == kindUnreachable {
			first = v
		}
	}
	return widenScope(first)
}

// widenScope widens the scope of an error that all endpoints have returned. Another account shows
// whether the error concerns the pool.
func widenScope(v *providererr.Diagnosis) *providererr.Diagnosis {
	if v == nil || v.Scope != providererr.ScopeHost {
		return v
	}
	all := *v
	switch v.Kind {
	case providererr.KindUnavailable, providererr.KindOther, providererr.KindForbidden:
		all.Scope = providererr.ScopeProvider
	case kindUnreachable:
		all.Scope = providererr.ScopeProvider
		if wire.NeverConnected(v.Error) {
			all.Scope = providererr.ScopeNetwork
		}
	}
	return &all
}

// tooOften returns the error for a call that has sent too many requests to the provider.
func tooOften(last *providererr.Diagnosis) *providererr.Diagnosis {
	if last != nil {
		v := *last
		v.Scope = providererr.ScopeNone
		return &v
	}
	return &providererr.Diagnosis{Kind: providererr.KindOther, Scope: providererr.ScopeNone,
		Error: perigee.Errorf(perigee.ClassUnavailable, "the provider gave no answer in %d attempts", maxAttempts).WithHint("try again later")}
}

// Kinds of errors that do not come from the provider and are therefore not in package providererr.
const (
	// the endpoint could not be reached, or the connection was lost
	kindUnreachable providererr.Kind = "unreachable"
	kindEmpty       providererr.Kind = "empty"      // an answer without content
	kindCanceled    providererr.Kind = "canceled"   // the caller has left
	kindNoAccount   providererr.Kind = "no_account" // no account can be used
)

// failed returns the diagnosis of an error that did not come from the provider.
func (c *call) failed(ctx context.Context, err error) *providererr.Diagnosis {
	if v, ok := providererr.Of(err); ok {
		return &v // a copy: the pool may correct it
	}
	e := c.upstream.callError(ctx, err)
	v := &providererr.Diagnosis{Kind: kindNoAccount, Scope: providererr.ScopeNone, Error: e, Delay: e.Retry}
	switch {
	case e.Class == perigee.ClassCanceled:
		v.Kind = kindCanceled
	case causeOf(err) == "" && e.Cause != nil && e.Class == perigee.ClassUnavailable:
		v.Kind, v.Scope, v.NextHost = kindUnreachable, providererr.ScopeHost, true
	}
	return v
}

// withoutToken returns the diagnosis for an account with a token that could not be renewed during
// a call.
func (c *call) withoutToken(ctx context.Context, err error) *providererr.Diagnosis {
	if ctx.Err() != nil {
		return c.failed(ctx, err)
	}
	v := pool.TokenFailure(err)
	return &v
}

// A diagnosisError carries a diagnosis through code that handles only errors.
type diagnosisError struct{ providererr.Diagnosis }

func (v *diagnosisError) Error() string { return v.Diagnosis.Error.Error() }
