package route

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"perigee"
)

// A listener is an upstream that answers some models and remembers what it was asked, thinking
// included.
type listener struct {
	source
	has   []string
	class perigee.Class // of the error for all other models; not_found unless set
	heard []string
}

func (l *listener) Stream(_ context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		what := req.Model
		if p, err := req.Prompt(); err == nil && p.Generation.Thinking != nil {
			t := p.Generation.Thinking
			if t.Budget != nil {
				what += fmt.Sprintf(" budget=%d", *t.Budget)
			}
			if t.Level != "" {
				what += " level=" + t.Level
			}
			if t.Include != nil {
				what += fmt.Sprintf(" include=%v", *t.Include)
			}
		}
		if req.Verbatim(perigee.DialectGemini) {
			what += " verbatim"
		}
		l.heard = append(l.heard, what)
		if !slices.Contains(l.has, req.Model) {
			class := l.class
			if class == "" {
				class = perigee.ClassNotFound
			}
			yield(perigee.Event{}, perigee.Errorf(class, "no %s here", req.Model))
			return
		}
		_ = yield(perigee.Event{Kind: perigee.EventText, Text: "hello"}, nil) && yield(perigee.Event{Kind: perigee.EventFinish}, nil)
	}
}

// say asks with a prompt that has a thinking config of its own.
func say(t *testing.T, r *Router, model string, thinking *perigee.Thinking) error {
	t.Helper()
	prompt := &perigee.Prompt{Generation: perigee.Generation{Thinking: thinking}}
	req := perigee.NewRequest(perigee.Origin{ID: "c", Dialect: perigee.DialectGemini}, model, true, func() (*perigee.Prompt, error) { return prompt, nil })
	for _, err := range r.Stream(t.Context(), req) {
		if err != nil {
			return err
		}
	}
	if prompt.Generation.Thinking != thinking {
		t.Error("the client's prompt was changed")
	}
	return nil
}

func TestNamesThatSayHowToThink(t *testing.T) {
	own := &perigee.Thinking{Include: new(true), Budget: new(int64(7)), Level: "low"}
	for _, c := range []struct {
		model string
		said  *perigee.Thinking
		want  string
	}{
		{"gemini-3-flash", nil, "gemini-3-flash verbatim"},
		{"gemini-3-flash(high)", nil, "gemini-3-flash level=high verbatim"},
		{"gemini-3-flash(high)", own, "gemini-3-flash level=high include=true verbatim"},
		{"gemini-3-flash(512)", own, "gemini-3-flash budget=512 include=true verbatim"},
		{"gemini-3-flash-low", nil, "gemini-3-flash level=low verbatim"},
		{"gemini-3-flash-thinking", nil, "gemini-3-flash budget=-1 verbatim"},
		{"gemini-3-flash-thinking", &perigee.Thinking{Include: new(true)}, "gemini-3-flash budget=-1 include=true verbatim"},
		{"gemini-3-flash-thinking", own, "gemini-3-flash budget=7 level=low include=true verbatim"},
		{"best-thinking", nil, "gemini-3-flash budget=-1 verbatim"},
		{"gemini-3.1-pro-low", nil, "gemini-3.1-pro-low verbatim"},
		{"best", nil, "gemini-3-flash level=high verbatim"},
		{"best(low)", nil, "gemini-3-flash level=low verbatim"},
		{"best-low", nil, "gemini-3-flash level=low verbatim"},
		{"better", nil, "gemini-3-flash level=high verbatim"},
		{"round", nil, "trip verbatim"}, // aliases in a circle end somewhere
	} {
		l := &listener{has: []string{"gemini-3-flash", "gemini-3.1-pro-low", "trip"}}
		r := router(t, Options{Targets: []Target{{"a", l}}, Aliases: map[string]string{"best": "gemini-3-flash(high)", "better": "best", "round": "trip"}})
		if err := say(t, r, c.model, c.said); err != nil || len(l.heard) != 1 || l.heard[0] != c.want {
			t.Errorf("%s: heard %q, %v; want %q", c.model, l.heard, err, c.want)
		}
	}
}

func TestAliasesInACircleEnd(t *testing.T) {
	l := &listener{has: []string{"x", "y"}}
	r := router(t, Options{Targets: []Target{{"a", l}}, Aliases: map[string]string{"x": "y(low)", "y": "x(high)"}})
	if err := say(t, r, "x", nil); err != nil || len(l.heard) != 1 {
		t.Errorf("heard %q, %v", l.heard, err)
	}
}

// A dash may be part of a name that only the provider knows, once it was asked for its list.
func TestListedNamesAreNotSplit(t *testing.T) {
	l := &listener{has: []string{"mine", "mine-high", "other-thinking"}}
	l.models = []string{"mine", "mine-high", "other", "other-thinking"}
	r := router(t, Options{Targets: []Target{{"a", l}}})
	if _, err := r.Models(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mine-high", "mine-low", "mine-thinking", "other-thinking"} {
		if err := say(t, r, name, nil); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"mine-high verbatim", "mine level=low verbatim", "mine budget=-1 verbatim", "other-thinking verbatim"}; !slices.Equal(l.heard, want) {
		t.Errorf("heard %q, want %q", l.heard, want)
	}
}

func TestAPromptThatCannotBeRead(t *testing.T) {
	l := &listener{has: []string{"m"}}
	r := router(t, Options{Targets: []Target{{"a", l}}})
	req := perigee.NewRequest(perigee.Origin{}, "m(high)", true, func() (*perigee.Prompt, error) { return nil, errors.New("garbled") })
	for _, err := range r.Stream(t.Context(), req) {
		if err == nil || len(l.heard) > 0 {
			t.Errorf("heard %q, %v", l.heard, err)
		}
	}
}

