//go:build unix

package ask

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// An answer of each generation of language servers, and a second one in the same conversation.
func TestAnAgentAnswers(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{"classic", "classic2", "hub"} {
		t.Run(generation, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "page=3 generation="+generation)
			var seen []Progress
			var started perigee.Event
			first, err := r.Ask(t.Context(), Request{Prompt: "[[text: Hello from the agent, in several pieces.]] [[chunks: 5]] [[pace: 30ms]]",
				Observe: func(e *perigee.Event) {
					if e.Kind == perigee.EventStart {
						started = *e
					}
				}}, func(p Progress) { seen = append(seen, p) })
			if err != nil || first.Status != Done || first.Text != "Hello from the agent, in several pieces." || first.Source != "langserver" ||
				first.Usage == nil || first.Usage.Input == 0 || first.Usage.Output == 0 || first.Model == "" || first.Conversation == "" {
				t.Fatalf("got %+v, %v", first, err)
			}
			if started.Upstream != "desk" || started.Model != first.Model {
				t.Errorf("observed %+v", started)
			}
			if len(seen) == 0 || seen[len(seen)-1].Text != first.Text || seen[len(seen)-1].Steps == 0 {
				t.Errorf("progress %+v", seen)
			}
			for i := 1; i < len(seen); i++ {
				if seen[i] == seen[i-1] || !strings.HasPrefix(first.Text, seen[i].Text) {
					t.Errorf("progress %+v after %+v", seen[i], seen[i-1])
				}
			}
			second := r.must(t, Request{Prompt: "[[text: Again.]]", Conversation: first.Conversation})
			if second.Status != Done || second.Text != "Again." || second.Conversation != first.Conversation || second.Model != first.Model {
				t.Errorf("in the same conversation: %+v", second)
			}
			// An empty prompt shows the last answer.
			if again := r.must(t, Request{Conversation: first.Conversation}); again.Status != Done || again.Text != "Again." {
				t.Errorf("the answer again: %+v", again)
			}
			if has, err := r.Has(t.Context(), first.Conversation); !has || err != nil {
				t.Errorf("has its conversation: %t, %v", has, err)
			}
			if has, err := r.Has(t.Context(), "00000000-0000-4000-8000-000000000000"); has || err != nil {
				t.Errorf("has another conversation: %t, %v", has, err)
			}
			if _, err := r.Ask(t.Context(), Request{Prompt: "x", Conversation: "00000000-0000-4000-8000-000000000000"}, nil); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
				t.Errorf("an unknown conversation: %v", err)
			}
		})
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	for _, name := range []string{"gemini-3-flash", "Gemini 3 Flash", "gemini 3 flash", "MODEL_PLACEHOLDER_M18"} {
		if got := r.must(t, Request{Prompt: "[[text: hi]]", Model: name}); got.Status != Done || got.Model != "gemini-3-flash" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := r.Ask(t.Context(), Request{Prompt: "hi", Model: "no-such-model"}, nil); !errors.Is(err, ErrDeclined) || perigee.AsError(err).Class != perigee.ClassNotFound {
		t.Errorf("an unknown model: %v", err)
	}
	claude := func(model string) bool { return strings.HasPrefix(model, "claude") }
	if got := r.must(t, Request{Prompt: "[[text: hi]]", AllowsModel: claude}); !strings.HasPrefix(got.Model, "claude") {
		t.Errorf("a key for claude: %+v", got)
	}
	flash := r.must(t, Request{Prompt: "[[text: hi]]", Model: "gemini-3-flash"})
	if got := r.must(t, Request{Prompt: "[[text: hi]]", Conversation: flash.Conversation, AllowsModel: claude}); !strings.HasPrefix(got.Model, "claude") {
		t.Errorf("a key for claude in a conversation with flash: %+v", got)
	}
	if _, err := r.Ask(t.Context(), Request{Prompt: "hi", Model: "Gemini 3 Flash", AllowsModel: claude}, nil); errors.Is(err, ErrDeclined) || perigee.AsError(err).Class != perigee.ClassForbidden {
		t.Errorf("a model that the key does not allow: %v", err)
	}
	if _, err := r.Ask(t.Context(), Request{Prompt: "hi", AllowsModel: func(string) bool { return false }}, nil); err == nil {
		t.Error("a key without models got an answer")
	}
}

