package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"perigee"
	"perigee/internal/route"
	"perigee/internal/route/record"
	"perigee/internal/server"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/upstream/api"
)

// A tapRig is the whole way of a call, from the client to a provider over HTTP, and a tap that
// keeps copies of all bodies.
type tapRig struct {
	url     string
	watcher perigee.Watcher // in place of the rig, if it is not nil
	done    chan struct{}   // a call has got all of its answer

	mu     sync.Mutex
	bodies [perigee.TapClientAnswer + 1][]string
}

func newTapRig(t *testing.T, tapped bool, provider http.HandlerFunc) *tapRig {
	t.Helper()
	rig := &tapRig{done: make(chan struct{}, 1)}
	remote := httptest.NewServer(provider)
	t.Cleanup(remote.Close)
	upstream := api.New(api.Gemini, api.Options{Name: "studio", URL: remote.URL, Keys: []perigee.Secret{perigee.NewSecret("k")}})
	t.Cleanup(func() { _ = upstream.Close() })
	router, err := route.New(route.Options{Targets: []route.Target{{Name: "studio", Upstream: upstream}}})
	if err != nil {
		t.Fatal(err)
	}
	opts := record.Options{Store: forgetful{}}
	if tapped {
		opts.Watch = rig.watch()
	}
	recorder := record.New(router, opts)
	t.Cleanup(func() { _ = recorder.Close(context.Background()) })
	api := httptest.NewServer(server.New(server.Options{Upstream: recorder, Refused: recorder.Refused},
		server.Settings{MaxBody: 1 << 20, Loopback: true}))
	t.Cleanup(api.Close)
	rig.url = api.URL
	return rig
}

// A forgetful store keeps nothing.
type forgetful struct{}

func (forgetful) SaveCalls(context.Context, []perigee.Call) error { return nil }

func (r *tapRig) Body(at perigee.TapPoint, pieces ...[]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies[at] = append(r.bodies[at], string(slices.Concat(pieces...)))
}

func (r *tapRig) Done() { r.done <- struct{}{} }

func (r *tapRig) Event(*perigee.Event) {}

func (r *tapRig) Ended(*perigee.Call) {}

// watch has every call shown to the rig.
func (r *tapRig) watch() []func(*perigee.Call, *perigee.Origin) perigee.Watcher {
	return []func(*perigee.Call, *perigee.Origin) perigee.Watcher{func(*perigee.Call, *perigee.Origin) perigee.Watcher {
		if r.watcher != nil {
			return r.watcher
		}
		return r
	}}
}

// at returns what passed at a point.
func (r *tapRig) at(p perigee.TapPoint) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.bodies[p], "")
}

func (r *tapRig) post(t *testing.T, body string) (answer string) {
	t.Helper()
	return r.postTo(t, "/v1/chat/completions", body)
}

func (r *tapRig) postTo(t *testing.T, path, body string) (answer string) {
	t.Helper()
	resp, err := http.Post(r.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

const tapChunk = `{"candidates":[{"content":{"role":"model","parts":[{"text":"hello"}]},"finishReason":"STOP"}],` +
	`"usageMetadata":{"promptTokenCount":2,"candidatesTokenCount":1}}`

// A tap sees what the client sent, what the provider got and answered, and what the client got,
// each as it was on the wire.
func TestATapSeesAllFourBodies(t *testing.T) {
	for _, test := range []struct {
		name, stream, kind, says string
		status                   int
	}{
		{"streamed", "true", "text/event-stream", "data: " + tapChunk + "\r\n\r\n", 200},
		{"in one piece", "false", "application/json", tapChunk, 200},
		{"refused", "true", "application/json", `{"error":{"code":400,"message":"not like this","status":"INVALID_ARGUMENT"}}`, 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := make(chan string, 9)
			rig := newTapRig(t, true, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got <- string(body)
				w.Header().Set("Content-Type", test.kind)
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.says)
			})
			body := `{"model":"gemini-3-flash","stream":` + test.stream + `,"messages":[{"role":"user","content":"hi"}]}`
			answer := rig.post(t, body)
			await.Receive(t, rig.done, "the record")
			for point, want := range map[perigee.TapPoint]string{perigee.TapClientRequest: body, perigee.TapProviderRequest: await.Receive(t, got, "the request of the provider"),
				perigee.TapProviderAnswer: test.says, perigee.TapClientAnswer: answer} {
				if seen := rig.at(point); seen != want || seen == "" {
					t.Errorf("point %d: seen %q, want %q", point, seen, want)
				}
			}
		})
	}
}

