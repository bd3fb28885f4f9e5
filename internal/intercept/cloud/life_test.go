package cloud

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// both runs a test with a language server that speaks HTTP/1.1, and with one that speaks HTTP/2.
func both(t *testing.T, cloud func(t *testing.T) http.HandlerFunc, test func(r *rig)) {
	t.Run("HTTP/1.1", func(t *testing.T) { test(newCallRig(t, cloud(t))) })
	t.Run("HTTP/2", func(t *testing.T) { test(newCallRig(t, cloud(t)).overHTTP2()) })
}

// waits answers with one event, and then waits until the request is given up. The channel of the
// rig's test is closed then.
func waits(ended chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		events(hello)(w, req)
		<-req.Context().Done()
		ended <- struct{}{}
	}
}

// open starts a call, and returns when the client has its header.
func (r *rig) open(ctx context.Context) (*http.Response, <-chan copied) {
	r.Helper()
	e := r.calls.Expect(ctx, cascade, Call{Request: []byte(`{}`)})
	got := r.carrier(native(agentID(cascade)))
	await.Receive(r.T, e.Taken(), "the request of the language server")
	response, err := answerOf(r.T, e)
	if err != nil {
		r.Fatal(err)
	}
	e.Cancel() // does nothing any more
	return response, got
}

func firstLine(t *testing.T, r io.Reader) string {
	t.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	return line
}

// A client that leaves ends the stream of the provider at once, and the language server does not
// take its part for the whole.
func TestClientLeaves(t *testing.T) {
	ended := make(chan struct{}, 1)
	for name, leave := range map[string]func(response *http.Response, cancel func()){
		"by closing the body": func(response *http.Response, _ func()) { _ = response.Body.Close() },
		"by its context":      func(_ *http.Response, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(*testing.T) http.HandlerFunc { return waits(ended) }, func(r *rig) {
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				response, got := r.open(ctx)
				defer response.Body.Close()
				if line := firstLine(r.T, response.Body); line != "data: "+hello+"\r\n" {
					r.Errorf("got %q", line)
				}
				leave(response, cancel)
				await.Receive(r.T, ended, "the end of the provider's stream")
				if ls := await.Receive(r.T, got, "the end for the language server"); ls.err == nil {
					r.Errorf("the language server got %+v, complete", ls)
				}
				if _, err := response.Body.Read(make([]byte, 1)); err == nil || err == io.EOF {
					r.Errorf("the rest can still be read: %v", err)
				}
			})
		})
	}
}

// An answer that comes when the call is canceled already is not returned, and the provider is left.
func TestAnswerThatComesTooLate(t *testing.T) {
	ended := make(chan struct{}, 1)
	r := newCallRig(t, waits(ended))
	e := r.calls.Expect(t.Context(), cascade, Call{Request: []byte(`{}`)})
	got := r.carrier(native(agentID(cascade)))
	await.Receive(t, e.done, "the answer")
	e.Cancel()
	if response, err := answerOf(t, e); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", response, err)
	}
	await.Receive(t, ended, "the end of the provider's stream")
	if ls := await.Receive(t, got, "the end for the language server"); ls.err == nil {
		t.Errorf("the language server got %+v", ls)
	}
}

// A client can leave before the cloud has answered.
func TestClientLeavesEarly(t *testing.T) {
	asked, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	for name, leave := range map[string]func(e *Expected, cancel func()){
		"by Cancel":      func(e *Expected, _ func()) { e.Cancel(); e.Cancel() },
		"by its context": func(_ *Expected, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(*testing.T) http.HandlerFunc {
				return func(_ http.ResponseWriter, req *http.Request) {
					asked <- struct{}{}
					<-req.Context().Done()
					ended <- struct{}{}
				}
			}, func(r *rig) {
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				e := r.calls.Expect(ctx, cascade, Call{Request: []byte(`{}`)})
				got := r.carrier(native(agentID(cascade)))
				await.Receive(r.T, e.Taken(), "the request of the language server")
				await.Receive(r.T, asked, "the request to the cloud")
				leave(e, cancel)
				await.Receive(r.T, ended, "the end of the request")
				if _, err := answerOf(r.T, e); !errors.Is(err, context.Canceled) {
					r.Errorf("got %v", err)
				}
				if ls := await.Receive(r.T, got, "the end for the language server"); ls.err == nil {
					r.Errorf("the language server got %+v", ls)
				}
			})
		})
	}
}