func TestWorkspaces(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	inner := filepath.Join(r.workspace, "inner")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.workspace, "note.txt"), []byte("the note"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := r.must(t, Request{Prompt: `[[call: view_file {"AbsolutePath":"note.txt","toolAction":"a","toolSummary":"b"}]] [[then]] [[echo]]`, Workspace: inner})
	if got.Status != Done {
		t.Errorf("a file of the workspace: %+v", got)
	}
	if _, err := r.Ask(t.Context(), Request{Prompt: "hi", Workspace: t.TempDir()}, nil); !errors.Is(err, ErrDeclined) || !strings.Contains(err.Error(), r.workspace) {
		t.Errorf("another directory: %v", err)
	}
}

// The agent's own tools work with models of each family.
func TestToolsOfEveryFamily(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	if err := os.WriteFile(filepath.Join(r.workspace, "note.txt"), []byte("the note"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, family := range []string{"claude", "gemini"} {
		allows := func(model string) bool { return strings.HasPrefix(model, family) }
		got := r.must(t, Request{Prompt: `[[call: view_file {"AbsolutePath":"note.txt","toolAction":"a","toolSummary":"b"}]] [[then]] [[text: read]]`, AllowsModel: allows})
		if got.Status != Done || got.Text != "read" || !strings.HasPrefix(got.Model, family) {
			t.Errorf("%s: %+v", family, got)
		}
	}
}

// The agent asks before it runs a command, and does what the decision says.
func TestDecisions(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	for _, generation := range []string{"classic", "classic2"} {
		t.Run(generation, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "generation="+generation)
			for _, allow := range []bool{true, false} {
				made := filepath.Join(r.workspace, "made")
				q := Request{Prompt: `[[text: I will make it.]] [[call: run_command {"CommandLine":"touch made","Cwd":"` + r.workspace + `","toolAction":"a","toolSummary":"b"}]] [[then]] [[text: Finished.]]`}
				waiting := r.must(t, q)
				if waiting.Status != Waiting || waiting.WaitingFor != "permission to run the command touch made" || waiting.Text != "I will make it." {
					t.Fatalf("got %+v", waiting)
				}
				if _, err := os.Stat(made); err == nil {
					t.Fatal("the command ran without a decision")
				}
				// Neither waiting on nor another prompt decides anything.
				if again := r.must(t, Request{Conversation: waiting.Conversation}); again.Status != Waiting || again.WaitingFor != waiting.WaitingFor {
					t.Errorf("waiting on: %+v", again)
				}
				if _, err := r.Ask(t.Context(), Request{Conversation: waiting.Conversation, Prompt: "go on"}, nil); err == nil || !strings.Contains(err.Error(), "touch made") {
					t.Errorf("another prompt: %v", err)
				}
				if _, err := r.Ask(t.Context(), Request{Conversation: waiting.Conversation, Decision: &Decision{Allow: true}, ReadOnly: true}, nil); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassForbidden {
					t.Errorf("a permission that is read-only: %v", err)
				}
				done := r.must(t, Request{Conversation: waiting.Conversation, Decision: &Decision{Allow: allow}})
				if done.Status != Done || done.Text != "I will make it.\n\nFinished." || done.Conversation != waiting.Conversation {
					t.Errorf("allow %t: %+v", allow, done)
				}
				if _, err := os.Stat(made); (err == nil) != allow {
					t.Errorf("allow %t: %v", allow, err)
				}
				_ = os.Remove(made)
				if _, err := r.Ask(t.Context(), Request{Conversation: waiting.Conversation, Decision: &Decision{Allow: allow}}, nil); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassInvalid {
					t.Errorf("a decision about nothing: %v", err)
				}
			}
		})
	}
}

func TestQuestionsGetAnAnswer(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	r := newRig(t, "")
	q := Request{Prompt: `[[call: ask_question {"Question":"Which colour?","First":"Red","Second":"Green","toolAction":"a","toolSummary":"b"}]]`}
	waiting := r.must(t, q)
	if waiting.Status != Waiting || waiting.WaitingFor != "an answer to the question: Which colour? (Red, Green)" {
		t.Fatalf("got %+v", waiting)
	}
	if _, err := r.Ask(t.Context(), Request{Conversation: waiting.Conversation, Decision: &Decision{Allow: true}}, nil); err == nil || !strings.Contains(err.Error(), "Which colour?") {
		t.Errorf("an answer without a text: %v", err)
	}
	done := r.must(t, Request{Conversation: waiting.Conversation, Decision: &Decision{Allow: true, Text: "green"}, ReadOnly: true})
	if done.Status != Done || !strings.Contains(done.Text, "chose 2") {
		t.Errorf("got %+v", done)
	}
}

func TestAReadOnlyAskChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	got := r.must(t, Request{ReadOnly: true, Prompt: "[[echo: tools]]"})
	if got.Status != Done || strings.Contains(got.Text, "write_to_file") || !strings.Contains(got.Text, "view_file") {
		t.Errorf("got %+v", got)
	}
	if got := r.must(t, Request{Prompt: "[[echo: tools]]"}); !strings.Contains(got.Text, "write_to_file") {
		t.Errorf("not read-only: %+v", got)
	}
}

func TestAFailureHasItsClass(t *testing.T) {
	t.Parallel()
	r := newRig(t, "retries=0")
	for fault, class := range map[string]perigee.Class{
		"rate_limit": perigee.ClassRateLimited, "quota_exhausted": perigee.ClassExhausted, "capacity": perigee.ClassCapacity,
		"unavailable_503": perigee.ClassUnavailable, "error_in_200": perigee.ClassIdentity, "banned": perigee.ClassForbidden,
	} {
		r.fault(t, fault)
		got := r.must(t, Request{Prompt: "hello"})
		if got.Status != Failed || got.Error == nil || got.Error.Class != class || got.Error.Message == "" || got.Conversation == "" {
			t.Errorf("%s: %+v, %+v", fault, got, got.Error)
		}
	}
	r.fault(t, "")
	if got := r.must(t, Request{Prompt: "[[text: well again]]"}); got.Text != "well again" {
		t.Errorf("afterwards: %+v", got)
	}
}

const tenWords = "[[text: one two three four five six seven eight nine ten]] [[chunks: 10]] [[pace: 1ms]]"

// An ask that is cancelled stops the agent.
func TestCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	release := r.hold(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, err := r.Ask(ctx, Request{Prompt: tenWords}, func(p Progress) {
		if p.Text != "" {
			cancel()
		}
	})
	if err != nil || got.Status != Cancelled || got.Text == "" || got.Conversation == "" {
		t.Fatalf("got %+v, %v", got, err)
	}
	release()
	after := r.must(t, Request{Conversation: got.Conversation})
	if after.Status != Cancelled || strings.Contains(after.Text, "ten") {
		t.Errorf("the agent went on: %+v", after)
	}
	if after := r.must(t, Request{Conversation: got.Conversation, Prompt: "[[text: new]]"}); after.Status != Done || after.Text != "new" {
		t.Errorf("the next prompt: %+v", after)
	}
}

// An ask that is out of time leaves the agent working, and its conversation has the rest.
func TestTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	release := r.hold(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	got, err := r.Ask(ctx, Request{Prompt: tenWords}, func(p Progress) {
		if p.Text != "" {
			cancel(ErrTimeout)
		}
	})
	if err != nil || got.Status != Timeout || got.Text == "" || strings.Contains(got.Text, "ten") || got.Conversation == "" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if _, err := r.Ask(t.Context(), Request{Conversation: got.Conversation, Prompt: "another"}, nil); err == nil || !strings.Contains(err.Error(), "empty prompt") {
		t.Errorf("another prompt while the agent works: %v", err)
	}
	release()
	rest := r.must(t, Request{Conversation: got.Conversation})
	if rest.Status != Done || rest.Text != "one two three four five six seven eight nine ten" {
		t.Errorf("the rest: %+v", rest)
	}
}

// Of two asks in one conversation one is refused.
func TestTwoAsksInOneConversationDoNotMix(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	first := r.must(t, Request{Prompt: "[[text: first]]"})
	release := r.hold(t)
	running := make(chan struct{})
	answered := make(chan Answer)
	go func() {
		seen := false
		got, _ := r.Ask(t.Context(), Request{Conversation: first.Conversation, Prompt: tenWords}, func(Progress) {
			if !seen {
				close(running)
			}
			seen = true
		})
		answered <- got
	}()
	await.Receive(t, running, "the first ask")
	for _, prompt := range []string{"mixed", ""} {
		if _, err := r.Ask(t.Context(), Request{Conversation: first.Conversation, Prompt: prompt}, nil); !errors.Is(err, ErrDeclined) || !strings.Contains(err.Error(), "another ask") {
			t.Errorf("a second ask with %q: %v", prompt, err)
		}
	}
	release()
	if got := await.Receive(t, answered, "the first answer"); got.Status != Done || !strings.HasSuffix(got.Text, "ten") {
		t.Errorf("the first ask: %+v", got)
	}
}
