package server_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/server"
	"perigee/internal/testing/perigeetest"
)

// A script is an Upstream that does what its function says, after it has decoded the request.
type script func(ctx context.Context, yield func(perigee.Event, error) bool)

func (s script) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		if _, err := req.Prompt(); err != nil {
			yield(perigee.Event{}, err)
			return
		}
		s(ctx, yield)
	}
}

var (
	begin = perigee.Event{Kind: perigee.EventStart, Upstream: "scripted", Model: "m"}
	frame = perigee.Event{Kind: perigee.EventFrame, Dialect: perigee.DialectGemini, Frame: []byte(`{"candidates":[]}`)}
	end   = perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}}
)

// serve runs a server over pipes, inside a bubble, with a client for it. It all ends with the test.
func serve(t *testing.T, upstream perigee.Upstream, base context.Context) (*perigeetest.Pipes, *http.Client) {
	t.Helper()
	api := server.New(server.Options{Upstream: upstream, BodyGrace: 5 * time.Second},
		server.Settings{MaxBody: 1 << 20, Loopback: true})
	pipes := perigeetest.NewPipes()
	server := &http.Server{Handler: api, BaseContext: func(net.Listener) context.Context { return base }}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = server.Serve(pipes)
	}()
	transport := &http.Transport{DialContext: pipes.Dial, DisableKeepAlives: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-stopped
	})
	return pipes, &http.Client{Transport: transport}
}

const (
	whole  = "http://localhost/v1beta/models/m:generateContent"
	events = "http://localhost/v1beta/models/m:streamGenerateContent?alt=sse"
	array  = "http://localhost/v1beta/models/m:streamGenerateContent"
)

