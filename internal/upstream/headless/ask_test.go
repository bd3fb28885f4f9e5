package headless

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/mcp/ask"
	"perigee/internal/simulator"
	"perigee/internal/testing/perigeetest/await"
)

// The agent of the language server answers asks with its own prompt and tools, while calls of
// clients are carried without them.
func TestTheAgentAnswersAsks(t *testing.T) {
	t.Parallel()
	r := signedIn(t, nil)
	var both sync.WaitGroup
	both.Go(func() {
		events, err := r.call(t.Context(), "gemini-3-flash", perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "[[text: carried]]")}})
		if err != nil || written(events) != "carried" {
			t.Errorf("carried: %+v, %v", events, err)
		}
	})
	answer, err := r.upstream.Ask(t.Context(), ask.Request{Prompt: "[[text: from the agent]]"}, func(ask.Progress) {})
	await.Return(t, both.Wait, "the carried call")
	if err != nil || answer.Text != "from the agent" || answer.Status != ask.Done || answer.Source != "langserver" {
		t.Fatalf("asked: %+v, %v", answer, err)
	}
	if has, err := r.upstream.Has(t.Context(), answer.Conversation); !has || err != nil {
		t.Errorf("the conversation is there: %v, %v", has, err)
	}
	native, foreign := 0, 0
	for _, e := range r.agentRequests() {
		switch body := string(e.Request.Contents[len(e.Request.Contents)-1]); {
		case strings.Contains(body, "from the agent") && len(e.Request.Tools) > 0:
			native++
		case strings.Contains(body, "carried") && len(e.Request.Tools) == 0:
			foreign++
		}
	}
	if native != 1 || foreign != 1 {
		t.Errorf("%d requests of the agent with its tools, %d carried ones without", native, foreign)
	}
}

// The agent is asked with an account that has quota for the model, whatever the last call was made
// with. If none has, it is not asked.
func TestAsksGetAnAccountForTheirModel(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.accounts.set(r.signIn("ada"), r.signIn("bob"))
	r.Server.signIn.Check()
	r.wants("ready", ready)
	exhaust := func(account string) {
		t.Helper()
		if err := r.cloud.AddFaults(simulator.Fault{Do: "quota_exhausted", When: simulator.When{Method: "streamGenerateContent", Account: account, Model: "gemini-3-flash"}}); err != nil {
			t.Fatal(err)
		}
		for _, model := range []string{"gemini-3-flash", "claude-sonnet-4-6"} { // the second one is made with ada
			_, _ = r.call(t.Context(), model, perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "[[text: hello]]")}})
		}
		if got := r.Status().Account; got != "ada@example.com" {
			t.Fatalf("signed in with %s", got)
		}
	}
	exhaust("ada")
	answer, err := r.upstream.Ask(t.Context(), ask.Request{Prompt: "[[text: from the agent]]", Model: "gemini-3-flash"}, func(ask.Progress) {})
	if err != nil || answer.Text != "from the agent" {
		t.Errorf("got %+v, %v", answer, err)
	}
	exhaust("bob")
	before := len(r.agentRequests())
	if _, err := r.upstream.Ask(t.Context(), ask.Request{Prompt: "hello", Model: "gemini-3-flash"}, nil); !errors.Is(err, ask.ErrDeclined) ||
		perigee.AsError(err).Class != perigee.ClassExhausted {
		t.Errorf("got %v", err)
	}
	if got := len(r.agentRequests()); got != before {
		t.Errorf("the cloud got %d requests", got-before)
	}
}

// Without an account or a process, asks are declined, so that another source is tried.
func TestAsksAreDeclinedWithoutALanguageServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.wants("stopped", func(s supervisor.Status) bool { return s.State == supervisor.Stopped })
	for name, asker := range map[string]ask.Asker{"no account": r.upstream, "no daemon": NotRunning{Upstream: "headless"}} {
		if _, err := asker.Ask(t.Context(), ask.Request{Prompt: "hello"}, nil); !errors.Is(err, ask.ErrDeclined) || perigee.AsError(err).Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
