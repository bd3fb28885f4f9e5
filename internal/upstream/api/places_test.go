package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// A slowRig is a provider that takes a minute for each answer.
type slowRig struct {
	mu         sync.Mutex
	open, most int
	order      []string // models in the order in which their calls arrive
}

// RoundTrip answers in a bubble.
func (r *slowRig) RoundTrip(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	_ = req.Body.Close()
	_, model, _ := strings.Cut(req.URL.Path, "/models/")
	r.count(+1, model[:strings.IndexByte(model, ':')])
	defer r.count(-1)
	select {
	case <-time.After(time.Minute):
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
	body := finished
	if strings.HasSuffix(req.URL.Path, "mbedContents") {
		body = `{"embeddings":[{"values":[1]}]}`
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Request: req, Header: header, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// count adds calls to the number of open ones, and their models to the order.
func (r *slowRig) count(calls int, models ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open += calls
	r.most = max(r.most, r.open)
	r.order = append(r.order, models...)
}

// A queuedCall is a call in the background.
type queuedCall struct {
	done chan struct{}
	log  *perigee.CallLog
	err  error
}

// start begins a call of a model and returns when it waits or has been sent. Names with embed make
// embeddings.
func (r *slowRig) start(ctx context.Context, t *testing.T, u *Upstream, model string) *queuedCall {
	t.Helper()
	c := &queuedCall{done: make(chan struct{}), log: &perigee.CallLog{}}
	req := request(t, false)
	req.Model, req.Log = model, c.log
	go func() {
		defer close(c.done)
		if strings.HasPrefix(model, "embed") {
			_, c.err = u.Embed(ctx, embedOf(c.log, model))
			return
		}
		_, c.err = ask(ctx, u, req)
	}()
	synctest.Wait()
	return c
}

// end waits for a call in a bubble, and returns the class of its error and its attempts.
func (c *queuedCall) end() string {
	<-c.done
	text := ""
	if e := perigee.AsError(c.err); e != nil {
		text = fmt.Sprintf("%s %v", e.Class, e.Retry)
	}
	for _, a := range c.log.Attempts() {
		text += "; " + a.Why
	}
	return text
}

// Calls beyond the limit wait in the order of their arrival. A call that waits too long gets 429
// with Retry-After, and one that is canceled leaves the queue.
func TestCallsWaitForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := &slowRig{}
		u := New(Gemini, Options{Name: "s", URL: "https://provider.example", Concurrency: 2, Wait: 90 * time.Second, Transport: rig})
		defer u.Close()
		ctx, leave := context.WithCancel(t.Context())
		var calls []*queuedCall
		for _, model := range []string{"a", "b", "gone", "c", "embed", "d", "e"} {
			from := t.Context()
			if model == "gone" {
				from = ctx
			}
			calls = append(calls, rig.start(from, t, u, model))
			time.Sleep(time.Second)
		}
		leave()
		const waited = "; key 1 of 1, after 57s in the queue for a place"
		for i, want := range []string{"", "", "canceled 0s", waited, waited, "rate_limited 5s", "rate_limited 5s"} {
			if got := calls[i].end(); got != want {
				t.Errorf("call %d: %q, want %q", i, got, want)
			}
		}
		if order := strings.Join(rig.order, " "); order != "a b c embed" || rig.most != 2 {
			t.Errorf("the order is %s, and at most %d were open", order, rig.most)
		}
		if e := perigee.AsError(calls[5].err); e.Status != http.StatusTooManyRequests || e.Upstream != "s" || e.Model != "d" {
			t.Errorf("%+v", e)
		}
		// All places are free again, also that of a caller that leaves the loop, and of a call that fails.
		for range 3 {
			for range u.Stream(t.Context(), request(t, false)) {
				break
			}
			failing, cancel := context.WithCancel(t.Context())
			c := rig.start(failing, t, u, "f")
			cancel()
			if got := c.end(); got != "canceled 0s" {
				t.Errorf("failed with %q", got)
			}
		}
		if n := len(u.places.taken); n != 0 {
			t.Errorf("%d places are taken", n)
		}
	})
}

// A place that is free costs no wait, and counts of tokens need none. Without a time to wait a call
// fails at once.
func TestPlacesWithoutAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := &slowRig{}
		u := New(Gemini, Options{Name: "s", URL: "https://provider.example", Concurrency: 1, Transport: rig})
		defer u.Close()
		first := rig.start(t.Context(), t, u, "a")
		began := time.Now()
		_, err := ask(t.Context(), u, request(t, true))
		if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassRateLimited || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := u.SendRaw(t.Context(), &perigee.RawRequest{Model: "m"}, nil); perigee.AsError(err).Class != perigee.ClassRateLimited {
			t.Errorf("a recorded request: %v", err)
		}
		_, err = u.CountTokens(t.Context(), request(t, false))
		if got := first.end(); got != "" {
			t.Errorf("the first call: %q", got)
		}
		if order := strings.Join(rig.order, " "); order != "a m" {
			t.Errorf("a count: %v, sent %s", err, order)
		}
	})
}
