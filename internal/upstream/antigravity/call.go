package antigravity

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"perigee"
	"perigee/internal/account"
	"perigee/internal/models"
	"perigee/internal/prepare"
	"perigee/internal/upstream/wire"
	"perigee/internal/verdict"
)

// A call is one request on its way through accounts, endpoints and repairs, until it is answered or nothing is left to
// try.
type call struct {
	upstream *Upstream
	req      *perigee.Request
	spec     models.Spec
	session  string
	yield    func(perigee.Event, error) bool

	left     bool          // the caller went away
	begun    bool          // the caller has got something of an answer: from here on nothing is tried again
	attempts int           // how often the provider was asked, for searches, too
	searches int           // how often it was asked to search
	account  string        // who was asked last
	loan     account.Loan  // with which it was; nil: not yet
	spent    perigee.Usage // by the rounds before the one that is open, and by answers that were discarded
	retries  *perigee.RetryBudget
	found    []perigee.Event // where searches have found something, until the answer begins
	said     map[perigee.Note]bool
	pending  []perigee.Note // to be said when the answer begins
}

func newCall(u *Upstream, req *perigee.Request, yield func(perigee.Event, error) bool) *call {
	return &call{upstream: u, req: req, spec: models.Of(req.Model), yield: yield, said: map[perigee.Note]bool{},
		retries: cmp.Or(req.Retries, new(perigee.RetryBudget))}
}

// A message is a prepared request, written.
type message struct {
	prepare.Prepared
	options prepare.AntigravityOptions
	kind    string
	body    []byte
}

// giveBack drops the body, which has been sent.
func (m *message) giveBack() {
	wire.GiveBack(m.body)
	m.body = nil
}

// run answers the call. The error it returns is for the caller to yield; nil also means that the caller has left.
func (c *call) run(ctx context.Context) error {
	prompt, err := c.req.Prompt()
	if err != nil {
		return err
	}
	if c.spec.Family != models.Image {
		c.session = sessionID(c.req.Client, prompt)
	}
	r := recovery{call: c, prompt: prompt, options: prepare.AntigravityOptions{
		KeepThinking: c.upstream.opts.KeepThinking,
		WithoutTools: c.upstream.quarantine.among(prompt.Tools, c.spec.Family, c.req.Client.Key),
		Schemas:      c.upstream.schemas,
	}}
	m := c.message(prompt, r.options)
	if err := c.upstream.hopeless(c.req, prompt, m.Prompt); err != nil {
		return err
	}
	c.req.OnRelease(func() {
		if m.Search != nil || len(r.dropped) > 0 {
			c.req.Keep() // what a search finds continues the conversation, and tools that were left out are quarantined at the end
			return
		}
		prompt, r.prompt, m.Prompt = nil, nil, nil
	})
	for {
		if err := c.req.Object(m.Notes); err != nil {
			return err
		}
		if c.pending = nil; r.guessed {
			c.pending = m.Notes // they are true only if this is answered
		} else {
			for _, note := range m.Notes {
				c.note(note)
			}
		}
		if c.left {
			return nil
		}
		v := c.converse(ctx, &m)
		if v == nil && c.begun {
			r.confirm()
		}
		if v == nil || c.left {
			return nil
		}
		if c.begun || !r.mend(v) {
			return c.explain(v)
		}
		c.found = nil // the conversation begins anew, and so do its searches
		refused := m.body
		for m = c.message(prompt, r.options); bytes.Equal(m.body, refused); m = c.message(prompt, r.options) {
			if !r.goFurther(v) {
				return c.explain(v)
			}
		}
		c.upstream.opts.Logger.Info("request repaired", "upstream", c.upstream.opts.Name, "kind", v.Kind)
	}
}

