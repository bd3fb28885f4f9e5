package antigravity

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/redact"
	"perigee/internal/lib/sse"
	"perigee/internal/lib/wire"
)

const (
	// maxError is the maximum size of an error body that is read.
	maxError = 256 << 10
	// maxAnswer is the maximum size of an answer in one piece: lists and counts, no text of
	// models.
	maxAnswer = 16 << 20
)

const streamMethod = "streamGenerateContent?alt=sse"

// askHost sends a request to one endpoint and emits the answer.
func (c *call) askHost(ctx context.Context, host string, token perigee.Secret, body *wire.Body, out *answer) *providererr.Diagnosis {
	defer body.Wait()
	ctx, watchdog := wire.Watch(ctx, c.upstream.opts.FirstByte)
	defer watchdog.Stop()
	resent := wire.OnResend(ctx, func(err error) { c.resends(ctx, err) })
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
	if err := out.stream(sse.NewReader(resp.Body), watchdog); err != nil && !c.left {
		if out.usage != nil && !c.started {
			c.spent = c.spent.Plus(*out.usage) // the caller never sees it
		}
		return c.failed(ctx, err)
	}
	return nil
}

// resends records that a connection was lost before any byte was received; the request is sent
// once more.
func (c *call) resends(ctx context.Context, err error) {
	e := c.upstream.callError(ctx, err)
	c.step(c.lease, &providererr.Diagnosis{Kind: kindUnreachable, Scope: providererr.ScopeHost, Error: e})
	c.begin(c.try.endpoint)
	c.upstream.opts.Logger.Info("connection lost, request sent again", "upstream", c.upstream.opts.Name, "error", e)
}

// post makes one call.
func (u *Upstream) post(ctx context.Context, host, method string, token perigee.Secret, body *wire.Body) (*http.Response, *providererr.Diagnosis) {
	resp, v := u.send(ctx, host, method, token, body)
	if v != nil || resp.StatusCode == http.StatusOK {
		return resp, v
	}
	defer resp.Body.Close()
	v, _ = u.diagnose(resp, resp.Body, token)
	return nil, v
}

// send makes one call, and returns its response with any status. Headers are made from scratch, so
// that no header of the inbound client leaks.
func (u *Upstream) send(ctx context.Context, host, method string, token perigee.Secret, body *wire.Body) (*http.Response, *providererr.Diagnosis) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, host+"/v1internal:"+method, nil)
	if err != nil {
		return nil, u.unreachable(ctx, host, err)
	}
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", u.opts.UserAgent)
	if method == streamMethod {
		req.Header.Set("Accept", "text/event-stream")
	}
	resp, err := body.Do(u.client, req)
	if err != nil {
		return nil, u.unreachable(ctx, host, err)
	}
	u.hosts.reachable(host)
	return resp, nil
}

// diagnose reads and classifies an error response. It returns the body without the token, which
// some providers repeat when they refuse it.
func (u *Upstream) diagnose(resp *http.Response, body io.Reader, token perigee.Secret) (*providererr.Diagnosis, []byte) {
	explanation, _ := io.ReadAll(io.LimitReader(body, maxError))
	explanation = redact.New(token).Clean(explanation)
	return new(providererr.Classify(resp.StatusCode, resp.Header, explanation, u.opts.Now())), explanation
}

// notAStream diagnoses an answer with status 200 that is not an event stream: a single error
// object, or the page of a proxy.
func (u *Upstream) notAStream(resp *http.Response, token perigee.Secret) *providererr.Diagnosis {
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case "application/json", "text/html":
		v, _ := u.diagnose(resp, resp.Body, token)
		return v
	}
	return nil
}

// call makes a call that is answered in one piece, to one endpoint after the other.
func (u *Upstream) call(ctx context.Context, lease pool.Lease, method string, request []byte) (answer []byte, first *providererr.Diagnosis) {
	token, err := lease.Token(ctx)
	if err != nil {
		e := u.callError(ctx, err)
		return nil, &providererr.Diagnosis{Kind: kindNoAccount, Scope: providererr.ScopeNone, Error: e}
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

func (u *Upstream) callHost(ctx context.Context, host, method string, token perigee.Secret, request []byte) ([]byte, *providererr.Diagnosis) {
	body := wire.NewBody(request)
	defer body.Wait()
	ctx, watchdog := wire.Watch(ctx, u.opts.FirstByte)
	defer watchdog.Stop()
	resp, v := u.post(ctx, host, method, token, body)
	if v != nil {
		return nil, v
	}
	defer resp.Body.Close()
	raw, err := wire.ReadAll(resp.Body, maxAnswer, nil)
	if err != nil {
		return nil, u.unreachable(ctx, host, err)
	}
	if v, bad := providererr.ClassifyStreamError(redact.New(token).Clean(raw), u.opts.Now()); bad {
		return nil, &v
	}
	return raw, nil
}

// unreachable returns the diagnosis for an endpoint that could not be reached or that lost the
// connection.
func (u *Upstream) unreachable(ctx context.Context, host string, err error) *providererr.Diagnosis {
	e := u.callError(ctx, err)
	if e.Class == perigee.ClassCanceled {
		return &providererr.Diagnosis{Kind: kindCanceled, Scope: providererr.ScopeNone, Error: e}
	}
	if v, ok := providererr.Of(err); ok {
		return &v // the transport's diagnosis is more specific
	}
	u.hosts.unreachable(host)
	return &providererr.Diagnosis{Kind: kindUnreachable, Scope: providererr.ScopeHost, NextHost: true, Error: e}
}

// callError returns the error for a failure that did not come from the provider.
func (u *Upstream) callError(ctx context.Context, err error) *perigee.Error {
	if e, ok := errors.AsType[*perigee.Error](err); ok {
		return e
	}
	return wire.TransportError(ctx, u.opts.Name, "endpoints", err)
}

// explain returns the error that the caller gets for a diagnosis.
func (c *call) explain(v *providererr.Diagnosis) error {
	e := *v.Error
	e.Message = redact.Emails(e.Message)
	e.Upstream, e.Model, e.Account, e.Usage = c.upstream.opts.Name, c.req.Model, c.account, c.spent
	return &e
}
