package headless

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest/await"
)

// serveCloud records the requests for answers and has the simulator answer.
func (r *rig) serveCloud(w http.ResponseWriter, req *http.Request) {
	if strings.Contains(req.URL.Path, "enerateContent") {
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		r.mu.Lock()
		r.bodies = append(r.bodies, string(body))
		r.mu.Unlock()
	}
	r.cloud.ServeHTTP(w, req)
}

// An envelope is what the cloud gets.
type envelope struct {
	Project, RequestID, Model, UserAgent, RequestType string
	Request                                           struct {
		Contents          []json.RawMessage
		SystemInstruction json.RawMessage
		Tools             []json.RawMessage
		ToolConfig        json.RawMessage
		GenerationConfig  map[string]any
		SessionID         string
		Labels            map[string]string
	}
}

// agentRequests are those that carried calls, without the background calls of the language server.
func (r *rig) agentRequests() (list []envelope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, body := range r.bodies {
		var e envelope
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			r.t.Fatal(err)
		}
		if strings.HasPrefix(e.RequestID, "agent/") {
			list = append(list, e)
		}
	}
	return list
}

func (e envelope) cascade() string { return strings.Split(e.RequestID, "/")[1] }

func signedIn(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	r := newRig(t, change)
	r.accounts.set(r.signIn("ada"))
	r.Server.signIn.Check()
	r.wants("ready", func(s supervisor.Status) bool { return s.State == supervisor.Ready })
	return r
}

func text(role, text string) perigee.Content {
	return perigee.Content{Role: role, Parts: []perigee.Part{{Kind: perigee.PartText, Text: perigee.Plain(text)}}}
}

// call sends a prompt and returns the events.
func (r *rig) call(ctx context.Context, model string, p perigee.Prompt) (events []perigee.Event, err error) {
	request := perigee.NewRequest(perigee.Origin{}, model, true, func() (*perigee.Prompt, error) { return &p, nil })
	for event, err := range r.upstream.Stream(ctx, request) {
		if err != nil {
			return events, err
		}
		events = append(events, event)
	}
	return events, nil
}

func find(events []perigee.Event, kind perigee.EventKind) (found []perigee.Event) {
	return slices.DeleteFunc(slices.Clone(events), func(e perigee.Event) bool { return e.Kind != kind })
}

func written(events []perigee.Event) (text string) {
	for _, e := range find(events, perigee.EventText) {
		text += e.Text
	}
	return text
}

var weather = perigee.Tool{Function: &perigee.Function{
	Name: "weather", Parameters: json.RawMessage(`{"type":"OBJECT","properties":{"city":{"type":"STRING"}}}`),
}}

// newProxy returns a proxy that is closed at the end of the test.
func newProxy(t *testing.T) *Interception {
	t.Helper()
	proxy := NewInterception(InterceptionOptions{
		Interception: config.Interception{Listen: "127.0.0.1:0", Hosts: []string{"*-cloudcode-pa.googleapis.com"}},
		DataDir:      t.TempDir(), Logger: testLogger(t), Now: time.Now,
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
		defer cancel()
		if err := proxy.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return proxy
}

// In a reload a language server starts before the one whose place it takes ends. Calls of the
// earlier one are carried meanwhile, and afterwards if the later one is given up.
func TestLanguageServersShareTheProxy(t *testing.T) {
	t.Parallel()
	proxy := newProxy(t)
	use := func(o *Options) { o.Upstream.Intercept, o.Interception = modeProxy, proxy }
	earlier := signedIn(t, use)
	ask := func(r *rig) {
		t.Helper()
		events, err := r.call(t.Context(), "gemini-3-flash", perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "[[text: hello]]")}})
		if err != nil || written(events) != "hello" {
			t.Errorf("got %+v, %v", events, err)
		}
	}
	ask(earlier)
	later := signedIn(t, use)
	ask(earlier)
	ask(later)
	ask(earlier)
	if err := later.upstream.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := len(earlier.agentRequests())
	ask(earlier)
	if got := len(earlier.agentRequests()); got != before+1 {
		t.Errorf("its cloud got %d requests", got-before)
	}
}