// hopeless returns the error for a prompt that the gateway would refuse whatever is prepared of it.
func (u *Upstream) hopeless(req *perigee.Request, prompt, prepared *perigee.Prompt) error {
	var e *perigee.Error
	if i := prepare.UnknownRole(prompt.Contents); i >= 0 {
		e = perigee.Errorf(perigee.ClassInvalid, "contents[%d].role: want user or model, found %q", i, perigee.Clip(prompt.Contents[i].Role, 40)).
			WithNext("name the role of that content user or model")
	} else if len(prepared.Contents) == 0 {
		what := "the conversation has no message"
		if req.Dialect == perigee.DialectGemini {
			what = "contents is missing or empty"
		}
		e = perigee.Errorf(perigee.ClassInvalid, "%s", what).WithNext("send at least one message of the user's")
	}
	if e == nil {
		return nil
	}
	e.Upstream, e.Model = u.opts.Name, req.Model
	return e
}

// message prepares a prompt and writes it.
func (c *call) message(p *perigee.Prompt, options prepare.AntigravityOptions) message {
	m := message{Prepared: prepare.ForAntigravity(p, c.spec, options), options: options, kind: requestType(c.spec)}
	m.body = encode(m.Prompt, c.session)
	return m
}

// note tells the caller what was changed, each thing once.
func (c *call) note(note perigee.Note) {
	if c.said[note] || c.left {
		return
	}
	c.said[note] = true
	c.send(perigee.Event{Kind: perigee.EventNote, Note: &note})
}

func (c *call) send(ev perigee.Event) bool {
	if !c.left {
		c.left = !c.yield(ev, nil)
	}
	return !c.left
}

const (
	// maxLoans bounds how many accounts one call tries. Who has more of them in trouble has other worries than this call.
	maxLoans = 20
	// maxAttempts bounds how often one call asks the provider, whatever each attempt is for. No call that can still be
	// answered comes near it.
	maxAttempts = 100
)

// ask sends a message with one account after the other until one of them is answered. It returns nil for an answer, and
// otherwise what went wrong last.
func (c *call) ask(ctx context.Context, m *message, out *answer) *verdict.Verdict {
	borrowing := c.upstream.opts.Accounts.Borrow(c.want())
	accounts := map[string]bool{} // to ask one again after a pause costs no other; who lends it bounds the waiting
	var v *verdict.Verdict
	for {
		loan, err := borrowing.Next(ctx)
		if err != nil {
			return nobodyLeft(v, c.failed(ctx, err), causeOf(err))
		}
		c.account, c.loan = loan.Email(), loan
		accounts[c.account] = true
		began := c.upstream.opts.Now()
		v = c.borrowed(ctx, loan, m, out)
		took := c.upstream.opts.Now().Sub(began)
		c.step(loan, v, took)
		if v == nil || c.begun || c.left || !belongsToAccount(v) || tooLate(v, took) || len(accounts) == maxLoans {
			return v
		}
		c.upstream.opts.Logger.Info("trying another account", "upstream", c.upstream.opts.Name, "kind", v.Kind, "delay", v.Delay)
	}
}

// want is what the call borrows accounts for.
func (c *call) want() account.Want {
	return account.Want{Model: c.req.Model, Family: c.spec.Family, Session: c.session, Witness: c}
}

// step keeps for the record whom the call has asked, why, and what came of it. That the only account has answered at once goes
// without saying.
func (c *call) step(loan account.Loan, v *verdict.Verdict, took time.Duration) {
	step := perigee.Step{Upstream: c.upstream.opts.Name, Account: loan.Email(), Why: loan.Why(), Took: took}
	if v != nil {
		step.Class, step.Error = v.Error.Class, v.Error.Message
	} else if step.Why == account.WhyOnly && c.req.Steps.Len() == 0 {
		return
	}
	c.req.Steps.Add(step)
}

// WithoutToken keeps for the record that the call was to ask an account for which there was no access token.
func (c *call) WithoutToken(loan account.Loan, err error, took time.Duration) {
	c.account = loan.Email()
	clerk{c.upstream.opts.Name, c.req.Steps}.WithoutToken(loan, err, took)
}

// A clerk writes down the accounts that an upstream could not ask.
type clerk struct {
	upstream string
	steps    *perigee.Steps
}

func (c clerk) WithoutToken(loan account.Loan, err error, took time.Duration) {
	e := perigee.AsError(err)
	c.steps.Add(perigee.Step{Upstream: c.upstream, Account: loan.Email(), Why: loan.Why(), Class: e.Class, Error: e.Message, Took: took})
}

