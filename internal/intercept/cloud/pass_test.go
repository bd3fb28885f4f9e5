package cloud

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// expectNothing returns a call that waits, and that must still do so at the end of the test.
func (r *rig) expectNothing() *Expected {
	r.Helper()
	ctx := context.WithoutCancel(r.Context()) // which ends before the cleanup
	e := r.calls.Expect(ctx, cascade, Call{Model: "m", Request: []byte(`{}`)})
	r.Cleanup(func() {
		select {
		case <-e.Taken():
			r.Error("the waiting call was taken")
		case <-e.done:
			r.Errorf("the waiting call failed: %v", e.err)
		default:
		}
		e.Cancel()
	})
	return e
}

// Every other endpoint, and every other use of the model, passes untouched, byte for byte and in
// both directions.
func TestRequestsThatPass(t *testing.T) {
	const binary = "\x0a\x03abc\x10\x96\x01\x00\xff"
	id := agentID(cascade)
	type row struct{ name, path, kind, body string }
	rows := []row{
		{"a checkpoint", streamPath, "application/json", strings.Replace(native("checkpoint/"+cascade), `"requestType":"agent"`, `"requestType":"checkpoint"`, 1)},
		{"a completion", streamPath, "application/json", strings.Replace(native("tab/"+cascade+"/1"), `"requestType":"agent"`, `"requestType":"tab"`, 1)},
		{"a chat", streamPath, "application/json", native("chat/" + cascade + "/1/2/3")},
		{"another type with the id of an agent", streamPath, "application/json", strings.Replace(native(id), `"requestType":"agent"`, `"requestType":"checkpoint"`, 1)},
		{"a type that is no text", streamPath, "application/json", strings.Replace(native(id), `"requestType":"agent"`, `"requestType":{"agent":1}`, 1)},
		{"a cascade of the user", streamPath, "application/json", native(agentID("another"))},
		{"no cascade", streamPath, "application/json", native("agent//1/2/3")},
		{"an id without its end", streamPath, "application/json", native("agent/" + cascade)},
		{"an id that is a number", streamPath, "application/json", strings.Replace(native(id), `"`+id+`"`, `17`, 1)},
		{"an id that is an object", streamPath, "application/json", strings.Replace(native(id), `"`+id+`"`, `{"a":"`+id+`"}`, 1)},
		{"an id in the request", streamPath, "application/json", strings.Replace(native("x"), `"sessionId":`, `"requestId":"`+id+`","sessionId":`, 1)},
		{"two ids", streamPath, "application/json", strings.Replace(native(id), `"project":`, `"requestId":"agent/another/1/2/3","project":`, 1)},
		{"two ids, one escaped", streamPath, "application/json", strings.Replace(native(id), `"project":`, `"request\u0049d":"agent/another/1/2/3","project":`, 1)},
		{"an array", streamPath, "application/json", "[" + native(id) + "]"},
		{"nesting without end", streamPath, "application/json", strings.Repeat("[", 100_000)},
		{"an object without end", streamPath, "application/json", strings.Repeat(`{"a":`, 100_000)},
		{"an empty body", streamPath, "application/json", ""},
		{"no JSON", streamPath, "application/json", "\x00\xff\xfe"},
		{"countTokens", "/v1internal:countTokens", "application/json", native(id)},
	}
	for _, method := range []string{"fetchUserInfo", "loadCodeAssist", "onboardUser", "fetchAvailableModels", "retrieveUserQuotaSummary", "recordCodeAssistMetrics", "recordTrajectoryAnalytics",
		"listExperiments", "cascadeNuxes", "recordClientEvent"} {
		for _, kind := range []string{"application/x-protobuf", "application/proto", "application/connect+proto", "application/grpc"} {
			rows = append(rows, row{method + " in " + kind, "/v1internal:" + method, kind, binary})
		}
		rows = append(rows, row{method + " in JSON", "/v1internal:" + method, "application/json", native(id)})
	}
	reply := strings.Repeat("\x00\xffreply", 1000)
	r := newCallRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", req.Header.Get("Content-Type"))
		w.Header()["X-Two"] = []string{"a", "b"}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, reply)
	})
	r.expectNothing()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			before := len(r.requests())
			response, err := r.send(t.Context(), c.path, c.body, "Content-Type", c.kind, "Accept-Encoding", "gzip, br")
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			got, err := io.ReadAll(response.Body)
			if err != nil || string(got) != reply || response.StatusCode != http.StatusAccepted || !slices.Equal(response.Header["X-Two"], []string{"a", "b"}) {
				t.Errorf("got %d, %d bytes, %v, %v", response.StatusCode, len(got), response.Header, err)
			}
			if len(r.requests()) != before+1 {
				t.Fatalf("%d requests reached the cloud", len(r.requests())-before)
			}
			if s := r.requests()[before]; s.body != c.body || s.uri != c.path || s.header.Get("Content-Type") != c.kind || s.header.Get("Accept-Encoding") != "gzip, br" || s.length != int64(len(c.body)) {
				t.Errorf("the cloud got %+v", s)
			}
		})
	}
}