// A conversation with a tool call, an image, parameters and instructions goes through one
// conversation of the language server, and the cloud gets all of it in the language server's
// envelope.
func TestCarriedConversation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ profile, mode, settings string }{
		{"classic", "endpoint", ""}, {"hub", "endpoint", ""}, {"classic", "proxy", "http=2"}, {"classic", "proxy", "http=1.1"}, {"hub", "proxy", ""},
	} {
		t.Run(c.profile+" "+c.mode+" "+c.settings, func(t *testing.T) {
			t.Parallel()
			r := signedIn(t, func(o *Options) {
				o.Upstream.Profile, o.Upstream.Intercept, o.Upstream.Env = c.profile, c.mode, map[string]string{"PERIGEE_STANDIN": c.settings}
				o.Interception = newProxy(t)
			})
			temperature := 0.25
			p := perigee.Prompt{
				System: &perigee.Content{Parts: []perigee.Part{{Kind: perigee.PartText, Text: perigee.Plain("Be brief.")}}},
				Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{
					{Kind: perigee.PartText, Text: perigee.Plain(`[[call: weather {"city":"Paris"}]]`)},
					{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "image/png", Data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}},
				}}},
				Tools:      []perigee.Tool{weather},
				Generation: perigee.Generation{Temperature: &temperature},
			}
			events, err := r.call(t.Context(), "gemini-3-flash", p)
			if err != nil {
				t.Fatal(err)
			}
			calls := find(events, perigee.EventCall)
			if len(calls) != 1 || calls[0].Call.Name != "weather" || string(calls[0].Call.Args) != `{"city":"Paris"}` {
				t.Fatalf("got %+v", events)
			}
			if start := find(events, perigee.EventStart); len(start) != 1 || start[0].Upstream != "desk" || start[0].Account != "ada@example.com" || start[0].Model != "gemini-3-flash" {
				t.Errorf("began with %+v", start)
			}
			p.Contents = append(p.Contents,
				perigee.Content{Role: perigee.RoleModel, Parts: []perigee.Part{{Kind: perigee.PartCall, Call: calls[0].Call, Signature: calls[0].Signature}}},
				perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{
					{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{ID: calls[0].Call.ID, Name: "weather", Response: json.RawMessage(`{"sky":"clear"}`)}},
					{Kind: perigee.PartText, Text: perigee.Plain("[[text: It is clear.]]")},
				}})
			if events, err = r.call(t.Context(), "gemini-3-flash", p); err != nil || written(events) != "It is clear." {
				t.Fatalf("got %+v, %v", events, err)
			}
			if usage := find(events, perigee.EventUsage); len(usage) == 0 {
				t.Error("no usage")
			}

			got := r.agentRequests()
			if len(got) != 2 || got[0].cascade() != got[1].cascade() {
				t.Fatalf("the cloud got %d requests: %+v", len(got), got)
			}
			first, second := got[0], got[1]
			if first.Project != "sim-project-ada" || first.Model != "gemini-3-flash" || first.RequestType != "agent" || first.UserAgent != "antigravity" ||
				first.Request.SessionID == "" || first.Request.Labels["trajectory_id"] == "" {
				t.Errorf("the envelope is not the language server's: %+v", first)
			}
			if !strings.Contains(string(first.Request.SystemInstruction), "Be brief.") || strings.Contains(string(first.Request.SystemInstruction), "Antigravity") {
				t.Errorf("instructions %s", first.Request.SystemInstruction)
			}
			if len(first.Request.Tools) != 1 || !strings.Contains(string(first.Request.Tools[0]), `"weather"`) {
				t.Errorf("tools %s", first.Request.Tools)
			}
			if first.Request.GenerationConfig["temperature"] != temperature || !strings.Contains(string(first.Request.Contents[0]), `"inlineData"`) {
				t.Errorf("request %+v", first.Request)
			}
			if len(second.Request.Contents) != 3 || !strings.Contains(string(second.Request.Contents[2]), `"functionResponse"`) {
				t.Errorf("contents %s", second.Request.Contents)
			}
		})
	}
}

