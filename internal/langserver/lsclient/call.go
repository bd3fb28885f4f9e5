package lsclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"perigee"
)

// Pauses between attempts at an endpoint that refuses connections.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
	// fewestAttempts at an endpoint are made even if one of them takes all the time: a connection
	// may time out while the machine is suspended, and the next attempt succeeds.
	fewestAttempts = 3
)

// errNotSent means that there was no connection, so that nothing was sent.
var errNotSent = errors.New("not connected")

// errToken means that the language server refused the CSRF token, before it processed the call.
var errToken = errors.New("CSRF token not accepted")

// ErrUnclear is in the chain of an error after which it is unknown whether the language server has
// handled the call.
var ErrUnclear = errors.New("the connection ended before the answer")

// call sends a request and returns the body of the answer. limit bounds each attempt, but not the
// wait for an endpoint.
func (c *Client) call(ctx context.Context, method string, limit time.Duration, request object) ([]byte, error) {
	var at Endpoint
	return c.callAt(ctx, method, limit, request, &at)
}

// callAt is like call, and stores the endpoint of the last attempt.
func (c *Client) callAt(ctx context.Context, method string, limit time.Duration, request object, at *Endpoint) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, perigee.Errorf(perigee.ClassInternal, "%s: %w", method, err)
	}
	var answer []byte
	err = c.attempts(ctx, method, func(endpoint Endpoint) error {
		*at = endpoint
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		response, err := c.post(ctx, endpoint, method, "application/json", body)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		answer, err = c.readAnswer(endpoint, response)
		return err
	})
	if err != nil {
		return nil, asError(ctx, method, err)
	}
	return answer, nil
}

// attempts calls try with the endpoint, and again where that is safe: with the next endpoint if
// there was no connection, and once with another token.
func (c *Client) attempts(ctx context.Context, method string, try func(Endpoint) error) error {
	var last Endpoint
	var failed error         // of the last attempt
	var waited time.Duration // time limit for endpoints that refuse connections
	made := 0                // attempts
	renewed := false         // the token
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		endpoint, err := c.options.Endpoint(ctx, failed != nil)
		switch {
		case errors.Is(err, errNoOther):
			return failed
		case err != nil:
			return err
		}
		begin := time.Now()
		if failed != nil && endpoint == last {
			if renewed || waited >= c.limits.refused && made >= fewestAttempts {
				return failed
			}
			if !perigee.Pause(ctx, pause) {
				return context.Cause(ctx)
			}
		}
		last, failed = endpoint, try(endpoint)
		waited += time.Since(begin)
		made++
		switch {
		case errors.Is(failed, errNotSent) && ctx.Err() == nil:
			c.options.Logger.Debug("language server not reached", "method", method, "port", endpoint.Port(), "error", failed)
		case errors.Is(failed, errToken) && !renewed:
			renewed = true
			c.options.Logger.Debug("CSRF token of the language server not accepted", "method", method, "port", endpoint.Port())
		default:
			return failed
		}
	}
}

// post sends a request. The error wraps errNotSent if there was no connection, else ErrUnclear.
func (c *Client) post(ctx context.Context, endpoint Endpoint, method, contentType string, body []byte) (*http.Response, error) {
	if endpoint.Port() == 0 {
		return nil, perigee.Errorf(perigee.ClassInternal, "the language server has no port")
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	request, err := http.NewRequestWithContext(context.WithValue(ctx, callKey{}, ctx), http.MethodPost, endpoint.url(method), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Connect-Protocol-Version", "1")
	request.Header.Set("User-Agent", "perigee")
	if !endpoint.CSRF.IsZero() {
		request.Header.Set("X-Codeium-Csrf-Token", endpoint.CSRF.Reveal())
	}
	response, err := c.http.Do(request)
	switch {
	case err == nil:
		return response, nil
	case connected.Load() && ctx.Err() != nil: // net/http may report the connection that it closed for that reason
		return nil, fmt.Errorf("%w: %w", ErrUnclear, ctx.Err())
	case connected.Load():
		return nil, fmt.Errorf("%w: %w", ErrUnclear, withoutURL(err))
	default:
		return nil, fmt.Errorf("%w: %w", errNotSent, withoutURL(err))
	}
}

// withoutURL removes the address, which is always the same, from an error of net/http.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// readAnswer returns the body of an answer, or its error.
func (c *Client) readAnswer(endpoint Endpoint, response *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, c.limits.answer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnclear, err)
	case int64(len(body)) > c.limits.answer:
		return nil, perigee.Errorf(perigee.ClassUnavailable, "the language server answered more than %d MiB", c.limits.answer>>20).
			WithHint("start a new conversation")
	case response.StatusCode != http.StatusOK:
		return nil, responseError(endpoint, response, body)
	}
	return body, nil
}