// A request of a cascade of ours that no call waits for is answered without the cloud, in the form
// that was asked for.
func TestRequestsThatNoCallWaitsFor(t *testing.T) {
	r := newCallRig(t, func(http.ResponseWriter, *http.Request) { t.Error("the cloud was called") })
	r.calls.Own(cascade)
	const empty = `{"response":{"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP","index":0}],` +
		`"usageMetadata":{"promptTokenCount":0,"candidatesTokenCount":0,"totalTokenCount":0},"modelVersion":"gemini-native"}}`
	for _, c := range []struct{ path, kind, want string }{
		{streamPath, "text/event-stream", "data: " + empty + "\r\n\r\n"},
		{"/v1internal:streamGenerateContent", "application/json", "[" + empty + "]"},
		{"/v1internal:generateContent", "application/json", empty},
	} {
		for range 2 { // also when it asks again
			got := await.Receive(t, r.carrierOn(c.path, native(agentID(cascade))), "the answer")
			if got.err != nil || got.status != http.StatusOK || got.header.Get("Content-Type") != c.kind || got.body != c.want {
				t.Errorf("%s: got %+v", c.path, got)
			}
		}
	}
}

// The cascades of ours that were used last are remembered.
func TestOwnCascadesAreBounded(t *testing.T) {
	calls := NewCalls()
	calls.Own("used")
	calls.Own("unused")
	for i := range maxOwn - 1 {
		calls.Own(string(rune('a'+i%26)) + strings.Repeat("x", i))
		if _, own := calls.take("used"); !own {
			t.Fatalf("forgotten after %d others", i)
		}
	}
	if _, own := calls.take("unused"); own || calls.own.Len() != maxOwn {
		t.Errorf("%d are remembered", calls.own.Len())
	}
}

func TestBodiesOfBinaryFormats(t *testing.T) {
	for _, kind := range []string{"application/x-protobuf", "application/proto", "application/connect+proto", "application/grpc", "application/grpc-web+proto", ""} {
		r := newCallRig(t, func(http.ResponseWriter, *http.Request) {})
		e := r.calls.Expect(t.Context(), cascade, Call{Request: []byte(`{}`)})
		other := r.calls.Expect(t.Context(), "other", Call{Request: []byte(`{}`)})
		if got := await.Receive(t, r.carrier("\x0a\x01\x00", "Content-Type", kind), "the answer"); got.status != http.StatusOK || r.requests()[0].body != "\x0a\x01\x00" {
			t.Errorf("%s: got %+v, the cloud got %+v", kind, got, r.requests())
		}
		if len(r.calls.waiting) != 2 {
			t.Errorf("%s: %d calls wait", kind, len(r.calls.waiting))
		}
		for _, call := range []*Expected{e, other} {
			call.Cancel() // the language server has ended its turn
			if _, err := answerOf(t, call); perigee.AsError(err).Class != perigee.ClassUnimplemented || !strings.Contains(err.Error(), "format") ||
				!strings.Contains(perigee.AsError(err).Hint, "kind antigravity") {
				t.Errorf("%s: got %v", kind, err)
			}
		}
	}
}