// borrowed sends a message with an account and gives the account back, also when whoever reads the answer panics.
func (c *call) borrowed(ctx context.Context, loan account.Loan, m *message, out *answer) (v *verdict.Verdict) {
	v = &verdict.Verdict{Kind: kindCanceled, Blame: verdict.ScopeNobody, Error: perigee.Errorf(perigee.ClassCanceled, "the call was canceled")}
	defer func() { loan.Done(v) }()
	v = c.askWith(ctx, loan, m, out)
	return v
}

// nobodyLeft is why there is no account for a call, which may have lost some on its way. Cause, class and advice are about
// all accounts; what the last of them was told is added when it is about the same. Where it names a time it is not, as that is
// when this one account will be back.
func nobodyLeft(last, nobody *verdict.Verdict, cause verdict.Kind) *verdict.Verdict {
	switch {
	case last == nil:
		return nobody
	case nobody.Kind != kindCanceled && (last.Blame == verdict.ScopeProvider || last.Blame == verdict.ScopeNetwork):
		return last // that there is no other to ask says nothing about the others
	case cause == "" && nobody.Kind == kindNoAccount && nobody.Error.Cause == nil:
		return last // nobody says more than that there is no other
	case nobody.Kind == kindCanceled || !sameCause(last.Kind, cause):
		return nobody
	}
	e := *nobody.Error
	if last.Delay == 0 {
		e.Message += " (" + strings.TrimRight(last.Error.Message, ".") + ")"
	}
	if last.Delay == 0 || (e.Retry-last.Delay).Abs() <= sameTime {
		e.Details = last.Error.Details // programs find the time there
	}
	e.Status = last.Error.Status
	if last.Link != "" || last.Kind == verdict.KindNotFound || e.Next == "" {
		e.Next = last.Error.Next // it knows more
	}
	joined := *nobody
	joined.Error, joined.Link = &e, last.Link
	return &joined
}

// sameTime is how far apart the time that the provider names and the time after which an account is lent again may be:
// who lends it adds a little.
const sameTime = 2 * time.Second

// causeOf is what an error of a lender is about; empty: it does not say.
func causeOf(err error) verdict.Kind {
	if short, ok := errors.AsType[*account.Shortage](err); ok {
		return short.Kind
	}
	v, _ := verdict.Of(err)
	return v.Kind
}

func sameCause(last, cause verdict.Kind) bool {
	if last == verdict.KindIneligible {
		last = verdict.KindBan // who lends accounts does not tell them apart
	}
	return last == cause
}

// belongsToAccount says whether another account, or the same one later, may be answered. Who lends accounts knows when.
func belongsToAccount(v *verdict.Verdict) bool {
	switch v.Blame {
	case verdict.ScopeAccount, verdict.ScopeAccountFamily, verdict.ScopeAccountModel, verdict.ScopeProvider, verdict.ScopeNetwork:
		return true
	}
	return false
}

// tooLate says whether the provider took so long to fail that the call is not worth another try: who made it would rather
// know.
func tooLate(v *verdict.Verdict, took time.Duration) bool {
	return took > patience && (v.Blame == verdict.ScopeProvider || v.Blame == verdict.ScopeNetwork)
}

// patience is how long all endpoints together may take to fail before a call is given up.
const patience = 30 * time.Second

// emptyPause is how long to wait before an answer that says nothing is asked for again.
const emptyPause = 250 * time.Millisecond

// askWith sends a message with one account. A token that ran out early is renewed, and an answer that says nothing asked
// for again, as far as the call's retries go; a project that the provider does not take is looked up.
func (c *call) askWith(ctx context.Context, loan account.Loan, m *message, out *answer) *verdict.Verdict {
	for renewed, moved := false, false; ; {
		token, err := loan.Token(ctx)
		if err != nil {
			return c.withoutToken(ctx, err)
		}
		project := loan.Project()
		out.acceptEmpty = !c.retries.Left()
		began := c.upstream.opts.Now()
		v := c.askHosts(ctx, loan, token, m, out)
		switch {
		case v == nil || c.begun || c.left:
			return v
		case v.Kind == verdict.KindUnauthenticated && !renewed:
			loan.Refused(token)
			renewed = true
		case !moved && findsProject(ctx, loan, v, project):
			moved = true
		case v.Kind == kindEmpty && c.retries.Take():
			c.step(loan, v, c.upstream.opts.Now().Sub(began)) // it was paid for
			if !pause(ctx, emptyPause) {
				return v
			}
		default:
			return v
		}
	}
}

