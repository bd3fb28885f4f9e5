package lsclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	geminicoder "perigee/gen/gemini_coder"

	"perigee"
)

// An endpointsRig returns its endpoints one after the other, the next whenever the last is stale.
type endpointsRig struct {
	endpoints []Endpoint
	stale     int
}

func (e *endpointsRig) get(_ context.Context, stale bool) (Endpoint, error) {
	if stale {
		e.stale++
	}
	return e.endpoints[min(e.stale, len(e.endpoints)-1)], nil
}

func clientOf(endpoints ...Endpoint) (*Client, *endpointsRig) {
	rig := &endpointsRig{endpoints: endpoints}
	c := New(Options{Endpoint: rig.get})
	c.limits.lookups = []time.Duration{0, 0}
	return c, rig
}

// moving is the client of a language server that is replaced after the first call.
func moving(first, then Endpoint) *Client {
	called := false
	c := New(Options{Endpoint: func(context.Context, bool) (Endpoint, error) {
		if called {
			return then, nil
		}
		called = true
		return first, nil
	}})
	c.limits.lookups = []time.Duration{0, 0}
	return c
}

// The process was killed; the supervisor returns the ports of the next one.
func TestARefusedCallIsSentToTheNextEndpoint(t *testing.T) {
	server := newServer()
	dead := Endpoint{HTTP: freePort(t), CSRF: perigee.NewSecret("old")}
	c, endpoints := clientOf(dead, dead, dead, serve(t, server))
	cascade, err := c.Start(t.Context(), StartOptions{})
	if err != nil || server.cascades[cascade] == nil {
		t.Fatal(cascade, err)
	}
	if endpoints.stale != 3 {
		t.Errorf("it was asked %d times for another endpoint", endpoints.stale)
	}
	if _, err := c.Send(t.Context(), cascade, Message{Text: "hello", Model: "MODEL_PLACEHOLDER_M18"}); err != nil || len(server.sent) != 1 {
		t.Errorf("%d messages, %v", len(server.sent), err)
	}
}

// A process that is restarted with the ports of the last one.
func TestARefusedCallIsSentToTheSamePortLater(t *testing.T) {
	server := newServer()
	endpoint := Endpoint{HTTP: freePort(t), CSRF: perigee.NewSecret(token)}
	asked := 0
	c := New(Options{Endpoint: func(context.Context, bool) (Endpoint, error) {
		if asked++; asked == 3 {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", endpoint.HTTP))
			if err != nil {
				return Endpoint{}, err
			}
			s := &http.Server{Handler: server.handler()}
			go func() { _ = s.Serve(l) }()
			t.Cleanup(func() { _ = s.Close() })
		}
		return endpoint, nil
	}})
	if err := c.Heartbeat(t.Context()); err != nil || server.calls("Heartbeat") != 1 {
		t.Error(server.requests, err)
	}
}

func TestACallFailsWhenEveryConnectionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, endpoints := clientOf(Endpoint{HTTP: 1})
		refused := errors.New("connection refused")
		c.http = newHTTPClient(func(context.Context, string, string) (net.Conn, error) { return nil, refused })
		begun := time.Now()
		err := c.Heartbeat(t.Context())
		wantClass(t, err, perigee.ClassUnavailable)
		if endpoints.stale < 2 || errors.Is(err, ErrUnclear) || !errors.Is(err, refused) {
			t.Errorf("asked %d times for another endpoint: %v", endpoints.stale, err)
		}
		if took := time.Since(begun); took < defaultLimits.refused || took >= defaultLimits.refused+longestPause {
			t.Errorf("failed after %v", took)
		}
	})
	err := connected(Endpoint{HTTP: freePort(t)}).Heartbeat(t.Context())
	wantClass(t, err, perigee.ClassUnavailable)
	if errors.Is(err, ErrUnclear) || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

// A connection that times out because the machine stood still is tried again.
func TestAConnectionThatTimesOutIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := clientOf(Endpoint{HTTP: 1})
		dials := 0
		c.http = newHTTPClient(func(context.Context, string, string) (net.Conn, error) {
			dials++
			time.Sleep(2 * defaultLimits.refused)
			return nil, os.ErrDeadlineExceeded
		})
		c.limits.control = time.Minute
		if err := c.Heartbeat(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) || dials != fewestAttempts {
			t.Errorf("%d connections, %v", dials, err)
		}
	})
}

func TestWaitingForAnEndpointEndsWithTheCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := New(Options{Endpoint: func(ctx context.Context, stale bool) (Endpoint, error) {
		cancel()
		return Endpoint{}, context.Cause(ctx)
	}})
	_, err := c.Models(ctx)
	wantClass(t, err, perigee.ClassCanceled)
}