// The death of the language server does not end an answer: after its request was taken the client
// needs it no more.
func TestLanguageServerLeaves(t *testing.T) {
	for name, early := range map[string]bool{"before the answer": true, "within the answer": false} {
		t.Run(name, func(t *testing.T) {
			var left chan struct{}
			both(t, func(t *testing.T) http.HandlerFunc {
				left = make(chan struct{})
				wait := left
				return func(w http.ResponseWriter, req *http.Request) {
					if !early {
						events(hello)(w, req)
					}
					select {
					case <-wait:
					case <-req.Context().Done():
						t.Error("the request of the client was given up")
					}
					if early {
						w.Header().Set("Content-Type", "text/event-stream")
					}
					for range 3 {
						_, _ = io.WriteString(w, "data: "+calling+"\r\n\r\n")
						_ = http.NewResponseController(w).Flush()
					}
				}
			}, func(r *rig) {
				ctx, die := context.WithCancel(r.Context())
				defer die()
				e := r.calls.Expect(r.Context(), cascade, Call{Request: []byte(`{}`)})
				dead := make(chan struct{})
				go func() {
					defer close(dead)
					response, err := r.send(ctx, streamPath, native(agentID(cascade)))
					if err == nil {
						_, _ = io.Copy(io.Discard, response.Body)
						response.Body.Close()
					}
				}()
				await.Receive(r.T, e.Taken(), "the request of the language server")
				want := strings.Repeat("data: "+calling+"\r\n\r\n", 3)
				if early {
					die()
					await.Receive(r.T, dead, "the end of the language server")
					close(left)
				}
				response, err := answerOf(r.T, e)
				if err != nil {
					r.Fatal(err)
				}
				defer response.Body.Close()
				body := bufio.NewReader(response.Body)
				if !early {
					want = "data: " + hello + "\r\n\r\n" + want
					if _, err := body.Peek(1); err != nil {
						r.Error(err)
					}
					die()
					await.Receive(r.T, dead, "the end of the language server")
					close(left)
				}
				if !early {
					await.Receive(r.T, r.finished, "the end for the language server")
				}
				if text, err := io.ReadAll(body); err != nil || string(text) != want {
					r.Errorf("the client got %v %s", err, text)
				}
				if !early && len(e.answer.backlog) > 0 {
					r.Errorf("%d bytes are kept for the language server", len(e.answer.backlog))
				}
			})
		})
	}
}

// A stream that breaks off in the cloud does not look complete to either side.
func TestProviderBreaksOff(t *testing.T) {
	for name, cloud := range map[string]http.HandlerFunc{
		"without the last chunk": func(w http.ResponseWriter, req *http.Request) {
			events(hello)(w, req)
			panic(http.ErrAbortHandler)
		},
		"before its length": func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Length", "5000")
			events(hello)(w, req)
		},
		"within gzip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "gzip")
			text := zip("data: " + hello + "\r\n\r\n")
			_, _ = io.WriteString(w, text[:len(text)-4])
		},
		"within one piece": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, hello[:20])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(*testing.T) http.HandlerFunc { return cloud }, func(r *rig) {
				response, got := r.open(r.Context())
				defer response.Body.Close()
				if text, err := io.ReadAll(response.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
					r.Errorf("the client got %v %s", err, text)
				}
				if ls := await.Receive(r.T, got, "the end for the language server"); ls.err == nil {
					r.Errorf("the language server got %+v, complete", ls)
				}
			})
		})
	}
}