func post(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Post(url, "application/json", strings.NewReader(`{"contents":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		body = fmt.Append(body, "!", err)
	}
	return resp, string(body)
}

// quietFor does nothing for a while, in a bubble.
func quietFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func TestQuietStreamIsKeptAlive(t *testing.T) {
	upstream := script(func(ctx context.Context, yield func(perigee.Event, error) bool) {
		if quietFor(ctx, 20*time.Second); !yield(begin, nil) || !yield(frame, nil) {
			return
		}
		if quietFor(ctx, 31*time.Second); yield(frame, nil) {
			yield(end, nil)
		}
	})
	tests := []struct{ name, url, want string }{
		{"events", events, "data: {}\r\n\r\n" +
			"data: {\"candidates\":[]}\r\n\r\n" +
			"data: {}\r\n\r\ndata: {}\r\n\r\n" +
			"data: {\"candidates\":[]}\r\n\r\n"},
		{"array", array, "[\n{\"candidates\":[]}\n\n,\r\n{\"candidates\":[]}]\r\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, client := serve(t, upstream, t.Context())
				start := time.Now()
				resp, body := post(t, client, test.url)
				if resp.StatusCode != http.StatusOK || body != test.want {
					t.Errorf("got %d %q\nwant %q", resp.StatusCode, body, test.want)
				}
				if took := time.Since(start); took != 51*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// An error after a keep-alive cannot be a status any more: it is an event.
func TestErrorAfterKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := script(func(ctx context.Context, yield func(perigee.Event, error) bool) {
			quietFor(ctx, 16*time.Second)
			yield(perigee.Event{}, perigee.Errorf(perigee.ClassCapacity, "no room"))
		})
		_, client := serve(t, upstream, t.Context())
		resp, body := post(t, client, events)
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(body, "data: {}\r\n\r\ndata: {\"error\":{\"code\":503,") {
			t.Errorf("got %d %q", resp.StatusCode, body)
		}
	})
}

// A stream that breaks off ends with the error as an event and then, in a chunk of its own, as a
// bare object: libraries that ignore the event read the second chunk as an error. An array stays
// open.
func TestBrokenStreamCannotBeTakenForComplete(t *testing.T) {
	upstream := script(func(_ context.Context, yield func(perigee.Event, error) bool) {
		if yield(begin, nil) && yield(frame, nil) {
			yield(perigee.Event{}, perigee.Errorf(perigee.ClassUnavailable, "it broke"))
		}
	})
	object := string(gemini.EncodeError(http.StatusServiceUnavailable, perigee.Errorf(perigee.ClassUnavailable, "it broke")))
	chunk := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
	for _, test := range []struct{ name, query, want string }{
		{"events", "?alt=sse", chunk("data: {\"candidates\":[]}\r\n\r\n") + chunk("data: "+object+"\r\n\r\n") + chunk(object) +
			"0\r\n\r\n"},
		{"array", "", chunk("[{\"candidates\":[]}") + chunk(",\r\n"+object) + "0\r\n\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pipes, _ := serve(t, upstream, t.Context())
			conn, err := pipes.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			go func() {
				_, _ = fmt.Fprintf(conn, "POST /v1beta/models/m:streamGenerateContent%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 15\r\n\r\n{\"contents\":[]}", test.query)
			}()
			answer, _ := io.ReadAll(conn)
			if _, body, _ := strings.Cut(string(answer), "\r\n\r\n"); body != test.want {
				t.Errorf("got  %q\nwant %q", body, test.want)
			}
		})
	}
}

func TestSlowBodyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := false
		upstream := script(func(context.Context, func(perigee.Event, error) bool) { asked = true })
		pipes, _ := serve(t, upstream, t.Context())
		conn, err := pipes.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = io.WriteString(conn, "POST /v1beta/models/m:generateContent HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
			for range 1000 {
				if _, err := io.WriteString(conn, " "); err != nil {
					return // the server has hung up
				}
				<-time.After(time.Second)
			}
		}()
		start := time.Now()
		answer, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") || !strings.Contains(string(answer), `"status":"INVALID_ARGUMENT"`) {
			t.Errorf("got %q", answer)
		}
		if took := time.Since(start); took < 5*time.Second || took > 7*time.Second {
			t.Errorf("it took %v to give up", took)
		}
		if asked {
			t.Error("the upstream was asked")
		}
		_ = conn.Close()
		<-sent
	})
}

func TestPanicIsAnAnswer(t *testing.T) {
	panics := script(func(_ context.Context, yield func(perigee.Event, error) bool) { panic("boom") })
	halfway := script(func(_ context.Context, yield func(perigee.Event, error) bool) {
		if yield(begin, nil) && yield(frame, nil) {
			panic("boom")
		}
	})
	tests := []struct {
		name     string
		upstream script
		url      string
		status   int
		want     string
	}{
		{"whole", panics, whole, http.StatusInternalServerError, `"status":"INTERNAL"`},
		{"stream", panics, events, http.StatusInternalServerError, `"status":"INTERNAL"`},
		{"in the middle", halfway, events, http.StatusOK, "data: {\"candidates\":[]}\r\n\r\n!unexpected EOF"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, client := serve(t, test.upstream, t.Context())
				for range 2 { // the second time shows that the server lives
					resp, body := post(t, client, test.url)
					if resp.StatusCode != test.status || !strings.Contains(body, test.want) || strings.Contains(body, "boom") {
						t.Errorf("got %d %q", resp.StatusCode, body)
					}
				}
			})
		})
	}
}

// When the daemon stops waiting, an open answer ends with an event that says so.
func TestShutdownIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		upstream := script(func(ctx context.Context, yield func(perigee.Event, error) bool) {
			if yield(begin, nil) && yield(frame, nil) {
				<-ctx.Done()
				yield(perigee.Event{}, ctx.Err())
			}
		})
		_, client := serve(t, upstream, base)
		time.AfterFunc(time.Second, func() { cancel(server.ErrShutdown) })
		_, body := post(t, client, events)
		if want := `data: {"error":{"code":503,"message":"perigee is shutting down`; !strings.Contains(body, want) {
			t.Errorf("got %q", body)
		}
	})
}

// A client that hangs up ends the call, and the key's place is free again.
func TestGoneClientEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan error, 1)
		upstream := script(func(ctx context.Context, yield func(perigee.Event, error) bool) {
			if yield(begin, nil) && yield(frame, nil) {
				<-ctx.Done()
				gone <- ctx.Err()
			}
		})
		_, client := serve(t, upstream, t.Context())
		resp, err := client.Post(events, "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the call ended with %v", err)
		}
	})
}