// Requests that cannot be changed end no call: one that gets its request later is carried, one
// whose client leaves ends so, and requests without a token of the language server say nothing
// about it.
func TestDoubtsEndNoCall(t *testing.T) {
	own := func(o *Options) { o.Own = func(token string) bool { return token == "token-of-the-language-server" } }
	r := newCallRig(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answered") }, own)
	binary := func(token string) {
		t.Helper()
		if got := await.Receive(t, r.carrier("\x0a\x01\x00", "Content-Type", "application/x-protobuf", "Authorization", token), "the answer"); got.body != "answered" {
			t.Errorf("got %+v", got)
		}
	}
	foreign := r.calls.Expect(t.Context(), "foreign", Call{Request: []byte(`{}`)})
	binary("Bearer of another program")
	binary("")
	foreign.Cancel()
	if _, err := answerOf(t, foreign); !errors.Is(err, context.Canceled) {
		t.Errorf("after requests of other programs: %v", err)
	}
	ctx, leave := context.WithCancel(t.Context())
	left := r.calls.Expect(ctx, "left", Call{Request: []byte(`{}`)})
	carried := r.calls.Expect(t.Context(), cascade, Call{Request: []byte(`{}`)})
	binary("Bearer token-of-the-language-server")
	leave()
	if _, err := answerOf(t, left); !errors.Is(err, context.Canceled) {
		t.Errorf("after the client has left: %v", err)
	}
	copied := r.carrier(native(agentID(cascade)))
	response, err := answerOf(t, carried)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(response.Body); string(body) != "answered" || err != nil {
		t.Errorf("the call got %q, %v", body, err)
	}
	await.Receive(t, copied, "the copy")
}

func zip(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func brot(text string) string {
	var b bytes.Buffer
	w := brotli.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// What cannot be read passes untouched when no call waits for it. Otherwise the call fails, and the
// language server is told.
func TestRequestsThatCannotBeRead(t *testing.T) {
	body := native(agentID(cascade))
	noise := strings.NewReplacer("carrier", string(bytes.Repeat([]byte("0123456789abcdefghijklmnopqrstuvwxyz"), 500))).Replace(body)
	badSum := []byte(zip(body))
	badSum[len(badSum)-5] ^= 1
	for _, c := range []struct {
		name, encoding, body string
		want                 perigee.Class // of the call; empty means it waits on
		passes               bool          // also when a call waits
	}{
		{"cut-off JSON", "", body[:len(body)-1], perigee.ClassUnavailable, false},
		{"a member twice in the request", "", strings.Replace(body, `"sessionId":`, `"labels":{},"sessionId":`, 1), perigee.ClassUnavailable, false},
		{"no request", "", `{"requestId":"` + agentID(cascade) + `"}`, perigee.ClassUnavailable, false},
		{"a request that is a list", "", `{"requestId":"` + agentID(cascade) + `","request":[]}`, perigee.ClassUnavailable, false},
		{"cut-off gzip", "gzip", zip(noise)[:len(zip(noise))-9], perigee.ClassUnavailable, false},
		{"gzip without its beginning", "gzip", zip(body)[4:], perigee.ClassUnavailable, false},
		{"gzip of nothing", "gzip", "", perigee.ClassUnavailable, false},
		{"gzip with a wrong sum", "gzip", string(badSum), perigee.ClassUnavailable, false},
		{"gzip with more behind it", "gzip", zip(body) + "more", perigee.ClassUnavailable, false},
		{"cut-off brotli", "br", brot(noise)[:len(brot(noise))-9], perigee.ClassUnavailable, false},
		{"no brotli", "br", "\xff\xff\xff\xff", perigee.ClassUnavailable, false},
		{"a bomb", "gzip", zip(strings.Replace(body, "carrier", strings.Repeat("a", maxBody), 1)), perigee.ClassUnavailable, false},
		{"another encoding", "zstd", "\x28\xb5\x2f\xfd", perigee.ClassUnimplemented, true},
		{"two encodings", "gzip, br", zip(body), perigee.ClassUnimplemented, true},
		{"no JSON", "gzip", zip("hello"), "", true},
		{"cut off before its id ends", "", body[:60], "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newCallRig(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
			if got := await.Receive(t, r.carrier(c.body, "Content-Encoding", c.encoding), "the answer"); got.status != http.StatusTeapot || r.requests()[0].body != c.body || r.requests()[0].header.Get("Content-Encoding") != c.encoding {
				t.Errorf("no call waits: got %+v", got)
			}
			e := r.calls.Expect(t.Context(), cascade, Call{Request: []byte(`{}`)})
			defer e.Cancel()
			got := await.Receive(t, r.carrier(c.body, "Content-Encoding", c.encoding), "the answer")
			if c.want != "" {
				e.Cancel() // the language server has ended its turn
				if _, err := answerOf(t, e); perigee.AsError(err).Class != c.want || !strings.Contains(err.Error(), "language server") {
					t.Errorf("the call got %v", err)
				}
			} else if len(r.calls.waiting) != 1 {
				t.Error("the call does not wait any more")
			}
			if c.passes {
				if got.status != http.StatusTeapot || len(r.requests()) != 2 || r.requests()[1].body != c.body {
					t.Errorf("got %+v", got)
				}
			} else if got.status != http.StatusBadRequest || !strings.Contains(got.body, `"status":"INVALID_ARGUMENT"`) || len(r.requests()) != 1 {
				t.Errorf("got %+v, and %d requests reached the cloud", got, len(r.requests()))
			}
		})
	}
}

// A body of the language server that breaks off reaches neither the cloud nor a call. It is sent
// when it is read, because a connection that is closed before it was accepted is not let in.
func TestRequestThatBreaksOff(t *testing.T) {
	r := newCallRig(t, func(http.ResponseWriter, *http.Request) { t.Error("the cloud was called") })
	e := r.calls.Expect(t.Context(), cascade, Call{Request: []byte(`{}`)})
	body := native(agentID(cascade))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.base+streamPath, io.MultiReader(strings.NewReader(body[:len(body)/2]), brokenReader{io.ErrNoProgress}))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Expect", "100-continue")
	if response, err := r.agent.Do(req); err == nil {
		response.Body.Close()
		t.Errorf("got %s", response.Status)
	}
	if _, err := answerOf(t, e); perigee.AsError(err).Class != perigee.ClassUnavailable {
		t.Errorf("got %v", err)
	}
}

// Telemetry is answered here if that is wanted, and only telemetry.
func TestTelemetryAnsweredHere(t *testing.T) {
	r := newCallRig(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "cloud") }, func(o *Options) { o.LocalTelemetry = true })
	for _, c := range []struct{ method, kind, accept, wantKind, want string }{
		{"recordCodeAssistMetrics", "application/json", "", "application/json", "{}"},
		{"recordCodeAssistMetrics", "application/x-protobuf", "", "application/x-protobuf", ""},
		{"recordTrajectoryAnalytics", "application/json; charset=utf-8", "*/*", "application/json", "{}"},
		{"recordTrajectoryAnalytics", "application/json", "application/x-protobuf", "application/x-protobuf", ""},
		{"recordClientEvent", "application/proto", "", "application/proto", ""},
		{"recordClientEvent", "application/grpc", "", "", "cloud"},
		{"loadCodeAssist", "application/json", "", "", "cloud"},
		{"fetchAvailableModels", "application/x-protobuf", "", "", "cloud"},
	} {
		got := await.Receive(t, r.carrierOn("/v1internal:"+c.method, "{}", "Content-Type", c.kind, "Accept", c.accept), c.method)
		if got.body != c.want || got.status != http.StatusOK || c.wantKind != "" && got.header.Get("Content-Type") != c.wantKind {
			t.Errorf("%s in %s: got %+v", c.method, c.kind, got)
		}
	}
	if n := len(r.requests()); n != 3 {
		t.Errorf("%d requests reached the cloud", n)
	}
}

// The path of the cloud's address goes before that of a request, which keeps its escapes and its
// query.
func TestCloudWithAPath(t *testing.T) {
	asked := make(chan string, 1)
	cloud := httptestServer(t, func(_ http.ResponseWriter, req *http.Request) { asked <- req.RequestURI })
	r := newCallRig(t, nil, func(o *Options) { o.Cloud = cloud + "/behind/" })
	got := await.Receive(t, r.carrierOn("/v1internal%2Fa:loadCodeAssist?alt=%zz", "{}"), "the answer")
	if uri := await.Receive(t, asked, "the request"); got.status != http.StatusOK || uri != "/behind/v1internal%2Fa:loadCodeAssist?alt=%zz" {
		t.Errorf("the cloud got %s, the language server %+v", uri, got)
	}
}