// The language server never slows the client down: it follows at most 8 MiB behind, and is cut off
// then.
func TestSlowLanguageServer(t *testing.T) {
	const pieces, size = 48, 1 << 20
	event := "data: {\"text\":\"" + strings.Repeat("a", size) + "\"}\r\n\r\n"
	both(t, func(*testing.T) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range pieces {
				_, _ = io.WriteString(w, event)
			}
		}
	}, func(r *rig) {
		e := r.calls.Expect(r.Context(), cascade, Call{Request: []byte(`{}`)})
		stopped := make(chan *http.Response, 1)
		go func() {
			response, _ := r.send(r.Context(), streamPath, native(agentID(cascade)))
			stopped <- response // which is not read; nil means it was cut off before its header
		}()
		response, err := answerOf(r.T, e)
		if err != nil {
			r.Fatal(err)
		}
		defer response.Body.Close()
		n, err := io.Copy(io.Discard, response.Body)
		if err != nil || n != int64(pieces*len(event)) {
			r.Errorf("the client got %d bytes, %v", n, err)
		}
		await.Receive(r.T, r.finished, "the end for the language server, although it does not read")
		if ls := await.Receive(r.T, stopped, "the header for the language server, or its end"); ls != nil {
			defer ls.Body.Close()
			if n, err := io.Copy(io.Discard, ls.Body); err == nil {
				r.Errorf("the language server got %d bytes, complete", n)
			}
		}
	})
}

// A call is carried once: while its answer comes, another request of the same cascade is answered
// here.
func TestOneRequestForEachCall(t *testing.T) {
	ended := make(chan struct{}, 1)
	r := newCallRig(t, waits(ended))
	response, got := r.open(t.Context())
	for range 2 {
		if ls := await.Receive(t, r.carrier(native(agentID(cascade))), "the second answer"); ls.status != http.StatusOK || !strings.Contains(ls.body, `"text":""`) {
			t.Errorf("got %+v", ls)
		}
	}
	_ = response.Body.Close()
	await.Receive(t, ended, "the end of the provider's stream")
	await.Receive(t, got, "the end for the language server")
	if n := len(r.requests()); n != 1 {
		t.Errorf("%d requests reached the cloud", n)
	}
}

// The client decides the pace: a language server that reads fast gets nothing that the client has
// not read.
func TestClientDecidesThePace(t *testing.T) {
	more := make(chan struct{})
	r := newCallRig(t, func(w http.ResponseWriter, req *http.Request) {
		events(hello)(w, req)
		<-more
		events(calling)(w, req)
	})
	response, got := r.open(t.Context())
	defer response.Body.Close()
	buffer := make([]byte, 4096)
	n, err := response.Body.Read(buffer) // the event is passed on before the next one is there
	if err != nil || !strings.Contains(string(buffer[:n]), "hello") {
		t.Errorf("got %q, %v", buffer[:n], err)
	}
	close(more)
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
	if ls := await.Receive(t, got, "the answer"); ls.err != nil || !strings.HasSuffix(ls.body, "\r\n\r\n") || strings.Count(ls.body, "data: ") != 2 {
		t.Errorf("the language server got %+v", ls)
	}
}