func TestGiganticHeadIsRefused(t *testing.T) {
	tests := []struct{ name, path, version, want string }{
		{"Gemini", "/v1beta/models", "", `"status":"INVALID_ARGUMENT"`},
		{"OpenAI", "/v1/models", "", `"type":"invalid_request_error","param":null`},
		{"Anthropic", "/v1/models", "2023-06-01", `{"type":"error","error":{"type":"invalid_request_error"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, client := serve(t, script(nil), t.Context())
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+test.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("X-Large", strings.Repeat("x", 100<<10))
				if test.version != "" {
					req.Header.Set("Anthropic-Version", test.version)
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				body, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge || !strings.Contains(string(body), test.want) {
					t.Errorf("got %d %s", resp.StatusCode, body)
				}
			})
		})
	}
}

// A few kilobytes of gzip that hold megabytes are read in linear time, and within the limit on what
// comes out.
func TestCompressedBodies(t *testing.T) {
	inside := []byte(`{"contents":[` + strings.Repeat(`{"role":"user","parts":[]},`, 200_000) + `{}]}`)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(inside)
	_ = z.Close()
	for _, c := range []struct {
		limit int64
		want  int
	}{{int64(len(inside)), http.StatusOK}, {int64(len(inside)) - 1, http.StatusRequestEntityTooLarge}} {
		settings := server.Settings{MaxBody: c.limit, Loopback: true}
		server := httptest.NewServer(server.New(server.Options{Upstream: answering{}}, settings))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1beta/models/m:generateContent",
			bytes.NewReader(packed.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Encoding", "gzip")
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("limit %d: %s", c.limit, resp.Status)
		}
		server.Close()
	}
}

// A refusal is sent at once, also when the body that was announced never comes.
func TestRefusalsDoNotWaitForTheBody(t *testing.T) {
	settings := server.Settings{MaxBody: 1 << 20, Loopback: true,
		Keys: []server.Key{{Name: "k", Secret: perigee.NewSecret("right-key")}}}
	server := httptest.NewServer(server.New(server.Options{Upstream: answering{}, BodyGrace: time.Hour}, settings))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1beta/models/m:generateContent HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nx-api-key: wrong-key\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized || !resp.Close {
		t.Errorf("%s, close %v", resp.Status, resp.Close)
	}
}

// A key that is good is good, whatever else the client sends along.
func TestAnExpiredKeyBesideAGoodOne(t *testing.T) {
	settings := server.Settings{MaxBody: 1 << 20, Loopback: true, Keys: []server.Key{
		{Name: "new", Secret: perigee.NewSecret("new-secret")},
		{Name: "old", Secret: perigee.NewSecret("old-secret"), Expires: time.Unix(1, 0)},
	}}
	server := httptest.NewServer(server.New(server.Options{Upstream: answering{}}, settings))
	defer server.Close()
	for _, headers := range []map[string]string{
		{"Authorization": "Bearer new-secret", "X-Goog-Api-Key": "old-secret"},
		{"Authorization": "Bearer old-secret", "X-Goog-Api-Key": "new-secret"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1beta/models/m:generateContent",
			strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range headers {
			req.Header.Set(name, value)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%v: %s", headers, resp.Status)
		}
	}
}

// answering is an upstream that always says ok.
type answering struct{}

func (answering) Stream(context.Context, *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		_ = yield(perigee.Event{Kind: perigee.EventText, Text: "ok"}, nil) &&
			yield(perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}}, nil)
	}
}

// Errors about perigee's own parts reach the owner, over the socket, and the log, but not clients.
func TestClientsAreNotToldOfTheHouse(t *testing.T) {
	away := perigee.Errorf(perigee.ClassUnavailable, "sum up usage in postgres://10.0.0.7/perigee: connection refused").
		WithHint("start PostgreSQL")
	away.Public = "perigee cannot use its database at the moment"
	var log strings.Builder
	s := server.New(server.Options{Usage: noUsage{away}, Logger: slog.New(slog.NewTextHandler(&log, nil))}, server.Settings{})
	for _, test := range []struct {
		handler http.Handler
		owner   bool
	}{{s, false}, {s.Trusted(), true}} {
		w := httptest.NewRecorder()
		test.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/v1/usage", nil))
		if told := strings.Contains(w.Body.String(), "10.0.0.7"); w.Code != http.StatusServiceUnavailable || told != test.owner {
			t.Errorf("owner %v: %d %s", test.owner, w.Code, w.Body)
		}
	}
	if !strings.Contains(log.String(), "10.0.0.7") {
		t.Errorf("the log does not say it: %s", log.String())
	}
	for hint, want := range map[string]string{"": "at the moment; try again; perigee's log has the reason", "start it": "at the moment; start it"} {
		away.PublicHint = hint
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/v1/usage", nil))
		if !strings.Contains(w.Body.String(), want+`"`) {
			t.Errorf("hint %q: %s", hint, w.Body)
		}
	}
}

type noUsage struct{ err error }

func (n noUsage) Usage(context.Context, perigee.UsageQuery) ([]perigee.UsageRow, error) {
	return nil, n.err
}