// askHosts sends a message to one endpoint after the other. What the first of them says counts, unless it says nothing.
func (c *call) askHosts(ctx context.Context, loan account.Loan, token perigee.Secret, m *message, out *answer) (first *verdict.Verdict) {
	for _, host := range c.upstream.hosts.content(loan.CLI()) {
		if c.attempts++; c.attempts > maxAttempts {
			return tooOften(first)
		}
		e := envelope{project: loan.Project(), model: c.req.Model, kind: m.kind, cli: loan.CLI()}
		if m.kind != typeSearch {
			e.requestID = requestID(c.req.ID, c.attempts)
		}
		v := c.askHost(ctx, host, token, e, m, out)
		if v == nil || c.begun || c.left || !v.NextHost || ctx.Err() != nil {
			return v
		}
		if first == nil || first.Kind == kindUnreachable {
			first = v
		}
	}
	return everywhere(first)
}

// everywhere is the verdict about trouble that all endpoints were in. Whether the provider is in it with everybody, another
// account has to show.
func everywhere(v *verdict.Verdict) *verdict.Verdict {
	if v == nil || v.Blame != verdict.ScopeHost {
		return v
	}
	all := *v
	switch v.Kind {
	case verdict.KindUnavailable, verdict.KindOther, verdict.KindForbidden:
		all.Blame = verdict.ScopeProvider
	case kindUnreachable:
		all.Blame = verdict.ScopeProvider
		if neverReached(v.Error) {
			all.Blame = verdict.ScopeNetwork
		}
	}
	return &all
}

// neverReached says whether there was not even a connection.
func neverReached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// tooOften ends a call that has asked the provider so often that asking once more would help nobody.
func tooOften(last *verdict.Verdict) *verdict.Verdict {
	if last != nil {
		v := *last
		v.Blame = verdict.ScopeNobody
		return &v
	}
	return &verdict.Verdict{Kind: verdict.KindOther, Blame: verdict.ScopeNobody,
		Error: perigee.Errorf(perigee.ClassUnavailable, "the provider was asked %d times for one answer and gave none", maxAttempts).WithNext("try again later")}
}

// What package verdict has no word for, because no provider said it.
const (
	kindUnreachable verdict.Kind = "unreachable" // the endpoint could not be reached, or broke off
	kindEmpty       verdict.Kind = "empty"       // an answer without anything in it
	kindCanceled    verdict.Kind = "canceled"    // nobody waits any more
	kindNoAccount   verdict.Kind = "no_account"  // nobody can be asked
)

// failed is the verdict about trouble that no answer of the provider's told of.
func (c *call) failed(ctx context.Context, err error) *verdict.Verdict {
	if v, ok := verdict.Of(err); ok {
		return &v // a copy: who takes the account back may correct it
	}
	e := c.upstream.trouble(ctx, err)
	v := &verdict.Verdict{Kind: kindNoAccount, Blame: verdict.ScopeNobody, Error: e, Delay: e.Retry}
	switch {
	case e.Class == perigee.ClassCanceled:
		v.Kind = kindCanceled
	case causeOf(err) == "" && e.Cause != nil && e.Class == perigee.ClassUnavailable:
		v.Kind, v.Blame, v.NextHost = kindUnreachable, verdict.ScopeHost, true
	}
	return v
}

// withoutToken is the verdict about an account whose token had to be renewed in the middle of a call, and could not be.
func (c *call) withoutToken(ctx context.Context, err error) *verdict.Verdict {
	if ctx.Err() != nil {
		return c.failed(ctx, err)
	}
	v := account.WithoutToken(err)
	return &v
}

// A verdictError carries a verdict through code that knows errors only.
type verdictError struct{ verdict.Verdict }

func (v *verdictError) Error() string { return v.Verdict.Error.Error() }

// pause waits, and says whether it waited to the end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
