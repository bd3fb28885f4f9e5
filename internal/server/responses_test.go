package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/server"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// A storeRig keeps responses in memory.
type storeRig struct {
	mu   sync.Mutex
	kept map[string]perigee.StoredResponse
}

func (s *storeRig) SaveResponse(_ context.Context, r *perigee.StoredResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[string]perigee.StoredResponse{}
	}
	s.kept[r.ID] = *r
	return nil
}

func (s *storeRig) Response(_ context.Context, key, id string) (*perigee.StoredResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.kept[id]
	if !ok || r.Key != key {
		return nil, perigee.Errorf(perigee.ClassNotFound, "no response %s", id)
	}
	return &r, nil
}

func (s *storeRig) ResponseSize(ctx context.Context, key, id string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.kept[id]
	if !ok || r.Key != key {
		return 0, perigee.Errorf(perigee.ClassNotFound, "no response %s", id)
	}
	return int64(len(r.Input) + len(r.Output) + len(r.Response)), nil
}

func (s *storeRig) DeleteResponse(ctx context.Context, key, id string) error {
	if _, err := s.Response(ctx, key, id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, id)
	return nil
}

// A responsesRig is a server with a store, and a client for it.
type responsesRig struct {
	api    *server.Server
	client *http.Client
}

func newResponsesRig(t *testing.T, upstream perigee.Upstream, store perigee.ResponseStore) *responsesRig {
	t.Helper()
	ids := &perigeetest.IDs{}
	api := server.New(server.Options{Upstream: upstream, Responses: store, NewID: ids.New},
		server.Settings{MaxBody: 1 << 20, Loopback: true})
	pipes := perigeetest.NewPipes()
	server := &http.Server{Handler: api, BaseContext: func(net.Listener) context.Context { return t.Context() }}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = server.Serve(pipes)
	}()
	transport := &http.Transport{DialContext: pipes.Dial, DisableKeepAlives: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		await.Receive(t, stopped, "the end of the server")
		api.Close()
	})
	return &responsesRig{api: api, client: &http.Client{Transport: transport}}
}

// do makes a request and returns the status and the decoded body.
func (d *responsesRig) do(t *testing.T, method, path, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost/v1/responses"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatalf("%v in %q", err, raw)
	}
	return resp.StatusCode, object
}

// A fullStoreRig has no room.
type fullStoreRig struct{ storeRig }

func (*fullStoreRig) SaveResponse(context.Context, *perigee.StoredResponse) error {
	return perigee.Errorf(perigee.ClassInternal, "the disk is full")
}

// The client gets its answer all the same, and is not told that it can be gone on from.
func TestResponseThatCouldNotBeStoredSaysSo(t *testing.T) {
	d := newResponsesRig(t, script(func(_ context.Context, yield func(perigee.Event, error) bool) {
		_ = yield(word, nil) && yield(perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}}, nil)
	}), &fullStoreRig{})
	noted, err := d.client.Post("http://localhost/v1/responses", "application/json", strings.NewReader(`{"model":"m","input":"hi"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = noted.Body.Close()
	if got := noted.Header.Get("X-Perigee-Notes"); got != "dropped store (the response could not be stored)" {
		t.Errorf("the notes are %q", got)
	}
	status, whole := d.do(t, "POST", "", `{"model":"m","input":"hi"}`)
	if status != 200 || whole["status"] != "completed" || whole["store"] != false || whole["output"] == nil {
		t.Errorf("got %d, %v", status, whole)
	}
	resp, err := d.client.Post("http://localhost/v1/responses", "application/json",
		strings.NewReader(`{"model":"m","input":"hi","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	begun, ended, _ := strings.Cut(string(raw), "event: response.completed\n")
	if !strings.Contains(begun, `"store":true`) || !strings.Contains(ended, `"store":false`) ||
		strings.Contains(ended, `"store":true`) || strings.Count(ended, "Hello.") != 1 {
		t.Errorf("got %s", raw)
	}
}

var word = perigee.Event{Kind: perigee.EventText, Text: "Hello."}

// slow answers after a minute, unless it is ended before.
var slow = script(func(ctx context.Context, yield func(perigee.Event, error) bool) {
	if !yield(begin, nil) {
		return
	}
	if quietFor(ctx, time.Minute); ctx.Err() != nil {
		yield(perigee.Event{}, ctx.Err())
		return
	}
	if yield(word, nil) {
		yield(end, nil)
	}
})

const behind = `{"model":"m","input":"hi","background":true}`

func TestBackgroundResponseIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newResponsesRig(t, slow, &storeRig{})
		start := time.Now()
		status, queued := d.do(t, http.MethodPost, "", behind)
		if status != http.StatusOK || queued["status"] != "queued" || queued["background"] != true || time.Since(start) != 0 {
			t.Fatalf("got %d %v after %v", status, queued, time.Since(start))
		}
		id := "/" + queued["id"].(string)
		if _, r := d.do(t, http.MethodGet, id, ""); r["status"] != "in_progress" {
			t.Errorf("meanwhile it is %v", r["status"])
		}
		// To go on from it is too early.
		if status, r := d.do(t, http.MethodPost, "", `{"input":"more","previous_response_id":"`+id[1:]+
			`"}`); status != http.StatusBadRequest {
			t.Errorf("got %d %v", status, r)
		}
		quietFor(t.Context(), time.Minute)
		synctest.Wait()
		_, r := d.do(t, http.MethodGet, id, "")
		if r["status"] != "completed" || len(r["output"].([]any)) != 1 || r["id"] != queued["id"] {
			t.Errorf("in the end it is %v", r)
		}
	})
}

func TestBackgroundResponseIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newResponsesRig(t, slow, &storeRig{})
		_, queued := d.do(t, http.MethodPost, "", behind)
		id := "/" + queued["id"].(string)
		for range 2 { // again changes nothing
			if status, r := d.do(t, http.MethodPost, id+"/cancel", ""); status != http.StatusOK || r["status"] != "cancelled" {
				t.Errorf("got %d %v", status, r)
			}
		}
		if _, r := d.do(t, http.MethodGet, id, ""); r["status"] != "cancelled" || r["error"] != nil {
			t.Errorf("it is %v", r)
		}
	})
}

func TestBackgroundResponseIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newResponsesRig(t, slow, &storeRig{})
		_, queued := d.do(t, http.MethodPost, "", behind)
		id := "/" + queued["id"].(string)
		if status, r := d.do(t, http.MethodDelete, id, ""); status != http.StatusOK || r["deleted"] != true {
			t.Errorf("got %d %v", status, r)
		}
		quietFor(t.Context(), 2*time.Minute)
		if status, r := d.do(t, http.MethodGet, id, ""); status != http.StatusNotFound {
			t.Errorf("it came back: %v", r)
		}
	})
}

func TestBackgroundEndsWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newResponsesRig(t, slow, &storeRig{})
		_, queued := d.do(t, http.MethodPost, "", behind)
		d.api.Close()
		if _, r := d.do(t, http.MethodGet, "/"+queued["id"].(string), ""); r["status"] != "failed" ||
			!strings.Contains(r["error"].(map[string]any)["message"].(string), "shutting down") {
			t.Errorf("it is %v", r)
		}
		if status, r := d.do(t, http.MethodPost, "", behind); status != http.StatusServiceUnavailable {
			t.Errorf("a closed server takes another: %d %v", status, r)
		}
	})
}

func TestBackgroundIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newResponsesRig(t, slow, &storeRig{})
		for i := range 64 {
			if status, r := d.do(t, http.MethodPost, "", behind); status != http.StatusOK {
				t.Fatalf("response %d: %d %v", i, status, r)
			}
		}
		if status, r := d.do(t, http.MethodPost, "", behind); status != http.StatusTooManyRequests {
			t.Errorf("got %d %v", status, r)
		}
		quietFor(t.Context(), time.Minute)
		synctest.Wait()
		if status, r := d.do(t, http.MethodPost, "", behind); status != http.StatusOK {
			t.Errorf("after the others ended: %d %v", status, r)
		}
	})
}

func TestPanicBehindIsAFailedResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newResponsesRig(t, script(func(context.Context, func(perigee.Event, error) bool) { panic("oh") }), &storeRig{})
		_, queued := d.do(t, http.MethodPost, "", behind)
		synctest.Wait()
		if _, r := d.do(t, http.MethodGet, "/"+queued["id"].(string), ""); r["status"] != "failed" {
			t.Errorf("it is %v", r)
		}
	})
}

// What a process that is gone had begun is not waited for.
func TestAbandonedResponseHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &storeRig{}
		d := newResponsesRig(t, slow, store)
		_ = store.SaveResponse(t.Context(), &perigee.StoredResponse{ID: "resp_old", Input: []byte("[]"), Output: []byte("[]"),
			Response: []byte(`{"id":"resp_old","status":"in_progress","background":true,"error":null}`)})
		if _, r := d.do(t, http.MethodGet, "/resp_old", ""); r["status"] != "failed" || r["error"] == nil {
			t.Errorf("it is %v", r)
		}
	})
}

// A stream in the background is there for GET and cancel, too, and stored when its client goes
// away.
func TestBackgroundStream(t *testing.T) {
	ask := func(t *testing.T, d *responsesRig, ctx context.Context) *http.Response {
		t.Helper()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/responses",
			strings.NewReader(`{"input":"hi","background":true,"stream":true}`))
		resp, err := d.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	t.Run("is cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newResponsesRig(t, slow, &storeRig{})
			resp := ask(t, d, t.Context())
			defer func() { _ = resp.Body.Close() }()
			if _, r := d.do(t, http.MethodGet, "/resp_call-0001", ""); r["status"] != "in_progress" {
				t.Errorf("meanwhile it is %v", r["status"])
			}
			if _, r := d.do(t, http.MethodPost, "/resp_call-0001/cancel", ""); r["status"] != "cancelled" {
				t.Errorf("it is %v", r)
			}
			if raw, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(raw), "event: response.failed") {
				t.Errorf("the stream is %q (%v)", raw, err)
			}
		})
	})
	t.Run("is left", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newResponsesRig(t, slow, &storeRig{})
			ctx, leave := context.WithCancel(t.Context())
			resp := ask(t, d, ctx)
			leave()
			_ = resp.Body.Close()
			synctest.Wait()
			if _, r := d.do(t, http.MethodGet, "/resp_call-0001", ""); r["status"] != "cancelled" {
				t.Errorf("it is %v", r)
			}
		})
	})
}

// A response is stored before the client knows that it is complete.
func TestResponseIsStoredBeforeItsEnd(t *testing.T) {
	quick := script(func(_ context.Context, yield func(perigee.Event, error) bool) {
		if yield(begin, nil) && yield(word, nil) {
			yield(end, nil)
		}
	})
	for _, stream := range []string{"false", "true"} {
		synctest.Test(t, func(t *testing.T) {
			store := &storeRig{}
			d := newResponsesRig(t, quick, store)
			resp, err := d.client.Post("http://localhost/v1/responses", "application/json",
				strings.NewReader(`{"input":"hi","stream":`+stream+`}`))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, _ := io.ReadAll(resp.Body)
			r, err := store.Response(t.Context(), "", "resp_call-0001")
			if err != nil || !strings.Contains(string(body), string(r.Response)) {
				t.Errorf("stored is %v (%v)\nsent is %s", r, err, body)
			}
		})
	}
}

func TestWithoutAStoreNothingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newResponsesRig(t, slow, nil)
		if status, r := d.do(t, http.MethodPost, "", `{"input":"hi"}`); status != http.StatusOK || r["store"] != false {
			t.Errorf("got %d %v", status, r)
		}
		if status, _ := d.do(t, http.MethodPost, "", behind); status != http.StatusNotImplemented {
			t.Errorf("background: got %d", status)
		}
		if status, _ := d.do(t, http.MethodGet, "/resp_1", ""); status != http.StatusNotImplemented {
			t.Errorf("read: got %d", status)
		}
		if status, _ := d.do(t, http.MethodPost, "", `{"input":"hi","previous_response_id":"resp_1"}`); status != http.StatusBadRequest {
			t.Errorf("go on: got %d", status)
		}
	})
}