// The body that a call shows is the one that the cloud gets.
func TestTheBodyAsSent(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"endpoint", "proxy"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := signedIn(t, func(o *Options) { o.Upstream.Intercept, o.Interception = mode, newProxy(t) })
			shown, log := &bodies{seen: map[perigee.TapPoint]string{}}, &perigee.CallLog{}
			log.SetTap(shown)
			prompt := oneShot(1)
			request := perigee.NewRequest(perigee.Origin{Log: log}, "gemini-3-flash", true, func() (*perigee.Prompt, error) { return &prompt, nil })
			for _, err := range r.upstream.Stream(t.Context(), request) {
				if err != nil {
					t.Fatal(err)
				}
			}
			r.mu.Lock()
			first := r.bodies[0]
			r.mu.Unlock()
			e := r.agentRequests()[0]
			if shown.seen[perigee.TapProviderRequest] != first || e.Request.SessionID == "" || e.Request.Labels["trajectory_id"] == "" || !log.Reached() {
				t.Errorf("shown %s, sent %s", shown.seen[perigee.TapProviderRequest], first)
			}
			if !strings.Contains(shown.seen[perigee.TapProviderAnswer], "a secret answer 1") {
				t.Errorf("answer %q", shown.seen[perigee.TapProviderAnswer])
			}
		})
	}
}

// A model that the language server does not list is carried by another one.
func TestAModelThatTheLanguageServerLacks(t *testing.T) {
	t.Parallel()
	r := signedIn(t, nil)
	if events, err := r.call(t.Context(), "gemini-2.5-flash-image", perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "draw")}}); err == nil ||
		perigee.AsError(err).Class != perigee.ClassUnimplemented {
		t.Errorf("a picture: %+v, %v", events, err)
	}
	_, err := r.call(t.Context(), "gemini-9-unheard-of", perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "hello")}})
	if perigee.AsError(err).Class != perigee.ClassNotFound {
		t.Errorf("an unknown model: %v", err)
	}
	if got := r.agentRequests(); len(got) == 0 || got[0].Model != "gemini-9-unheard-of" {
		t.Errorf("the cloud got %+v", got)
	}
}

// Another account answers when the provider refuses one, within the same call.
func TestAnotherAccountAnswers(t *testing.T) {
	t.Parallel()
	r := signedIn(t, nil)
	r.accounts.set(r.signIn("ada"), r.signIn("bob"))
	if err := r.cloud.AddFaults(simulator.Fault{Do: "quota_exhausted", When: simulator.When{Method: "streamGenerateContent", Account: "ada"}}); err != nil {
		t.Fatal(err)
	}
	hello := perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "[[text: hello]]")}}
	events, err := r.call(t.Context(), "gemini-3-flash", hello)
	if err != nil || written(events) != "hello" {
		t.Fatalf("got %+v, %v", events, err)
	}
	if start := find(events, perigee.EventStart); len(start) != 1 || start[0].Account != "bob@example.com" {
		t.Errorf("began with %+v", start)
	}
	got := r.agentRequests()
	if len(got) != 2 || got[0].Project != "sim-project-ada" || got[1].Project != "sim-project-bob" || got[0].cascade() == got[1].cascade() {
		t.Errorf("the cloud got %+v", got)
	}
}

// account names the only account that the language server uses, of those that other upstreams use
// as well.
func TestTheAccountThatTheConfigurationNames(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Upstream.Account = "Bob@example.com" })
	r.accounts.set(r.signIn("ada"), r.signIn("bob"))
	r.Server.signIn.Check()
	r.wants("ready", ready)
	hello := perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "[[text: hello]]")}}
	events, err := r.call(t.Context(), "gemini-3-flash", hello)
	if start := find(events, perigee.EventStart); err != nil || len(start) != 1 || start[0].Account != "bob@example.com" {
		t.Errorf("began with %+v, %v", start, err)
	}
	if got := r.Status().Account; got != "bob@example.com" {
		t.Errorf("signed in with %s", got)
	}
	if err := r.cloud.AddFaults(simulator.Fault{Do: "quota_exhausted", When: simulator.When{Method: "streamGenerateContent", Account: "bob"}}); err != nil {
		t.Fatal(err)
	}
	if _, err = r.call(t.Context(), "gemini-3-flash", hello); perigee.AsError(err).Class != perigee.ClassExhausted {
		t.Errorf("got %v", err)
	}
	if why := r.upstream.Unusable(); why != "" {
		t.Errorf("with a cooldown of one family: %s", why)
	}
	if err := r.cloud.AddFaults(simulator.Fault{Do: "banned", When: simulator.When{Method: "streamGenerateContent", Account: "bob", Model: "claude"}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err = r.call(t.Context(), "claude-sonnet-4-6", hello); perigee.AsError(err).Class != perigee.ClassForbidden {
			t.Errorf("got %v", err)
		}
	}
	if why := r.upstream.Unusable(); why != "its account cannot be used" {
		t.Errorf("banned: %q", why)
	}
	got := r.agentRequests()
	if len(got) != 3 {
		t.Errorf("the cloud got %d requests", len(got))
	}
	for _, e := range got {
		if e.Project != "sim-project-bob" {
			t.Errorf("asked with %s", e.Project)
		}
	}
}