func TestANewTokenIsUsedOnce(t *testing.T) {
	server := newServer()
	good := serve(t, server)
	old, wrong := good, good
	old.CSRF, wrong.CSRF = perigee.NewSecret("old-token-0001"), perigee.NewSecret("old-token-0002")
	none := good
	none.CSRF = perigee.Secret{}
	for _, c := range []struct {
		name      string
		endpoints []Endpoint
		calls     int
		works     bool
	}{
		{"renewed", []Endpoint{old, good}, 2, true},
		{"none before", []Endpoint{none, good}, 2, true},
		{"not renewed", []Endpoint{old}, 1, false},
		{"renewed in vain", []Endpoint{old, wrong, good}, 2, false},
	} {
		client, _ := clientOf(c.endpoints...)
		before := server.calls("Heartbeat")
		err := client.Heartbeat(t.Context())
		if calls := server.calls("Heartbeat") - before; calls != c.calls || (err == nil) != c.works {
			t.Errorf("%s: %d calls, %v", c.name, calls, err)
		}
		if err != nil {
			wantClass(t, err, perigee.ClassUnavailable)
			if strings.Contains(err.Error(), "old-token") {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
	// Streams, too.
	cascade, err := connected(good).Start(t.Context(), StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client, _ := clientOf(old, good)
	for _, err := range client.Updates(t.Context(), cascade) {
		if err != nil {
			t.Error(err)
		}
		break
	}
}

// drop closes the connection of the next call of a method without an answer, after handling it or
// not.
func (s *serverRig) drop(method string, handled bool) {
	generated := s.handler()
	s.handle(method, func(_ http.ResponseWriter, r *http.Request) {
		s.handle(method, nil)
		if handled {
			generated.ServeHTTP(&discard{}, r)
		}
		panic(http.ErrAbortHandler)
	})
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}
func (*discard) WriteHeader(int)                {}
func (*discard) Write(data []byte) (int, error) { return len(data), nil }

func TestAMessageIsNeverSentTwice(t *testing.T) {
	message := Message{Text: "hello", Model: "MODEL_PLACEHOLDER_M18"}
	start := func(server *serverRig) Endpoint {
		endpoint := serve(t, server)
		if _, err := connected(endpoint).Start(t.Context(), StartOptions{Cascade: "c"}); err != nil {
			t.Fatal(err)
		}
		return endpoint
	}
	t.Run("it arrived", func(t *testing.T) {
		server := newServer()
		client, _ := clientOf(start(server))
		server.drop("SendUserCascadeMessage", true)
		if _, err := client.Send(t.Context(), "c", message); err != nil || len(server.sent) != 1 {
			t.Errorf("%d messages: %v", len(server.sent), err)
		}
	})
	t.Run("the same text came before", func(t *testing.T) {
		server := newServer()
		client, _ := clientOf(start(server))
		if _, err := client.Send(t.Context(), "c", message); err != nil {
			t.Fatal(err)
		}
		server.drop("SendUserCascadeMessage", false)
		again := message
		again.Known = 2
		_, err := client.Send(t.Context(), "c", again)
		wantClass(t, err, perigee.ClassUnavailable)
		if !errors.Is(err, ErrUnclear) || len(server.sent) != 1 {
			t.Errorf("%d messages: %v", len(server.sent), err)
		}
	})
	t.Run("it did not arrive", func(t *testing.T) {
		server := newServer()
		client, _ := clientOf(start(server))
		server.drop("SendUserCascadeMessage", false)
		_, err := client.Send(t.Context(), "c", message)
		wantClass(t, err, perigee.ClassUnavailable)
		if !errors.Is(err, ErrUnclear) || server.calls("SendUserCascadeMessage") != 1 {
			t.Errorf("%v: %v", server.requests, err)
		}
	})
	t.Run("the next process has the conversation without it", func(t *testing.T) {
		old, next := newServer(), newServer()
		at, then := start(old), start(next)
		old.drop("SendUserCascadeMessage", false)
		client := moving(at, then)
		if _, err := client.Send(t.Context(), "c", message); err != nil || len(next.sent) != 1 || len(old.sent) != 0 {
			t.Errorf("%d and %d messages: %v", len(old.sent), len(next.sent), err)
		}
	})
	t.Run("the next process has it", func(t *testing.T) {
		old, next := newServer(), newServer()
		at, then := start(old), start(next)
		if _, err := connected(then).Send(t.Context(), "c", message); err != nil {
			t.Fatal(err)
		}
		old.drop("SendUserCascadeMessage", true)
		client := moving(at, then)
		if _, err := client.Send(t.Context(), "c", message); err != nil || len(next.sent) != 1 {
			t.Errorf("%d messages: %v", len(next.sent), err)
		}
	})
	t.Run("the next process lacks the conversation", func(t *testing.T) {
		old, next := newServer(), newServer()
		at, then := start(old), serve(t, next)
		old.drop("SendUserCascadeMessage", true)
		client := moving(at, then)
		_, err := client.Send(t.Context(), "c", message)
		if !errors.Is(err, ErrUnclear) || len(next.sent) != 0 {
			t.Errorf("%d messages: %v", len(next.sent), err)
		}
	})
}

func TestAConversationIsCreatedOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		handle bool
		calls  int
	}{{"it was created", true, 1}, {"it was not created", false, 2}} {
		server := newServer()
		client, _ := clientOf(serve(t, server))
		server.drop("StartCascade", c.handle)
		cascade, err := client.Start(t.Context(), StartOptions{})
		if err != nil || len(server.cascades) != 1 || server.cascades[cascade] == nil {
			t.Errorf("%s: %v, %v", c.name, server.cascades, err)
		}
		if server.calls("StartCascade") != c.calls+map[bool]int{true: 1}[c.handle] { // drop handles the call by calling the server
			t.Errorf("%s: %v", c.name, server.requests)
		}
	}
}

func TestACallHasATimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer()
		c := inBubble(t, server)
		hang := func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client is gone
			<-r.Context().Done()
		}
		server.handle("CancelCascadeInvocation", hang)
		server.handle("GetCascadeTrajectory", hang)
		begun := time.Now()
		err := c.Cancel(t.Context(), "c")
		wantClass(t, err, perigee.ClassUnavailable)
		if took := time.Since(begun); took != defaultLimits.control || !strings.Contains(err.Error(), "CancelCascadeInvocation in time") {
			t.Errorf("%v after %v", err, took)
		}
		begun = time.Now()
		_, err = c.Trajectory(t.Context(), "c")
		wantClass(t, err, perigee.ClassUnavailable)
		if took := time.Since(begun); took != defaultLimits.read {
			t.Errorf("%v after %v", err, took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		server.handle("SendUserCascadeMessage", func(w http.ResponseWriter, r *http.Request) {
			cancel()
			hang(w, r)
		})
		_, err = c.Send(ctx, "c", Message{Text: "hello", Model: "MODEL_PLACEHOLDER_M18"})
		wantClass(t, err, perigee.ClassCanceled)
		if !errors.Is(err, ErrUnclear) {
			t.Error(err)
		}
	})
}

