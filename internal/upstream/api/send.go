package api

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/redact"
	"perigee/internal/lib/wire"
)

// An outgoing is a request to the provider.
type outgoing struct {
	target string
	body   *wire.Body  // nil if there is none
	method string      // if it is empty, GET without a body and POST with one
	header http.Header // of the client
	// dialect is the dialect of a client that gets the provider's headers and errors unchanged. It is
	// empty for all other clients.
	dialect  perigee.Dialect
	answered http.Header // the headers of an answer in one piece, for that client
}

// outgoing returns a request. raw is set if the client gets the provider's own answer.
func (u *Upstream) outgoing(target string, body *wire.Body, origin *perigee.Origin, raw bool) outgoing {
	out := outgoing{target: target, body: body}
	if raw {
		out.header, out.dialect = clientHeader(origin.Header, u.clientHeaders), origin.Dialect
		out.target += clientQuery(origin.Path, u.clientQuery)
	}
	return out
}

// replace replaces headers of the client that the request has.
func (out *outgoing) replace(h http.Header) {
	for name, values := range h {
		if _, sent := out.header[name]; sent && len(values) > 0 {
			out.header[name] = values
		} else {
			delete(out.header, name)
		}
	}
}

// call makes a call for a model that is answered in one piece. A count of tokens takes no place.
func (u *Upstream) call(ctx context.Context, origin *perigee.Origin, out *outgoing, q quota) ([]byte, error) {
	t := trail{upstream: u, log: origin.Log}
	if q.operation != perigee.OperationCount {
		if err := u.enter(ctx, q.model, &t); err != nil {
			return nil, err
		}
		defer u.leave()
	}
	defer out.body.ShowTo(origin.Log).Wait()
	ctx, watchdog := wire.Watch(ctx, u.opts.FirstByte)
	defer watchdog.Stop()
	var answer []byte
	resp, err := u.do(ctx, out, q, &t)
	if err == nil {
		out.answered = u.answerHeader(out, resp)
		answer, err = u.read(ctx, resp, q.model, maxAnswer, origin)
	} else {
		err = u.explain(ctx, q.model, err)
	}
	t.ends(err)
	return answer, err
}

func (u *Upstream) get(ctx context.Context, target string) ([]byte, error) {
	return u.ask(ctx, &outgoing{target: target}, "")
}

// post asks the server about a model, without a call of the model.
func (u *Upstream) post(ctx context.Context, target, model string, body []byte) ([]byte, error) {
	out := &outgoing{target: target, body: wire.NewBody(body)}
	defer out.body.Wait()
	return u.ask(ctx, out, model)
}

func (u *Upstream) ask(ctx context.Context, out *outgoing, model string) ([]byte, error) {
	ctx, watchdog := wire.Watch(ctx, u.opts.FirstByte)
	defer watchdog.Stop()
	resp, err := u.do(ctx, out, quota{}, &trail{upstream: u})
	if err != nil {
		return nil, u.explain(ctx, model, err)
	}
	return u.read(ctx, resp, model, maxList, nil)
}

func (u *Upstream) read(ctx context.Context, resp *http.Response, model string, limit int64, origin *perigee.Origin) ([]byte, error) {
	defer resp.Body.Close()
	raw, err := wire.ReadAll(resp.Body, limit, origin)
	if err != nil {
		return nil, u.explain(ctx, model, err)
	}
	if err := u.checkAnswer(raw); err != nil {
		return nil, u.explain(ctx, model, err)
	}
	return raw, nil
}

// shortDelay is the longest rate limit that is waited for with the same key: agents would notice a
// longer wait.
const shortDelay = 3 * time.Second

// isShort reports whether an error is a rate limit of at most shortDelay.
func isShort(err error) bool {
	e, ok := errors.AsType[*perigee.Error](err)
	return ok && e.Status == http.StatusTooManyRequests && e.Retry > 0 && e.Retry <= shortDelay
}

// isRefused reports whether the provider has refused the credentials of a request.
func isRefused(err error) bool {
	e, ok := errors.AsType[*perigee.Error](err)
	return ok && e.Status == http.StatusUnauthorized
}

