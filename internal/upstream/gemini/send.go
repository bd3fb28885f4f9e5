package gemini

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
)

// newTransport keeps connections for reuse, many to one host, and leaves bodies as they are: a compressed
// event stream arrives in lumps.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dial,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
	}
}

var dialer = net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return conn{c}, nil
}

// A conn copies request bodies to the provider through buffers that are used again. net/http would make a new one of
// 32 KB for each call, which is more garbage than everything else together. Behind TLS it plays no part.
type conn struct{ net.Conn }

// ReadFrom is how net/http copies a body to a connection.
func (c conn) ReadFrom(r io.Reader) (n int64, err error) {
	if limited, ok := r.(*io.LimitedReader); ok {
		if body, ok := limited.R.(*sentReader); ok && int64(body.Len()) <= limited.N {
			return body.WriteTo(c.Conn) // all of it is in memory: there is nothing to copy
		}
	}
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	for {
		read, readErr := r.Read(*buf)
		if read > 0 {
			written, err := c.Write((*buf)[:read])
			n += int64(written)
			if err != nil {
				return n, err
			}
		}
		if readErr == io.EOF {
			return n, nil
		}
		if readErr != nil {
			return n, readErr
		}
	}
}

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// call makes a call that is answered in one piece.
func (u *Upstream) call(ctx context.Context, model, method string, body *sent) ([]byte, error) {
	defer body.wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dog := watch(cancel, u.opts.FirstByte, errFirstByte)
	defer dog.stop()
	resp, err := u.post(ctx, model, method, body)
	if err != nil {
		return nil, u.explain(ctx, model, err)
	}
	return u.read(ctx, resp, model)
}

func (u *Upstream) get(ctx context.Context, target string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dog := watch(cancel, u.opts.FirstByte, errFirstByte)
	defer dog.stop()
	resp, err := u.do(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, u.explain(ctx, "", err)
	}
	return u.read(ctx, resp, "")
}

func (u *Upstream) read(ctx context.Context, resp *http.Response, model string) ([]byte, error) {
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, u.explain(ctx, model, err)
	}
	if err := dialect.CheckAnswer(raw); err != nil {
		return nil, u.explain(ctx, model, err)
	}
	return raw, nil
}

func (u *Upstream) post(ctx context.Context, model, method string, body *sent) (*http.Response, error) {
	return u.do(ctx, http.MethodPost, u.opts.URL+"/v1beta/models/"+url.PathEscape(model)+":"+method, body)
}

// do sends a request with one key after the other until one of them is good. The response it returns has
// status 200.
func (u *Upstream) do(ctx context.Context, method, target string, body *sent) (*http.Response, error) {
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

func (u *Upstream) try(ctx context.Context, method, target string, body *sent, key *key) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return nil, err
	}
	// Headers are made from scratch: nothing of the inbound client leaks.
	if body != nil {
		body.attach(req)
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
