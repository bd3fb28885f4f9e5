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
func (u *Upstream) call(ctx context.Context, model, method string, body *wire.Body) ([]byte, error) {
	defer body.Wait()
	ctx, dog := wire.Watch(ctx, u.opts.FirstByte)
	defer dog.Stop()
	resp, err := u.post(ctx, model, method, body)
	if err != nil {
		return nil, u.explain(ctx, model, err)
	}
	return u.read(ctx, resp, model)
}

func (u *Upstream) get(ctx context.Context, target string) ([]byte, error) {
	ctx, dog := wire.Watch(ctx, u.opts.FirstByte)
	defer dog.Stop()
	resp, err := u.do(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, u.explain(ctx, "", err)
	}
	return u.read(ctx, resp, "")
}

func (u *Upstream) read(ctx context.Context, resp *http.Response, model string) ([]byte, error) {
	defer resp.Body.Close()
	raw, err := wire.ReadAll(resp.Body, maxAnswer)
	if err != nil {
		return nil, u.explain(ctx, model, err)
	}
	if err := dialect.CheckAnswer(raw); err != nil {
		return nil, u.explain(ctx, model, err)
	}
	return raw, nil
}

func (u *Upstream) post(ctx context.Context, model, method string, body *wire.Body) (*http.Response, error) {
	return u.do(ctx, http.MethodPost, u.opts.URL+"/v1beta/models/"+url.PathEscape(model)+":"+method, body)
}

// do sends a request with one key after the other until one of them is good. The response it returns has
// status 200.
func (u *Upstream) do(ctx context.Context, method, target string, body *wire.Body) (*http.Response, error) {
	var last error
	for _, key := range u.keys.order(u.opts.Now()) {
		resp, err := u.try(ctx, method, target, body, key)
		if err == nil {
			return resp, nil
		}
		last = err
		refused, ok := errors.AsType[*perigee.Error](err)
		if !ok || !u.keys.blame(key, refused, u.opts.Now()) {
			return nil, err
		}
		if len(u.keys.keys) == 1 {
			return nil, err
		}
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