func TestOnlyAnswersUpToALimitAreRead(t *testing.T) {
	server := newServer()
	c := connected(serve(t, server))
	c.limits.answer = 1000
	server.answer("GetCascadeTrajectory", 200, `{"trajectory":{"cascadeId":"`+strings.Repeat("x", 900)+`"}}`)
	if answer, err := c.Trajectory(t.Context(), "c"); err != nil || len(answer.Trajectory.CascadeId) != 900 {
		t.Error(err)
	}
	server.answer("GetCascadeTrajectory", 200, `{"trajectory":{"cascadeId":"`+strings.Repeat("x", 1000)+`"}}`)
	_, err := c.Trajectory(t.Context(), "c")
	wantClass(t, err, perigee.ClassUnavailable)
}

// Some versions answer an offset behind the end with an error.
func TestStepsEndAtAnErrorBehindTheLast(t *testing.T) {
	server := newServer()
	c := connected(serve(t, server))
	server.cascades["c"] = &cascadeRig{steps: []*geminicoder.Step{{Type: 14}, {Type: 15}}}
	generated := server.handler()
	server.handle("GetCascadeTrajectorySteps", func(w http.ResponseWriter, r *http.Request) {
		server.handle("GetCascadeTrajectorySteps", nil)
		generated.ServeHTTP(w, r)
		server.answer("GetCascadeTrajectorySteps", 400, `{"code":"out_of_range","message":"step offset out of range"}`)
	})
	if steps, err := c.Steps(t.Context(), "c", 0); err != nil || len(steps) != 2 {
		t.Error(steps, err)
	}
	_, err := c.Steps(t.Context(), "c", 7)
	wantClass(t, err, perigee.ClassInvalid)
}

// TestAListWithoutAnEndIsNotReadForEver has a server that does not look at the offset.
func TestAListWithoutAnEndIsNotReadForEver(t *testing.T) {
	s := newServer()
	c := connected(serve(t, s))
	c.limits.answer = 100_000
	page := `{"steps":[{"userInput":{"userResponse":"` + strings.Repeat("x", 10_000) + `"}}]}`
	s.answer("GetCascadeTrajectorySteps", 200, page)
	if _, err := c.Steps(t.Context(), "c", 0); err == nil || !strings.Contains(err.Error(), "has no end") {
		t.Errorf("got %v", err)
	}
}