// A call that is refused before it reaches the upstream has no body at the provider, and ends for
// the tap all the same.
func TestATapSeesTheErrorOfARefusedCall(t *testing.T) {
	rig := newTapRig(t, true, func(http.ResponseWriter, *http.Request) { t.Error("the provider is asked") })
	answer := rig.post(t, `{"model":`)
	await.Receive(t, rig.done, "the record")
	if seen := rig.at(perigee.TapClientAnswer); seen != answer || !strings.Contains(seen, "error") ||
		rig.at(perigee.TapProviderRequest) != "" {
		t.Errorf("seen %q, want %q", seen, answer)
	}
}

func TestWithoutATapNothingIsShown(t *testing.T) {
	rig := newTapRig(t, false, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, tapChunk)
	})
	if answer := rig.post(t, `{"model":"gemini-3-flash","messages":[{"role":"user","content":"hi"}]}`); !strings.Contains(answer,
		"hello") {
		t.Fatal(answer)
	}
	for point := range rig.bodies {
		if seen := rig.at(perigee.TapPoint(point)); seen != "" {
			t.Errorf("point %d: seen %q", point, seen)
		}
	}
}

// On a socket, a tap sees the messages of its call: those of an answer, and the one of an error.
func TestATapSeesMessages(t *testing.T) {
	for model, want := range map[string]string{"m": `"type":"response.completed"`, "missing": `"message":"no such model"`} {
		synctest.Test(t, func(t *testing.T) {
			rig := &tapRig{done: make(chan struct{}, 1)}
			recorder := record.New(&echoRig{}, record.Options{Store: forgetful{},
				Watch: rig.watch()})
			defer func() { _ = recorder.Close(context.Background()) }()
			p := newSocketRig(t, recorder, server.Settings{}, nil).connect(t)
			p.say(`{"type":"response.create","model":"` + model + `","input":"hi","store":false}`)
			for e := p.hear(); e.Type != "error" && e.Type != "response.completed"; e = p.hear() {
			}
			<-rig.done
			if seen := rig.at(perigee.TapClientAnswer); !strings.Contains(seen, want) {
				t.Errorf("%s: seen %q", model, seen)
			}
			if seen := rig.at(perigee.TapClientRequest); !strings.Contains(seen, `"input":"hi"`) {
				t.Errorf("%s: seen %q", model, seen)
			}
		})
	}
}

// A keeper is a RequestTap that retains all requests.
type keeper struct {
	*tapRig
	kept    [][][]byte // the pieces of each
	buffers []*perigee.Buffer
}

func (k *keeper) Request(_ perigee.TapPoint, buffer *perigee.Buffer, pieces ...[]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if buffer.Retain() {
		k.kept, k.buffers = append(k.kept, pieces), append(k.buffers, buffer)
	}
}

func (k *keeper) Done() {}

// The memory of requests that a tap retains is not used for other calls, in either dialect. In the
// larger ones, the request to the provider refers to the client's.
func TestRetainedRequestsDoNotChange(t *testing.T) {
	for _, size := range []int{50_000, 600_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { testRetainedRequests(t, size) })
	}
}

func testRetainedRequests(t *testing.T, size int) {
	rig := &keeper{tapRig: newTapRig(t, true, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+tapChunk+"\r\n\r\n")
	})}
	rig.watcher = rig
	const calls = 20
	for i := range calls {
		text := strings.Repeat(string(rune('a'+i)), size)
		rig.postTo(t, "/v1/chat/completions", `{"model":"gemini-3-flash","stream":true,"messages":[{"role":"user","content":"`+text+`"}]}`)
		rig.postTo(t, "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"`+text+`"}]}]}`)
	}
	rig.mu.Lock()
	defer rig.mu.Unlock()
	if len(rig.kept) != 4*calls {
		t.Fatalf("%d requests are retained", len(rig.kept))
	}
	for i, body := range rig.kept {
		letter := string(rune('a' + i/4))
		if !strings.Contains(string(slices.Concat(body...)), strings.Repeat(letter, size)) {
			t.Errorf("request %d has changed: %.100s", i, body)
		}
	}
	for _, b := range rig.buffers {
		b.Release()
	}
}