// Requests and answers may be compressed. The client gets the text, and so does the language
// server.
func TestCompression(t *testing.T) {
	text := "data: " + hello + "\r\n\r\n"
	for _, encoding := range []string{"", "identity", "gzip", "br"} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, chunked %v", encoding, chunked), func(t *testing.T) {
				encode := map[string]func(string) string{"gzip": zip, "br": brot}[encoding]
				if encode == nil {
					encode = func(s string) string { return s }
				}
				r := newCallRig(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					if encoding != "" {
						w.Header().Set("Content-Encoding", encoding)
					}
					_, _ = io.WriteString(w, encode(text))
				})
				e := r.calls.Expect(t.Context(), cascade, Call{Model: "m", Request: []byte(`{"contents":[]}`)})
				body := io.Reader(strings.NewReader(encode(native(agentID(cascade)))))
				if chunked {
					body = io.MultiReader(body)
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.base+streamPath, body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				if encoding != "" {
					req.Header.Set("Content-Encoding", encoding)
				}
				got := make(chan string, 1)
				go func() {
					response, err := r.agent.Do(req)
					if err != nil {
						got <- err.Error()
						return
					}
					defer response.Body.Close()
					all, err := io.ReadAll(response.Body)
					got <- fmt.Sprintf("%s%s %v", response.Header.Get("Content-Encoding"), all, err)
				}()
				response, err := answerOf(t, e)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				if all, err := io.ReadAll(response.Body); err != nil || string(all) != text || encoding != "identity" && response.Header.Get("Content-Encoding") != "" {
					t.Errorf("the client got %q, %v, %v", all, err, response.Header)
				}
				if ls := await.Receive(t, got, "the answer"); strings.TrimPrefix(ls, "identity") != text+" <nil>" {
					t.Errorf("the language server got %q", ls)
				}
				s := r.requests()[0]
				if !strings.Contains(s.body, `"request":{"contents":[],`) || s.header.Get("Content-Encoding") != "" || s.length != int64(len(s.body)) {
					t.Errorf("the cloud got %+v", s)
				}
			})
		}
	}
}

func TestAnswerInAnotherEncoding(t *testing.T) {
	r := newCallRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "zstd")
		_, _ = io.WriteString(w, "\x28\xb5\x2f\xfd")
	})
	e := r.calls.Expect(t.Context(), cascade, Call{Request: []byte(`{}`)})
	got := r.carrier(native(agentID(cascade)))
	if _, err := answerOf(t, e); perigee.AsError(err).Class != perigee.ClassUnavailable || !strings.Contains(err.Error(), "zstd") {
		t.Errorf("got %v", err)
	}
	if ls := await.Receive(t, got, "the answer"); ls.status != http.StatusServiceUnavailable {
		t.Errorf("the language server got %+v", ls)
	}
}

func TestCloudThatCannotBeReached(t *testing.T) {
	r := newCallRig(t, nil, func(o *Options) { o.Cloud = "http://127.0.0.1:1" })
	e := r.calls.Expect(t.Context(), cascade, Call{Request: []byte(`{}`)})
	got := r.carrier(native(agentID(cascade)))
	_, err := answerOf(t, e)
	if c := perigee.AsError(err); c.Class != perigee.ClassUnavailable || strings.Contains(c.Public, "127.0.0.1") || c.Public == "" {
		t.Errorf("got %#v", err)
	}
	if ls := await.Receive(t, got, "the answer"); ls.status != http.StatusServiceUnavailable || !strings.Contains(ls.body, "UNAVAILABLE") {
		t.Errorf("the language server got %+v", ls)
	}
}

