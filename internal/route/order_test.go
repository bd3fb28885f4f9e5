package route

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// lists is an upstream that answers every name and lists some; none means that it has no list.
func lists(text string, names ...string) *source {
	s := says(text)
	s.models = names
	return s
}

// A name goes to the upstreams that list it, then to those without a list, in the order of the
// configuration. An upstream that lists only other models is not asked, even if it would answer.
func TestNamesGoToTheUpstreamsThatListThem(t *testing.T) {
	fail := func(s *source) *source {
		s.events, s.err = nil, perigee.Errorf(perigee.ClassCapacity, "busy")
		return s
	}
	for _, c := range []struct {
		name    string
		options Options
		asked   string
		want    string
	}{
		{"the second lists it", Options{Targets: []Target{{"a", lists("a", "x")}, {"b", lists("b", "m")}}}, "m", "b"},
		{"both list it", Options{Targets: []Target{{"a", lists("a", "m")}, {"b", lists("b", "m")}}}, "m", "a"},
		{"no list, and one that has it", Options{Targets: []Target{{"a", lists("a")}, {"b", lists("b", "m")}}}, "m", "b"},
		{"it fails, and then no list", Options{Targets: []Target{{"a", lists("a", "x")}, {"b", lists("b")}, {"c", fail(lists("c", "m"))}}}, "m", "c b"},
		{"only other models, and no list", Options{Targets: []Target{{"a", lists("a", "x")}, {"b", lists("b")}}}, "m", "b"},
		{"only other models", Options{Targets: []Target{{"a", fail(lists("a", "x"))}, {"b", lists("b", "y")}}}, "m", "a b"},
		{"left out", Options{Targets: []Target{{"a", lists("a", "m")}, {"b", lists("b", "m")}}, Offered: map[string][]string{"a": {"x"}}}, "m", "b"},
		{"a rule", Options{Targets: []Target{{"a", lists("a", "x")}, {"b", lists("b", "m")}}, Rules: []Rule{{Match: "*", To: []string{"a", "b"}}}}, "m", "a"},
		{"a name in the table", Options{Targets: []Target{{"a", lists("a", "x")}, {"b", lists("b", "gemini-2.5-pro")}}}, "gemini-2.5-pro", "a"},
	} {
		r := router(t, c.options)
		_, _ = ask(r, c.asked)
		var got []string
		for _, target := range c.options.Targets {
			if s := target.Upstream.(*source); len(s.asked) > 0 {
				got = append(got, target.Name)
			}
		}
		want := strings.Fields(c.want)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: asked %q, want %q", c.name, got, c.want)
		}
		if order := r.targetsOrdered(t, c.asked); order != c.want && !strings.HasPrefix(order, c.want+" ") && c.name != "a name in the table" {
			t.Errorf("%s: the order is %q, want %q", c.name, order, c.want)
		}
	}
}

func (r *Router) targetsOrdered(t *testing.T, asked string) string {
	found, err := r.resolve(asked, unconditional)
	if err != nil {
		t.Fatal(err)
	}
	r.order(t.Context(), &found)
	var names []string
	for _, target := range found.targets {
		names = append(names, target.Name)
	}
	return strings.Join(names, " ")
}

// A server that hangs delays calls for models of another one by listGrace at first, and not at all
// afterwards. Its list comes when it answers again.
func TestHangingListDelaysNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, b := &hangingLister{source: *says("a")}, lists("b", "m")
		r := router(t, Options{Targets: []Target{{"a", hangs}, {"b", b}}, Base: t.Context()})
		for i, want := range []time.Duration{listGrace, 0, 0} {
			began := time.Now()
			heard, err := ask(r, "m")
			if took := time.Since(began); took != want || heard != "b/real-b b" || err != nil {
				t.Errorf("call %d took %v, want %v; heard %q, %v", i, took, want, heard, err)
			}
			time.Sleep(modelsWait + modelsRetry)
		}
		synctest.Wait()
		if len(hangs.source.asked) > 0 {
			t.Errorf("asked %q", hangs.source.asked)
		}
	})
}

// A server that hangs is not asked for a name that is in no list, but by the name of the upstream.
func TestAHangingUpstreamIsNotAskedForUnknownNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, b := &hangingLister{source: *says("a")}, fails(perigee.ClassNotFound)
		b.models = []string{"m"}
		r := router(t, Options{Targets: []Target{{"a", hangs}, {"b", b}}, Base: t.Context()})
		for i, want := range []time.Duration{modelsWait, 0} {
			began := time.Now()
			_, err := ask(r, "unknown")
			e := perigee.AsError(err)
			if e == nil || e.Class != perigee.ClassUnavailable || e.Upstream != "a" || time.Since(began) != want ||
				e.Error() != `upstream a does not answer, and may have the model "unknown"; no other upstream has it; try again, or ask for a/unknown, which waits for it` {
				t.Errorf("call %d: %v after %v, want %v", i, err, time.Since(began), want)
			}
		}
		if heard, err := ask(r, "a/unknown"); heard != "a/real-a a" || err != nil || len(hangs.source.asked) != 1 {
			t.Errorf("heard %q, %v; asked %q", heard, err, hangs.source.asked)
		}
		if _, err := ask(r, "m"); err == nil || err.Error() != "it is not_found" {
			t.Errorf("a listed model, so something else was not found: %v", err)
		}
		alone := &hangingLister{source: *says("a")}
		r = router(t, Options{Targets: []Target{{"a", alone}, {"c", &hangingLister{source: *says("c")}}}, Base: t.Context()})
		if heard, err := ask(r, "unknown"); heard != "a/real-a a" || err != nil {
			t.Errorf("no other upstream: heard %q, %v", heard, err)
		}
	})
}