// A sign-in server may answer a refresh with the token that the provider has just refused. It is
// used like any other.
func TestRefusedTokenThatComesAgain(t *testing.T) {
	t.Parallel()
	r := signedIn(t, nil) // its tokens never change
	if err := r.cloud.AddFaults(simulator.Fault{Do: "unauthorized", When: simulator.When{Method: "streamGenerateContent"}, Times: 1}); err != nil {
		t.Fatal(err)
	}
	events, err := r.call(t.Context(), "gemini-3-flash", perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "[[text: hello]]")}})
	if err != nil || written(events) != "hello" {
		t.Errorf("got %+v, %v", events, err)
	}
	if got := r.agentRequests(); len(got) != 2 {
		t.Errorf("the cloud got %d requests", len(got))
	}
}

// Trouble of the language server is no trouble of an account: another one is not tried, and none
// has a cooldown for it.
func TestTroubleOfTheProcessIsNotThatOfAnAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Upstream.Env = map[string]string{"PERIGEE_STANDIN": "fault=crash-on-send"} })
	r.accounts.set(r.signIn("ada"), r.signIn("bob"))
	r.Server.signIn.Check()
	r.wants("ready", ready)
	log := &perigee.CallLog{}
	request := perigee.NewRequest(perigee.Origin{Log: log}, "gemini-3-flash", true, func() (*perigee.Prompt, error) {
		return &perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "hello")}}, nil
	})
	for _, err := range r.upstream.Stream(t.Context(), request) {
		if perigee.AsError(err).Class != perigee.ClassUnavailable {
			t.Errorf("got %v", err)
		}
	}
	if got := log.Attempts(); len(got) != 1 || got[0].Account != "ada@example.com" {
		t.Errorf("the attempts were %+v", got)
	}
	for _, a := range r.accounts.pool.Status() {
		if len(a.Cooldowns) > 0 {
			t.Errorf("%s: %+v", a.Email, a.Cooldowns)
		}
	}
}

// Without another account the error is the provider's.
func TestRefusalsReachTheClient(t *testing.T) {
	t.Parallel()
	r := signedIn(t, nil)
	for do, class := range map[string]perigee.Class{"quota_exhausted": perigee.ClassExhausted, "error_in_200": perigee.ClassIdentity, "internal_500": perigee.ClassUnavailable} {
		if err := errors.Join(r.cloud.Reset(), r.accounts.pool.Clear("")); err != nil {
			t.Fatal(err)
		}
		if err := r.cloud.AddFaults(simulator.Fault{Do: do, When: simulator.When{Method: "streamGenerateContent"}}); err != nil {
			t.Fatal(err)
		}
		_, err := r.call(t.Context(), "gemini-3-flash", perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "hello")}})
		if e := perigee.AsError(err); e.Class != class || e.Upstream != "desk" || e.Hint == "" {
			t.Errorf("%s: %+v", do, e)
		}
	}
}

// The end of the language server in the middle of an answer does not end the answer.
func TestTheAnswerSurvivesTheLanguageServer(t *testing.T) {
	t.Parallel()
	r := signedIn(t, nil)
	pid, killed := r.Status().PID, false
	request := perigee.NewRequest(perigee.Origin{}, "gemini-3-flash", true, func() (*perigee.Prompt, error) {
		return &perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "[[pace: 30ms]] [[chunks: 10]] [[text: one two three four five six seven eight nine ten]]")}}, nil
	})
	var got strings.Builder
	for event, err := range r.upstream.Stream(t.Context(), request) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Kind == perigee.EventText {
			got.WriteString(event.Text)
			if !killed {
				killed = true
				if process, err := os.FindProcess(pid); err != nil || process.Kill() != nil {
					t.Fatal("the language server cannot be killed")
				}
			}
		}
	}
	if got.String() != "one two three four five six seven eight nine ten" {
		t.Errorf("got %q", got.String())
	}
	r.wants("another process", func(s supervisor.Status) bool { return s.State == supervisor.Ready && s.PID != pid })
	if events, err := r.call(t.Context(), "gemini-3-flash", perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "[[text: again]]")}}); err != nil || written(events) != "again" {
		t.Errorf("got %+v, %v", events, err)
	}
}

