//go:build linux

package ide

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/mcp/ask"
	"perigee/internal/testing/bridgetest"
	"perigee/internal/testing/perigeetest/await"
)

// said is a request of the upstream with the texts of user and model in turn.
func said(stream bool, texts ...string) *perigee.Request {
	return perigee.NewRequest(perigee.Origin{Log: &perigee.CallLog{}}, Model, stream, func() (*perigee.Prompt, error) {
		p := &perigee.Prompt{}
		for i, text := range texts {
			role := []string{perigee.RoleUser, perigee.RoleModel}[i%2]
			p.Contents = append(p.Contents, perigee.Content{Role: role, Parts: []perigee.Part{{Kind: perigee.PartText, Text: perigee.Plain(text)}}})
		}
		return p, nil
	})
}

// An answered is what a stream had.
type answered struct {
	text, model, id string
	usage           *perigee.Usage
	finish          *perigee.Finish
	texts           int
}

func stream(ctx context.Context, u perigee.Upstream, req *perigee.Request) (a answered, err error) {
	for event, err := range u.Stream(ctx, req) {
		if err != nil {
			return a, err
		}
		switch event.Kind {
		case perigee.EventStart:
			a.model, a.id = event.Model, event.ResponseID
		case perigee.EventText:
			a.text += event.Text
			a.texts++
		case perigee.EventUsage:
			a.usage = event.Usage
		case perigee.EventFinish:
			a.finish = event.Finish
		}
	}
	return a, nil
}

// The upstream is the agent of the window as a model. A conversation goes on where the last answer
// ended.
func TestUpstreamThroughTheLanguageServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	models, err := r.Models(t.Context())
	if err != nil || len(models) != 1 || models[0].ID != "antigravity-agent" || models[0].Upstream != "desk" {
		t.Errorf("%+v, %v", models, err)
	}
	if _, err := stream(t.Context(), r, said(true, "hello")); perigee.AsError(err).Class != perigee.ClassUnavailable {
		t.Errorf("without a window: %v", err)
	}
	workspace := t.TempDir()
	r.window(bridgetest.Options{Workspace: []string{workspace}, Ask: unasked(t)}, r.server(workspace))
	first, err := stream(t.Context(), r, said(true, "[[text: one two three]] [[chunks: 3]]"))
	if err != nil || first.text != "one two three" || first.model != Model || first.finish == nil || first.usage == nil || first.usage.Input == 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := stream(t.Context(), r, said(false, "[[text: one two three]] [[chunks: 3]]", "one two three", "[[echo]]"))
	if err != nil || strings.Contains(second.text, "one two three") || second.id == first.id || second.id[:36] != first.id[:36] {
		t.Fatalf("the conversation did not go on: %+v, %v", second, err)
	}
	req := said(true, "hello").WithModel("gemini-3-flash")
	if _, err := stream(t.Context(), r, req); perigee.AsError(err).Class != perigee.ClassNotFound {
		t.Errorf("another model: %v", err)
	}
}

func TestUpstreamThroughTheExtension(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var mu sync.Mutex // of the next two
	var asked []string
	var result bridgetest.Result
	answers := func(with bridgetest.Result) {
		mu.Lock()
		defer mu.Unlock()
		result = with
	}
	answers(bridgetest.Result{Text: "one two", Conversation: "c1", Status: "done"})
	seen := make(chan struct{}, 1)
	w := r.window(bridgetest.Options{Conversations: []map[string]any{{"id": "c1"}}, Ask: func(ctx context.Context, a *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
		mu.Lock()
		defer mu.Unlock()
		line := a.Prompt
		if a.Conversation != nil {
			line = *a.Conversation + ": " + line
		}
		asked = append(asked, line)
		if a.Prompt == "wait" {
			a.Progress("so far", 1)
			select {
			case <-a.Cancelled:
				seen <- struct{}{}
			case <-ctx.Done():
			}
			return bridgetest.Result{Status: "cancelled", Conversation: "c1"}, nil
		}
		return result, nil
	}}, nil)
	if a, err := stream(t.Context(), r, said(true, "hello")); err != nil || a.text != "one two" {
		t.Fatalf("%+v, %v", a, err)
	}
	if a, err := stream(t.Context(), r, said(true, "hello", "one two", "more")); err != nil || a.text != "one two" {
		t.Fatalf("%+v, %v", a, err)
	}
	mu.Lock()
	if len(asked) != 2 || asked[1] != "c1: more" {
		t.Errorf("asked %q", asked)
	}
	mu.Unlock()
	answers(bridgetest.Result{Text: "Shall I?", Conversation: "c1", Status: "waiting", WaitingFor: "permission to run make"})
	if a, err := stream(t.Context(), r, said(false, "build")); err != nil || !strings.HasPrefix(a.text, "Shall I?\n\n[") || !strings.Contains(a.text, "permission to run make") {
		t.Errorf("%+v, %v", a, err)
	}
	answers(bridgetest.Result{Conversation: "c1", Status: "failed", Error: map[string]any{"class": "exhausted", "message": "no quota"}})
	if a, err := stream(t.Context(), r, said(true, "hello")); perigee.AsError(err).Class != perigee.ClassExhausted || !strings.Contains(err.Error(), "no quota") {
		t.Errorf("%+v, %v", a, err)
	}
	// A client that leaves stops the agent.
	for event, err := range r.Stream(t.Context(), said(true, "wait")) {
		if err != nil {
			t.Error(err)
		}
		if event.Kind == perigee.EventText {
			break
		}
	}
	await.Receive(t, seen, "the end of the agent")
	// If the window with the conversation is closed, another conversation gets all of it.
	answers(bridgetest.Result{Text: "first", Conversation: "c1", Status: "done"})
	if a, err := stream(t.Context(), r, said(true, "begin")); err != nil || a.text != "first" {
		t.Fatalf("%+v, %v", a, err)
	}
	w.Kill()
	r.window(bridgetest.Options{}, nil)
	a, err := stream(t.Context(), r, said(true, "begin", "first", "go on"))
	if err != nil || !strings.Contains(a.text, "begin") || !strings.Contains(a.text, "first") || !strings.HasSuffix(a.text, "go on") {
		t.Errorf("%+v, %v", a, err)
	}
}

// Clients of the upstream do not learn which directories are open.
func TestUpstreamDoesNotNameDirectories(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := t.TempDir(), t.TempDir()
	r.window(bridgetest.Options{Workspace: []string{first}}, nil)
	r.window(bridgetest.Options{Workspace: []string{second}}, nil)
	_, err := stream(t.Context(), r, said(true, "hello"))
	e := perigee.AsError(err)
	if e == nil || e.Class != perigee.ClassUnavailable || !strings.Contains(e.Message, first) || e.Public == "" || strings.Contains(e.Public, first) {
		t.Errorf("%+v", e)
	}
	r.opts.Workspace = second
	if a, err := stream(t.Context(), r, said(true, "hello")); err != nil || a.text != "answer: hello" {
		t.Errorf("%+v, %v", a, err)
	}
	r.opts.Workspace = t.TempDir()
	if err := r.fails(perigee.ClassNotFound, ask.Request{Prompt: "hello"}); errors.Is(err, ask.ErrDeclined) {
		t.Errorf("%v", err)
	}
}