// The fallback answers for names that are in no list, whatever is wrong with the servers that have not
// listed their models. Without one, these are asked last.
func TestFallbackBesideAServerThatFails(t *testing.T) {
	for _, class := range []perigee.Class{perigee.ClassUnavailable, perigee.ClassUnauthenticated, perigee.ClassForbidden} {
		for _, fallback := range []string{"m", ""} {
			down, there := fails(class), &listener{has: []string{"m"}}
			there.models = []string{"m"}
			broken := failingLister{down, class}
			r := router(t, Options{Targets: []Target{{"a", broken}, {"b", there}}, Fallback: fallback})
			heard, err := ask(r, "unknown")
			switch {
			case fallback != "":
				if heard != "(mapped model unknown to m) b/m hello" || err != nil || len(down.asked) > 0 {
					t.Errorf("%s: heard %q, %v; asked %q", class, heard, err, down.asked)
				}
			case err == nil || perigee.AsError(err).Class != class || len(down.asked) != 1:
				t.Errorf("%s: heard %q, %v; asked %q", class, heard, err, down.asked)
			}
		}
	}
}

// A failingLister lists no models, for a reason.
type failingLister struct {
	*source
	class perigee.Class
}

func (f failingLister) Models(context.Context) ([]perigee.Model, error) {
	return nil, perigee.Errorf(f.class, "no list")
}

// The last list stays while an upstream fails to list its models.
func TestTheLastListStays(t *testing.T) {
	now := time.Unix(0, 0)
	a, b := lists("a", "x"), lists("b", "m")
	r := router(t, Options{Targets: []Target{{"a", a}, {"b", b}}, Now: func() time.Time { return now }})
	names := func() string {
		list, failed, err := r.ModelsOf(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range list {
			ids = append(ids, m.ID)
		}
		for _, f := range failed {
			ids = append(ids, "-"+f.Upstream)
		}
		return strings.Join(ids, " ")
	}
	if got := names(); got != "x m" {
		t.Errorf("got %q", got)
	}
	now = now.Add(modelsFresh)
	b.models = nil
	if got := names(); got != "x m -b" {
		t.Errorf("got %q", got)
	}
	if heard, err := ask(r, "m"); heard != "b/real-b b" || err != nil {
		t.Errorf("heard %q, %v", heard, err)
	}
}

// A model that answers in place of another one is asked where a call for it would go, and explained
// in the same way.
func TestReplacementsGoToTheUpstreamsThatListThem(t *testing.T) {
	for _, c := range []struct{ asked, fallback, want string }{
		{"nosuch", "b1", "(mapped model nosuch to b1) b/b1 hello"},
		{"nosuch", "nick", "(mapped model nosuch to b1) b/b1 hello"},
		{"nosuch", "b/b1", "(mapped model nosuch to b1) b/b1 hello"},
		{"gemini-3-pro-high", "", "(mapped model gemini-3-pro-high to gemini-pro-agent) b/gemini-pro-agent hello"},
	} {
		a, b := &listener{}, &listener{has: []string{"b1", "gemini-pro-agent"}}
		a.models, b.models = []string{"a1"}, b.has
		r := router(t, Options{Targets: []Target{{"a", a}, {"b", b}}, Fallback: c.fallback, Aliases: map[string]string{"nick": "b1"},
			Own: map[string]bool{"a": true, "b": true}})
		heard, err := ask(r, c.asked)
		if heard != c.want || err != nil || len(a.heard) != 1 || !strings.HasPrefix(a.heard[0], c.asked) {
			t.Errorf("%s: heard %q, %v; a heard %q", c.asked, heard, err, a.heard)
		}
		e, err := r.Explain(t.Context(), perigee.RouteQuestion{Model: c.asked}, func(string, string) perigee.RouteCandidate { return perigee.RouteCandidate{Usable: true} })
		if e.Upstream != "b" || err != nil {
			t.Errorf("%s: %+v, %v", c.asked, e, err)
		}
	}
}

// The patterns of a key are compared with the model that answers. A pattern of aliases, which does
// not apply to the fallback, allows nothing.
func TestAPatternDoesNotAllowTheFallback(t *testing.T) {
	l := &listener{has: []string{"claude-big"}}
	r := router(t, Options{Targets: []Target{{"a", l}}, Fallback: "claude-big", Aliases: map[string]string{"claude-*": "small"}})
	req := request("gpt-9")
	req.MayUse = func(model string) bool { return model == "gpt-9" || model == "small" }
	if heard, err := askFor(r, req); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
		t.Errorf("heard %q, %v", heard, err)
	}
}
