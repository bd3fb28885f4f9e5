package antigravity

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"perigee"
	"perigee/internal/account"
	"perigee/internal/sse"
	"perigee/internal/upstream/wire"
	"perigee/internal/verdict"
)

const (
	// maxError is how much of an error's explanation is read.
	maxError = 256 << 10
	// maxAnswer is how much of an answer in one piece is read: lists and counts, no model's words.
	maxAnswer = 16 << 20
)

const streamMethod = "streamGenerateContent?alt=sse"

// askHost sends a request to one endpoint and passes the answer on.
func (c *call) askHost(ctx context.Context, host string, token perigee.Secret, e envelope, m *message, out *answer) *verdict.Verdict {
	before, behind := e.around()
	body := wire.NewBody(before, m.body, behind)
	body.ReleaseWith(c.req, m.giveBack)
	defer body.Wait()
	ctx, dog := wire.Watch(ctx, c.upstream.opts.FirstByte)
	defer dog.Stop()
	began := c.upstream.opts.Now()
	resent := wire.OnResend(ctx, func(err error) { c.resends(ctx, err, c.upstream.opts.Now().Sub(began)) })
	resp, v := c.upstream.post(resent, host, streamMethod, token, body)
	if v != nil {
		return v
	}
	defer resp.Body.Close()
	out.reset()
	out.token = token
	if v := c.upstream.notAStream(resp, token); v != nil {
		return v
	}
	if err := out.stream(sse.NewReader(resp.Body), dog); err != nil && !c.left {
		if out.usage != nil && !c.begun {
			add(&c.spent, *out.usage) // the caller never sees it
		}
		return c.failed(ctx, err)
	}
	return nil
}

// resends keeps for the record that a connection was lost before anything was received, and that the request is sent once more.
func (c *call) resends(ctx context.Context, err error, took time.Duration) {
	e := c.upstream.trouble(ctx, err)
	c.step(c.loan, &verdict.Verdict{Kind: kindUnreachable, Blame: verdict.ScopeHost, Error: e}, took)
	c.upstream.opts.Logger.Info("connection lost, request sent again", "upstream", c.upstream.opts.Name, "error", e)
}

// post makes one call. Headers are made from scratch: nothing of the inbound client leaks.
func (u *Upstream) post(ctx context.Context, host, method string, token perigee.Secret, body *wire.Body) (*http.Response, *verdict.Verdict) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, host+"/v1internal:"+method, nil)
	if err != nil {
		return nil, u.unreachable(ctx, host, err)
	}
	body.Attach(req)
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", u.opts.UserAgent)
	if method == streamMethod {
		req.Header.Set("Accept", "text/event-stream")
	}
	resp, err := u.client.Do(req)
	if err != nil {
		return nil, u.unreachable(ctx, host, err)
	}
	u.hosts.reachable(host)
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	v := u.judge(resp, token)
	return nil, &v
}

// judge reads what the provider says in place of an answer.
func (u *Upstream) judge(resp *http.Response, token perigee.Secret) verdict.Verdict {
	explanation, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
	return verdict.Classify(resp.StatusCode, resp.Header, withoutToken(explanation, token), u.opts.Now())
}

// withoutToken returns what the provider says without the token that it was asked with: some repeat one that they do
// not like.
func withoutToken(said []byte, token perigee.Secret) []byte {
	if token.IsZero() {
		return said
	}
	return bytes.ReplaceAll(said, []byte(token.Reveal()), []byte("[redacted]"))
}

// notAStream judges an answer that is no stream of events although its status says that all is well: an error in one
// piece, or the page of a proxy.
func (u *Upstream) notAStream(resp *http.Response, token perigee.Secret) *verdict.Verdict {
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case "application/json", "text/html":
		v := u.judge(resp, token)
		return &v
	}
	return nil
}

// call makes a call that is answered in one piece, to one endpoint after the other.
func (u *Upstream) call(ctx context.Context, loan account.Loan, method string, request []byte) (answer []byte, first *verdict.Verdict) {
	token, err := loan.Token(ctx)
	if err != nil {
		e := u.trouble(ctx, err)
		return nil, &verdict.Verdict{Kind: kindNoAccount, Blame: verdict.ScopeNobody, Error: e}
	}
	for _, host := range u.hosts.control() {
		answer, v := u.callHost(ctx, host, method, token, request)
		if v == nil {
			return answer, nil
		}
		if first == nil || first.Kind == kindUnreachable {
			first = v
		}
		if !v.NextHost || ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

func (u *Upstream) callHost(ctx context.Context, host, method string, token perigee.Secret, request []byte) ([]byte, *verdict.Verdict) {
	body := wire.NewBody(request)
	defer body.Wait()
	ctx, dog := wire.Watch(ctx, u.opts.FirstByte)
	defer dog.Stop()
	resp, v := u.post(ctx, host, method, token, body)
	if v != nil {
		return nil, v
	}
	defer resp.Body.Close()
	raw, err := wire.ReadAll(resp.Body, maxAnswer, nil)
	if err != nil {
		return nil, u.unreachable(ctx, host, err)
	}
	if v, bad := verdict.ClassifyStreamError(withoutToken(raw, token), u.opts.Now()); bad {
		return nil, &v
	}
	return raw, nil
}

// unreachable is the verdict about an endpoint that could not be reached or broke off.
func (u *Upstream) unreachable(ctx context.Context, host string, err error) *verdict.Verdict {
	e := u.trouble(ctx, err)
	if e.Class == perigee.ClassCanceled {
		return &verdict.Verdict{Kind: kindCanceled, Blame: verdict.ScopeNobody, Error: e}
	}
	u.hosts.unreachable(host)
	return &verdict.Verdict{Kind: kindUnreachable, Blame: verdict.ScopeHost, NextHost: true, Error: e}
}

// trouble says what went wrong where the provider did not say it.
func (u *Upstream) trouble(ctx context.Context, err error) *perigee.Error {
	if e, ok := errors.AsType[*perigee.Error](err); ok {
		return e
	}
	return wire.Trouble(ctx, u.opts.Name, "endpoints", err)
}

// explain is what the caller is told about a verdict.
func (c *call) explain(v *verdict.Verdict) error {
	e := *v.Error
	e.Message = verdict.WithoutAddresses(e.Message)
	e.Upstream, e.Model, e.Account, e.Usage = c.upstream.opts.Name, c.req.Model, c.account, c.spent
	return &e
}