func TestReplacements(t *testing.T) {
	for _, c := range []struct {
		name   string
		asked  string
		has    []string
		listed []string // nil means the upstream cannot say
		heard  string
		class  perigee.Class
	}{
		{"there", "gemini-3-pro-high", []string{"gemini-3-pro-high"}, nil, "gemini-3-pro-high", ""},
		{"gone", "gemini-3-pro-high", []string{"gemini-pro-agent"}, []string{"gemini-pro-agent"}, "gemini-3-pro-high, gemini-pro-agent", ""},
		{"gone, and no list", "gemini-3-pro-high", []string{"gemini-pro-agent"}, nil, "gemini-3-pro-high, gemini-pro-agent", ""},
		{"gone, and so is what replaced it", "gemini-3-pro-high", nil, []string{"x"}, "gemini-3-pro-high", perigee.ClassNotFound},
		{"two that stand for each other", "gemini-3-flash", nil, nil, "gemini-3-flash, gemini-3-flash-preview", perigee.ClassNotFound},
		{"over two steps", "claude-sonnet-4-5-thinking", []string{"claude-sonnet-4-6"}, []string{"claude-sonnet-4-6"}, "claude-sonnet-4-5-thinking, claude-sonnet-4-6", ""},
		{"listed: something else was not found", "gemini-3-flash", nil, []string{"gemini-3-flash", "gemini-3-flash-preview"}, "gemini-3-flash", perigee.ClassNotFound},
		{"nothing replaces it", "gemini-2.5-pro", nil, nil, "gemini-2.5-pro", perigee.ClassNotFound},
		{"nobody knows it", "mystery", nil, nil, "mystery", perigee.ClassNotFound},
		{"with a suffix", "gemini-3-pro-high(low)", []string{"gemini-pro-agent"}, nil, "gemini-3-pro-high level=low, gemini-pro-agent level=low", ""},
	} {
		l := &listener{has: c.has}
		l.models = c.listed
		err := say(t, router(t, Options{Targets: []Target{{"a", l}}}), c.asked, nil)
		heard := strings.ReplaceAll(strings.Join(l.heard, ", "), " verbatim", "")
		class := perigee.Class("")
		if err != nil {
			class = perigee.AsError(err).Class
		}
		if heard != c.heard || class != c.class {
			t.Errorf("%s: heard %q, class %q; want %q, %q", c.name, heard, class, c.heard, c.class)
		}
	}
}

func TestAReplacementIsAskedWhereItLives(t *testing.T) {
	old, young := &listener{}, &listener{has: []string{"gemini-pro-agent"}}
	r := router(t, Options{Targets: []Target{{"old", old}, {"young", young}}, Rules: []Rule{{Match: "gemini-3-*", To: []string{"old"}}, {Match: "*", To: []string{"young"}}}})
	if heard, err := ask(r, "gemini-3-pro-high"); heard != "(mapped model gemini-3-pro-high to gemini-pro-agent) young/gemini-pro-agent hello" || err != nil {
		t.Errorf("heard %q, %v", heard, err)
	}
	young.has, young.class = nil, perigee.ClassExhausted
	if _, err := ask(r, "gemini-3-pro-high"); perigee.AsError(err).Class != perigee.ClassExhausted {
		t.Errorf("got %v: that the replacement is exhausted can pass", err)
	}
}

// What has begun to answer is not replaced, whatever it says then.
func TestNoReplacementAfterTheFirstByte(t *testing.T) {
	a := &source{events: []perigee.Event{{Kind: perigee.EventText, Text: "on"}}, err: perigee.Errorf(perigee.ClassNotFound, "lost")}
	if _, err := ask(router(t, Options{Targets: []Target{{"a", a}}}), "gemini-3-flash"); err == nil || err.Error() != "lost" || len(a.asked) != 1 {
		t.Errorf("asked %q, %v", a.asked, err)
	}
}

func TestCountingAsksTheReplacement(t *testing.T) {
	counter := &counting{has: "gemini-3-flash-preview"}
	r := router(t, Options{Targets: []Target{{"a", counter}}})
	if count, err := r.CountTokens(t.Context(), request("gemini-3-flash")); err != nil || count.Total != 7 {
		t.Errorf("got %v", err)
	}
	if _, err := r.CountTokens(t.Context(), request("gemini-2.5-pro")); perigee.AsError(err).Class != perigee.ClassNotFound {
		t.Errorf("got %v", err)
	}
}

type counting struct {
	source
	has string
}

func (c *counting) CountTokens(_ context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	if req.Model != c.has {
		return nil, perigee.Errorf(perigee.ClassNotFound, "no %s", req.Model)
	}
	return &perigee.TokenCount{Total: 7}, nil
}

func TestListsAreCompleted(t *testing.T) {
	a := says("a")
	a.models = []string{"gemini-2.5-pro", "mystery"}
	list, err := router(t, Options{Targets: []Target{{"a", a}}}).Models(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	if m := list[0]; m.DisplayName != "Gemini 2.5 Pro" || m.Context != 1048576 || m.Output != 65536 || !m.Thinking {
		t.Errorf("got %+v", m)
	}
	if m := list[1]; m.DisplayName != "" || m.Context != 0 || m.Thinking {
		t.Errorf("something was made up about %+v", m)
	}
	said := describe(perigee.Model{ID: "gemini-2.5-pro", DisplayName: "Pro", Context: 1, Output: 2})
	if said.DisplayName != "Pro" || said.Context != 1 || said.Output != 2 {
		t.Errorf("what the provider says was replaced: %+v", said)
	}
}