// A client that leaves ends the stream of the provider, and the turn of the language server.
func TestACarriedCallIsCanceled(t *testing.T) {
	t.Parallel()
	r := signedIn(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	request := perigee.NewRequest(perigee.Origin{}, "gemini-3-flash", true, func() (*perigee.Prompt, error) {
		return &perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "[[pace: 200ms]] [[chunks: 200]] [[tokens: 500]]")}}, nil
	})
	for event, err := range r.upstream.Stream(ctx, request) {
		if err == nil && event.Kind == perigee.EventText {
			cancel()
		}
	}
	cancel()
	if events, err := r.call(t.Context(), "gemini-3-flash", perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "[[text: next]]")}}); err != nil || written(events) != "next" {
		t.Errorf("got %+v, %v", events, err)
	}
	if got := r.agentRequests(); len(got) != 2 {
		t.Errorf("the cloud got %d requests of the agent, want 2: those of a canceled turn are not sent on", len(got))
	}
}

// A language server that accepts a call and does not go on in time: the error says so, and that
// another upstream may answer.
func TestLanguageServersThatHang(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"StartCascade", "SendUserCascadeMessage"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := signedIn(t, func(o *Options) {
				o.Upstream.Env = map[string]string{"PERIGEE_STANDIN": "fault=hang-on-call:" + method}
				o.FirstByte = 50 * time.Millisecond
			})
			log := &perigee.CallLog{}
			prompt := oneShot(1)
			request := perigee.NewRequest(perigee.Origin{Log: log}, "gemini-3-flash", true, func() (*perigee.Prompt, error) { return &prompt, nil })
			var failed *perigee.Error
			for _, err := range r.upstream.Stream(t.Context(), request) {
				failed = perigee.AsError(err)
			}
			if failed == nil || failed.Class != perigee.ClassUnavailable || failed.HTTPStatus("") != http.StatusGatewayTimeout ||
				!strings.Contains(failed.Message, "limits.first_byte") || failed.Hint == "" {
				t.Errorf("got %+v", failed)
			}
			if log.Reached() || len(r.agentRequests()) > 0 {
				t.Error("the call counts as sent")
			}
		})
	}
}

// A language server that ends is replaced: before it has called the cloud another one carries the
// request, after that the answer goes on.
func TestLanguageServersThatFail(t *testing.T) {
	t.Parallel()
	for settings, class := range map[string]perigee.Class{
		"fault=crash-on-send:1": "", "fault=crash-mid-stream:1": "", "generation=classic fault=drop-streams:1": "",
		"fault=crash-on-send": perigee.ClassUnavailable,
	} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			r := signedIn(t, func(o *Options) { o.Upstream.Env = map[string]string{"PERIGEE_STANDIN": settings} })
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			events, err := r.call(ctx, "gemini-3-flash", perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "[[chunks: 4]] [[text: all of it]]")}})
			switch {
			case class != "" && perigee.AsError(err).Class != class:
				t.Errorf("got %v", err)
			case class == "" && (err != nil || written(events) != "all of it"):
				t.Errorf("got %+v, %v", events, err)
			}
		})
	}
}

// Conversations at once do not mix.
func TestConversationsAtOnce(t *testing.T) {
	t.Parallel()
	r := signedIn(t, func(o *Options) { o.Upstream.Concurrency, o.Upstream.Queue.Depth = 4, 100 })
	var calls sync.WaitGroup
	for n := range 12 {
		calls.Go(func() {
			contents := []perigee.Content{}
			for turn := range 3 {
				want := fmt.Sprintf("answer %d of %d", turn, n)
				contents = append(contents, text(perigee.RoleUser, "[[pace: 1ms]] [[chunks: 5]] [[text: "+want+"]]"))
				events, err := r.call(t.Context(), "gemini-3-flash", perigee.Prompt{Contents: slices.Clone(contents)})
				if err != nil || written(events) != want {
					t.Errorf("got %q, %v; want %q", written(events), err, want)
					return
				}
				contents = append(contents, text(perigee.RoleModel, want))
			}
		})
	}
	await.Return(t, calls.Wait, "all calls")
	cascades := map[string]bool{}
	for _, e := range r.agentRequests() {
		cascades[e.cascade()] = true
	}
	if len(cascades) != 12 {
		t.Errorf("%d conversations of the language server for 12 of clients", len(cascades))
	}
}
