package gemini

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/upstream/wire"
)

// call makes a call that is answered in one piece.
func (u *Upstream) call(ctx context.Context, origin *perigee.Origin, model, method string, body *wire.Body) ([]byte, error) {
	defer body.Wait()
	ctx, dog := wire.Watch(ctx, u.opts.FirstByte)
	defer dog.Stop()
	t := trail{upstream: u, steps: origin.Steps}
	resp, err := u.post(ctx, model, method, body, &t)
	if err != nil {
		return nil, u.explain(ctx, model, err)
	}
	answer, err := u.read(ctx, resp, model, maxAnswer, origin)
	t.ends(err)
	return answer, err
}

func (u *Upstream) get(ctx context.Context, target string) ([]byte, error) {
	ctx, dog := wire.Watch(ctx, u.opts.FirstByte)
	defer dog.Stop()
	resp, err := u.do(ctx, http.MethodGet, target, nil, &trail{upstream: u})
	if err != nil {
		return nil, u.explain(ctx, "", err)
	}
	return u.read(ctx, resp, "", maxList, nil)
}

func (u *Upstream) read(ctx context.Context, resp *http.Response, model string, limit int64, origin *perigee.Origin) ([]byte, error) {
	defer resp.Body.Close()
	raw, err := wire.ReadAll(resp.Body, limit, origin)
	if err != nil {
		return nil, u.explain(ctx, model, err)
	}
	if err := dialect.CheckAnswer(raw); err != nil {
		return nil, u.explain(ctx, model, err)
	}
	return raw, nil
}

func (u *Upstream) post(ctx context.Context, model, method string, body *wire.Body, t *trail) (*http.Response, error) {
	return u.do(ctx, http.MethodPost, u.opts.URL+"/v1beta/models/"+url.PathEscape(model)+":"+method, body, t)
}

// shortDelay is the longest that a rate limit is waited for with the same key: agents would notice more.
const shortDelay = 3 * time.Second

// waitFor waits as long as an error says when it names a moment only, and says whether it waited to the end.
func waitFor(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*perigee.Error](err)
	if !ok || e.Status != http.StatusTooManyRequests || e.Retry <= 0 || e.Retry > shortDelay {
		return false
	}
	timer := time.NewTimer(e.Retry)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// do sends a request with one key after the other until one of them is good. A rate limit of a moment is waited for, once for all
// keys together. The response it returns has status 200; the trail ends with its answer.
func (u *Upstream) do(ctx context.Context, method, target string, body *wire.Body, t *trail) (*http.Response, error) {
	var last error
	waited := false
	now := u.opts.Now()
	ctx = wire.OnResend(ctx, func(err error) { t.resends(u.explain(ctx, "", err)) })
	for _, key := range u.keys.order(now) {
		t.tries(key, now)
		resp, err := u.try(ctx, method, target, body, key)
		if !waited && waitFor(ctx, err) {
			waited = true
			resp, err = u.try(ctx, method, target, body, key)
		}
		if err == nil {
			key.accepted()
			return resp, nil
		}
		if ctx.Err() != nil {
			err = ctx.Err() // whatever the key was told before
		}
		last, now = err, u.opts.Now()
		refused, ok := errors.AsType[*perigee.Error](err)
		if !ok || !u.keys.blame(key, refused, now) {
			t.ends(u.explain(ctx, "", err))
			return nil, err
		}
		if len(u.keys.keys) == 1 {
			t.ends(u.explain(ctx, "", err))
			return nil, err
		}
		t.gaveWay(u.explain(ctx, "", err))
		u.opts.Logger.Warn("key gave way to the next", "upstream", u.opts.Name, "key", key.number, "class", refused.Class)
	}
	return nil, last
}

func (u *Upstream) try(ctx context.Context, method, target string, body *wire.Body, key *key) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return nil, err
	}
	// Headers are made from scratch: nothing of the inbound client leaks.
	if body != nil {
		body.Attach(req)
		req.Header.Set("Content-Type", "application/json")
	}
	if u.opts.UserAgent != "" {
		req.Header.Set("User-Agent", u.opts.UserAgent)
	}
	req.Header.Set("X-Goog-Api-Key", key.secret.Reveal())
	resp, err := u.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	explanation, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
	e := dialect.DecodeError(resp.StatusCode, explanation)
	if e.Retry == 0 {
		e.Retry = retryAfter(resp.Header.Get("Retry-After"), u.opts.Now())
	}
	return nil, e
}

// longestRest is the most that a provider's word about when to come back is believed.
const longestRest = 30 * 24 * time.Hour

// retryAfter reads the header in both its forms.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(min(seconds, int(longestRest/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}
