package conversation

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"perigee/internal/adapt/providererr"
	"perigee/internal/intercept/cloud"
	"perigee/internal/langserver/trajectory"
)

// A slowLearner is a language server that uses the access token "old" for a number of messages
// after it was given "new".
type slowLearner struct {
	Client       // nil means it lists no models
	messages int // until it uses the new one
	handler  *cloud.Handler

	mu       sync.Mutex
	sent     int
	used     []string // tokens that a call needed
	released int
	stuck    int
	asked    []string // Authorization of requests that the cloud got
}

func (s *slowLearner) Start(context.Context, string) (string, error) { return "cascade", nil }

func (s *slowLearner) Send(ctx context.Context, cascade string, _ Message) error {
	s.mu.Lock()
	s.sent++
	token := "old"
	if s.sent > s.messages {
		token = "new"
	}
	s.mu.Unlock()
	body := `{"requestId":"agent/` + cascade + `/1/2/3","requestType":"agent","request":{}}`
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://cloud.example/v1internal:streamGenerateContent?alt=sse", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	go func() {
		defer func() { _ = recover() }() // the handler aborts answers that the client has left
		s.handler.ServeHTTP(httptest.NewRecorder(), req)
	}()
	return nil
}

func (s *slowLearner) Follow(ctx context.Context, _ string, _ *trajectory.Cursor) iter.Seq2[trajectory.Event, error] {
	return func(yield func(trajectory.Event, error) bool) {
		<-ctx.Done()
		yield(trajectory.Event{}, ctx.Err())
	}
}

func (s *slowLearner) Cancel(context.Context, string) error { return nil }

func (s *slowLearner) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, req.Header.Get("Authorization"))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader("data: {}\n\n"))}, nil
}

func (s *slowLearner) use(_ context.Context, token string) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = append(s.used, token)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.released++
	}), nil
}

// carry has a request carried for the account with the token "new".
func (s *slowLearner) carry(t *testing.T) error {
	t.Helper()
	calls := cloud.NewCalls()
	var err error
	s.handler, err = cloud.New(cloud.Options{Calls: calls, Transport: s, Outdated: func(token string) bool { return token == "old" }})
	if err != nil {
		t.Fatal(err)
	}
	carrier := NewCarrier(CarrierOptions{Client: s, Calls: calls, Use: s.use, Stuck: func() { s.stuck++ }})
	body := `{"model":"m","request":{"contents":[]}}`
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://cloud.example/", strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer new")
	resp, err := carrier.RoundTrip(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if err := carrier.Close(t.Context()); err != nil {
		t.Error(err)
	}
	synctest.Wait()
	return err
}

// A language server that has not taken over the account of a call yet is asked again. The cloud
// gets the request once, with that account.
func TestRequestsWaitForTheirAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowLearner{messages: 3}
		if err := s.carry(t); err != nil {
			t.Fatal(err)
		}
		if len(s.asked) != 1 || s.asked[0] != "Bearer new" {
			t.Errorf("the cloud was asked with %q", s.asked)
		}
		if len(s.used) != 4 || s.used[0] != "new" || s.released != 4 || s.stuck != 0 {
			t.Errorf("used %q, released %d, stuck %d", s.used, s.released, s.stuck)
		}
	})
}

// One that never does is started again, and the account is not blamed.
func TestLanguageServerThatKeepsItsAccountIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowLearner{messages: 1000}
		err := s.carry(t)
		if !errors.Is(err, cloud.ErrOutdatedToken) || s.stuck != 1 || len(s.asked) != 0 || s.released != len(s.used) {
			t.Errorf("got %v, stuck %d, the cloud was asked with %q, released %d of %d", err, s.stuck, s.asked, s.released, len(s.used))
		}
		if v, ok := providererr.Of(err); !ok || v.Scope != providererr.ScopeNone {
			t.Errorf("diagnosed as %+v", v)
		}
	})
}