// One call waits for a cascade at a time, and each gets one request.
func TestWaiting(t *testing.T) {
	r := newCallRig(t, events(hello))
	first := r.calls.Expect(t.Context(), cascade, Call{Request: []byte(`{"contents":["first"]}`)})
	second := r.calls.Expect(t.Context(), cascade, Call{Request: []byte(`{"contents":["second"]}`)})
	if _, err := answerOf(t, first); perigee.AsError(err).Class != perigee.ClassUnavailable {
		t.Errorf("the first call got %v", err)
	}
	first.Cancel() // has nothing to do with the second
	got := r.carrier(native(agentID(cascade)))
	response, err := answerOf(t, second)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := answerOf(t, second); again != response || err != nil {
		t.Errorf("asked again: %v", err)
	}
	if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), "hello") {
		t.Errorf("the second call got %s, %v", text, err)
	}
	await.Receive(t, got, "the answer")
	if body := r.requests()[0].body; !strings.Contains(body, `["second"]`) {
		t.Errorf("the cloud got %s", body)
	}
	if n := len(r.calls.waiting); n != 0 {
		t.Errorf("%d calls still wait", n)
	}

	for _, request := range []string{"", "null", `[]`, `{"a":1,"a":2}`, `{`} {
		if _, err := answerOf(t, r.calls.Expect(t.Context(), cascade, Call{Request: []byte(request)})); perigee.AsError(err).Class != perigee.ClassInternal {
			t.Errorf("%q: got %v", request, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	late := r.calls.Expect(ctx, cascade, Call{Request: []byte(`{}`)})
	if _, err := answerOf(t, late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if ls := await.Receive(t, r.carrier(native(agentID(cascade))), "the answer"); !strings.Contains(ls.body, `"text":""`) || len(r.requests()) != 1 {
		t.Errorf("the request after that was answered with %+v", ls)
	}
}

// Many calls at once get their own answers.
func TestManyCallsAtOnce(t *testing.T) {
	r := newCallRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"text\":\""+req.Header.Get("X-Cascade")+"\"}\n\n")
	})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			id := fmt.Sprintf("cascade-%d", i)
			e := r.calls.Expect(t.Context(), id, Call{Model: id, Request: []byte(`{}`)})
			got := r.carrier(native(agentID(id)), "X-Cascade", id)
			response, err := e.Wait()
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			want := "data: {\"text\":\"" + id + "\"}\n\n"
			if text, err := io.ReadAll(response.Body); err != nil || string(text) != want {
				t.Errorf("%s got %s, %v", id, text, err)
			}
			if ls := <-got; ls.body != want {
				t.Errorf("%s: the language server got %+v", id, ls)
			}
		})
	}
	await.Return(t, all.Wait, "the calls")
	for _, s := range r.requests() {
		if !strings.Contains(s.body, `"model":"`+s.header.Get("X-Cascade")+`"`) {
			t.Errorf("the cloud got %s", s.body)
		}
	}
}

// 200 streams that are left leave nothing behind; TestMain looks for goroutines.
func TestManyStreamsThatAreLeft(t *testing.T) {
	ended := make(chan struct{}, 200)
	both(t, func(*testing.T) http.HandlerFunc { return waits(ended) }, func(r *rig) {
		for range 100 {
			response, got := r.open(r.Context())
			firstLine(r.T, response.Body)
			_ = response.Body.Close()
			await.Receive(r.T, ended, "the end of the provider's stream")
			await.Receive(r.T, got, "the end for the language server")
		}
		r.calls.mu.Lock()
		defer r.calls.mu.Unlock()
		if n := len(r.calls.waiting); n != 0 {
			r.Errorf("%d calls still wait", n)
		}
	})
}

// Without the address of a cloud a request goes to the host of its own URL, as that of a proxy
// does.
func TestRequestsGoWhereTheyWereSent(t *testing.T) {
	r := newCallRig(t, events(hello))
	h, err := New(Options{Calls: r.calls, Transport: r.transport})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), h); err == nil {
		t.Error("an endpoint without a cloud")
	}
	proxy := httptestServer(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Host") != "" {
			req.URL.Scheme, req.URL.Host = "http", req.Header.Get("X-Host")
		}
		h.ServeHTTP(w, req)
	})
	r.base = proxy
	host := strings.TrimPrefix(r.cloud.URL, "http://")
	e := r.calls.Expect(t.Context(), cascade, Call{Model: "m", Request: []byte(`{}`)})
	got := r.carrier(native(agentID(cascade)), "X-Host", host)
	response, err := answerOf(t, e)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	await.Receive(t, got, "the first answer")
	await.Receive(t, r.carrier(native("checkpoint/1"), "X-Host", host), "the second answer")
	if n := len(r.requests()); n != 2 {
		t.Errorf("the cloud got %d requests", n)
	}
	if got := await.Receive(t, r.carrier(native("checkpoint/1")), "the third answer"); got.status != http.StatusBadRequest {
		t.Errorf("without a host: %+v", got)
	}
}
