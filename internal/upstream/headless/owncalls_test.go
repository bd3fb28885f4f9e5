package headless

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/mcp/ask"
	"perigee/internal/route/record"
	"perigee/internal/simulator"
	"perigee/internal/testing/perigeetest/await"
)

// callStore keeps calls in memory.
type callStore struct {
	mu    sync.Mutex
	calls map[string]perigee.Call
}

func (s *callStore) SaveCalls(_ context.Context, calls []perigee.Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range calls {
		s.calls[c.ID] = c
	}
	return nil
}

// of returns the calls of an operation that have ended.
func (s *callStore) of(operation string) (list []perigee.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Operation == operation && c.Outcome != perigee.OutcomeOpen {
			list = append(list, c)
		}
	}
	return list
}

// logged is a log that a test reads.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// newRecording returns a recording into memory.
func newRecording(t *testing.T, log *slog.Logger, watch ...func(*perigee.Call, *perigee.Origin) perigee.Watcher) (*Recording, *callStore) {
	t.Helper()
	store, recording := &callStore{calls: map[string]perigee.Call{}}, new(Recording)
	recorder := record.New(nil, record.Options{Store: store, Linger: time.Millisecond, Logger: log, Watch: watch})
	recording.Use(recorder)
	t.Cleanup(func() {
		if err := recorder.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return recording, store
}

// bodies is a Watcher that keeps what it is shown.
type bodies struct {
	mu   sync.Mutex
	seen map[perigee.TapPoint]string
}

func (b *bodies) Body(at perigee.TapPoint, pieces ...[]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[at] += string(bytes.Join(pieces, nil))
}
func (b *bodies) Done()                 {}
func (b *bodies) Event(*perigee.Event)  {}
func (b *bodies) Ended(c *perigee.Call) {}

// Every call that the language server makes itself is recorded: those to models with their tokens,
// as the cloud counts them, and for the account that the language server was signed in with.
func TestOwnCallsAreRecorded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ profile, mode, settings string }{
		{"classic", "endpoint", ""}, {"hub", "endpoint", ""}, {"classic", "proxy", "http=2"}, {"classic", "proxy", "http=1.1"},
	} {
		t.Run(c.profile+" "+c.mode+" "+c.settings, func(t *testing.T) {
			t.Parallel()
			log := new(logged)
			var mu sync.Mutex
			watched := map[string]*bodies{}
			recording, store := newRecording(t, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
				func(call *perigee.Call, _ *perigee.Origin) perigee.Watcher {
					mu.Lock()
					defer mu.Unlock()
					watched[call.ID] = &bodies{seen: map[perigee.TapPoint]string{}}
					return watched[call.ID]
				})
			r := signedIn(t, func(o *Options) {
				o.Upstream.Profile, o.Upstream.Intercept, o.Upstream.Env = c.profile, c.mode, map[string]string{"PERIGEE_STANDIN": c.settings}
				o.Interception, o.Recording = newProxy(t), recording
			})
			for n := range 3 {
				if _, err := r.call(t.Context(), "gemini-3-flash", oneShot(n)); err != nil {
					t.Fatal(err)
				}
			}
			own := func() (list []simulator.Call) {
				return slices.DeleteFunc(r.cloud.Calls(), func(c simulator.Call) bool { return !strings.HasSuffix(c.Path, ":streamGenerateContent") })
			}
			await.Until(t, "the records of two calls for each turn", func() bool {
				return len(own()) == 9 && len(store.of(perigee.OperationGenerate)) == 6 && len(store.of(perigee.OperationInfo)) > 0
			})
			for _, call := range store.of(perigee.OperationGenerate) {
				if call.Client.Name != "language-server" || call.Outcome != perigee.OutcomeDone || call.Account != "ada@example.com" || call.Upstream != "desk" ||
					call.Usage.Input == 0 || call.Usage.Output == 0 || call.Model == "" || !call.Stream || call.FirstByte == 0 || call.Dialect != perigee.DialectCloudCode {
					t.Errorf("recorded %+v", call)
				}
				mu.Lock()
				seen := watched[call.ID]
				mu.Unlock()
				if !strings.Contains(seen.seen[perigee.TapProviderRequest], `"requestType"`) || !strings.Contains(seen.seen[perigee.TapProviderAnswer], "usageMetadata") {
					t.Errorf("bodies %q", seen.seen)
				}
				if !strings.Contains(log.String(), "level=DEBUG msg=\"call done\" call="+call.ID) {
					t.Errorf("call %s is not logged at level debug", call.ID)
				}
			}
			for _, call := range store.of(perigee.OperationInfo) {
				if call.Client.Name != "language-server" || call.Usage != (perigee.Usage{}) || call.Model != "" {
					t.Errorf("recorded %+v", call)
				}
			}
			if strings.Contains(log.String(), "level=INFO") || strings.Contains(log.String(), "level=WARN") {
				t.Error("calls of the language server are logged above level debug")
			}
		})
	}
}

// A call of the language server that the cloud refuses is recorded with the class of the error.
func TestRefusedOwnCallsAreRecorded(t *testing.T) {
	t.Parallel()
	recording, store := newRecording(t, nil)
	r := signedIn(t, func(o *Options) { o.Recording = recording })
	if err := r.cloud.AddFaults(simulator.Fault{Do: "quota_exhausted", When: simulator.When{Method: "streamGenerateContent", Model: "gemini-2.5-flash-lite"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.call(t.Context(), "gemini-3-flash", oneShot(1)); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a refused call", func() bool {
		return slices.ContainsFunc(store.of(perigee.OperationGenerate), func(c perigee.Call) bool {
			return c.Outcome == perigee.OutcomeFailed && c.Class == perigee.ClassExhausted && c.Status == 429 && c.Account == "ada@example.com"
		})
	})
}

// The calls that the agent makes for a prompt are counted with the prompt, and not once more. Its
// conversation stays.
func TestCallsForPromptsAreNotOwnCalls(t *testing.T) {
	t.Parallel()
	recording, store := newRecording(t, nil)
	r := signedIn(t, func(o *Options) { o.Recording, o.delays.keep = recording, time.Millisecond })
	answer, err := r.upstream.Ask(t.Context(), ask.Request{Prompt: "[[text: from the agent]]"}, func(ask.Progress) {})
	if err != nil || answer.Text != "from the agent" {
		t.Fatalf("asked: %+v, %v", answer, err)
	}
	await.Until(t, "the two calls after the answer", func() bool { return len(store.of(perigee.OperationGenerate)) == 2 })
	if n := len(r.agentRequests()); n != 1 {
		t.Errorf("the agent has made %d calls", n)
	}
	for _, call := range store.of(perigee.OperationGenerate) {
		if call.Model != "gemini-2.5-flash-lite" {
			t.Errorf("recorded %+v", call)
		}
	}
	if has, err := r.upstream.Has(t.Context(), answer.Conversation); !has || err != nil {
		t.Errorf("the conversation is there: %v, %v", has, err)
	}
}