// do sends a request with one key after the other until one is accepted. It waits for a rate limit of at most shortDelay once, for all keys together. The response
// has status 200; the caller ends the trail. If no key is accepted, do returns the most helpful
// error.
func (u *Upstream) do(ctx context.Context, out *outgoing, q quota, t *trail) (*http.Response, error) {
	var best *perigee.Error
	waited := false
	now := u.opts.Now()
	ctx = wire.OnResend(ctx, func(err error) { t.resends(u.explain(ctx, "", err)) })
	for _, key := range u.keys.order(q, now) {
		t.tries(key, now)
		resp, err := u.try(ctx, out, key)
		if u.access != nil && isRefused(err) {
			t.failed(u.explain(ctx, "", err))
			t.tries(key, u.opts.Now())
			resp, err = u.try(ctx, out, key) // with another token
		}
		if !waited && isShort(err) && ctx.Err() == nil {
			waited = true
			t.failed(u.explain(ctx, "", err))
			if perigee.Pause(ctx, perigee.AsError(err).Retry) {
				t.tries(key, u.opts.Now())
				resp, err = u.try(ctx, out, key)
			}
		}
		if err == nil {
			u.keys.markAccepted(key, q)
			return resp, nil
		}
		if ctx.Err() != nil {
			err = ctx.Err() // whichever error the key got before
		}
		now = u.opts.Now()
		refused, ok := errors.AsType[*perigee.Error](err)
		if !ok || !u.keys.coolDown(key, q, refused, now) || len(u.keys.keys) == 1 {
			return nil, err
		}
		best = moreHelpful(best, refused)
		t.failed(u.explain(ctx, "", err))
		u.opts.Logger.Warn("trying the next key", "upstream", u.opts.Name, "key", key.number, "class", refused.Class)
	}
	return nil, best
}

// request makes a request with a key. It has the headers of each request, the client's headers for
// the provider, and the configured ones; a later value replaces an earlier one. No other header of
// the client leaks.
func (u *Upstream) request(ctx context.Context, method, target string, client http.Header, key *key) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return nil, err
	}
	for _, headers := range []http.Header{u.header, client, u.opts.Header} {
		maps.Copy(req.Header, headers)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if u.opts.UserAgent != "" {
		req.Header.Set("User-Agent", u.opts.UserAgent)
	}
	switch {
	case u.access != nil:
		err = u.access.authorize(req)
	case !key.secret.IsZero():
		u.authorize(req.Header, key.secret)
	}
	return req, err
}

func (u *Upstream) try(ctx context.Context, out *outgoing, key *key) (*http.Response, error) {
	method := cmp.Or(out.method, http.MethodPost)
	if out.body == nil && out.method == "" {
		method = http.MethodGet
	}
	req, err := u.request(ctx, method, out.target, out.header, key)
	if err != nil {
		return nil, err
	}
	resp, err := out.body.Do(u.client, req)
	if err != nil {
		return nil, err
	}
	status := resp.StatusCode
	if status == http.StatusOK {
		switch head := beginning(resp); {
		case isPage(head):
			_ = resp.Body.Close()
			return nil, u.pageInstead(req.URL, resp.Header)
		case !isError(resp.Header, head):
			return resp, nil
		}
		status = 0 // the error has its own delay
	}
	defer resp.Body.Close()
	explanation, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if u.access != nil {
		token := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
		explanation = redact.New(perigee.NewSecret(token)).Clean(explanation)
		if status == http.StatusUnauthorized {
			u.access.refused(req)
		}
	}
	e := u.decodeError(status, explanation)
	if 0 < status && status < http.StatusBadRequest { // such as a redirect, which is not followed with the key
		e.Class, e.Hint = perigee.ClassUnavailable, u.checkURL()
	}
	if e.Retry == 0 {
		e.Retry = providererr.RetryAfter(resp.Header, u.opts.Now())
	}
	if u.barelyLimited && e.Class == perigee.ClassRateLimited && e.Retry == 0 {
		e.Class = perigee.ClassExhausted
	}
	if lacksMethod(status, req.URL.Path, e.Message, explanation) {
		e = u.withoutMethod(req.URL, resp, e, explanation)
	}
	if status >= http.StatusBadRequest && out.dialect != "" && passes(e, explanation) && (u.owns == nil || u.owns(explanation)) {
		e.Raw = &perigee.RawError{Dialect: out.dialect, Status: status, Header: u.answerHeader(out, resp), Body: explanation}
	}
	return nil, e
}

// beginning returns the first bytes of an answer with status 200, without white space at their
// start. The body can be read from its start afterwards. A stream of events is not waited for, and
// has none.
func beginning(resp *http.Response) []byte {
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return nil
	}
	wait := 1 // other servers stream with another type
	if isJSON(resp.Header) {
		wait = 64
	}
	body := bufio.NewReaderSize(resp.Body, 64)
	head, _ := body.Peek(wait) // an error of the connection is returned again when the body is read
	if wait == 1 {
		head, _ = body.Peek(body.Buffered())
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{body, resp.Body}
	return bytes.TrimLeft(head, " \t\r\n")
}

// isError reports whether an answer with status 200 that begins with head is an error. Such an
// answer comes in one piece, even if a stream was requested, and starts with the error.
func isError(h http.Header, head []byte) bool {
	value, ok := bytes.CutPrefix(bytes.TrimLeft(head, "[{ \t\r\n"), []byte(`"error"`))
	return ok && isJSON(h) && !bytes.HasPrefix(bytes.TrimLeft(value, ": \t\r\n"), []byte("null"))
}

func isJSON(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "application/json")
}
