package route

import (
	"slices"
	"strings"
	"testing"

	"perigee"
)

// UPSTREAM/MODEL is the model of that upstream, whatever rules, aliases and other upstreams there
// are.
func TestNamesWithAnUpstream(t *testing.T) {
	for _, c := range []struct{ asked, want string }{
		{"a/m", "a: m"},
		{"b/m", "b: m"},
		{"b/routed", "b: routed"}, // the rule is for names without an upstream
		{"b/m(high)", "b: m level=high"},
		{"fast", "b: m level=low"},
		{"b/nick", "b: nick, error:not_found"}, // an alias is not a name of an upstream
		{"b/lost", "b: lost, error:not_found"}, // and nothing answers instead
		{"a/old", "a: old, error:not_found"},
		{"c/m", "a: c/m, error:not_found"}, // no upstream has this name
		{"a/b/m", "a: b/m, error:not_found"},
		{"b/c/d", "b: c/d"},
		{"own/name", "a: m"}, // an exact alias
		{"a/", "a: a/, error:not_found"},
	} {
		a, b := &listener{has: []string{"m"}}, &listener{has: []string{"m", "routed", "c/d", "big"}}
		a.models, b.models = []string{"m"}, []string{"m", "routed", "c/d", "big"}
		r := router(t, Options{Targets: []Target{{"a", a}, {"b", b}}, Rules: []Rule{{Match: "*", To: []string{"a"}}},
			Aliases: map[string]string{"nick": "m", "fast": "b/m(low)", "own/name": "m"}})
		if strings.HasPrefix(c.asked, "b/") {
			r.opts.Fallback = "big"
		}
		err := say(t, r, c.asked, nil)
		got := ""
		for name, l := range map[string]*listener{"a": a, "b": b} {
			if len(l.heard) > 0 {
				got += name + ": " + strings.ReplaceAll(strings.Join(l.heard, ", "), " verbatim", "")
			}
		}
		if err != nil {
			got += ", error:" + string(perigee.AsError(err).Class)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.asked, got, c.want)
		}
	}
}

// A successor answers for UPSTREAM/MODEL, if it is a model of that upstream.
func TestSuccessorsOfNamesWithAnUpstream(t *testing.T) {
	old, young := &listener{}, &listener{has: []string{"gemini-pro-agent"}}
	old.models, young.models = []string{"x"}, []string{"gemini-pro-agent"}
	r := router(t, Options{Targets: []Target{{"old", old}, {"young", young}}, Fallback: "gemini-pro-agent"})
	if heard, err := ask(r, "young/gemini-3-pro-high"); heard != "(mapped model gemini-3-pro-high to gemini-pro-agent) young/gemini-pro-agent hello" || err != nil {
		t.Errorf("heard %q, %v", heard, err)
	}
	if heard, err := ask(r, "old/gemini-3-pro-high"); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassNotFound || len(young.heard) != 2 {
		t.Errorf("heard %q, %v", heard, err)
	}
}

// An upstream is meant also if another upstream has a model of the whole name.
func TestAnUpstreamWinsOverTheNameOfAModel(t *testing.T) {
	router1, vendor := &listener{has: []string{"vendor/m"}}, &listener{has: []string{"m"}}
	r := router(t, Options{Targets: []Target{{"router", router1}, {"vendor", vendor}}})
	if heard, err := ask(r, "vendor/m"); heard != "vendor/m hello" || err != nil || len(router1.heard) > 0 {
		t.Errorf("heard %q, %v", heard, err)
	}
	if heard, err := ask(r, "router/vendor/m"); heard != "router/vendor/m hello" || err != nil {
		t.Errorf("heard %q, %v", heard, err)
	}
}

// The patterns of a key are compared with the model, not with an upstream that has such a name.
func TestNamesForKeys(t *testing.T) {
	r := router(t, Options{Targets: []Target{{"gemini-eu", says("a")}, {"studio", says("b")}}, Default: "m",
		Aliases: map[string]string{"nick": "studio/gemini-3-flash", "studio/own": "other"}})
	for asked, want := range map[string]string{
		"gemini-eu/other": "other", "studio/gemini-3-flash(high)": "gemini-3-flash", "gemini-3-flash(high)": "gemini-3-flash(high) gemini-3-flash",
		"nick": "nick gemini-3-flash", "": "m", "m": "m m", "studio/own": "studio/own other",
	} {
		if got := strings.Join(r.Names(t.Context(), asked), " "); got != want {
			t.Errorf("%s: got %q, want %q", asked, got, want)
		}
	}
}

// A model that the settings of all upstreams leave out is missing, and nothing answers instead.
func TestModelsThatAreLeftOut(t *testing.T) {
	for _, c := range []struct {
		asked   string
		offered map[string][]string
		want    string
	}{
		{"gemini-3-pro-high", nil, "gemini-pro-agent"},
		{"mystery", nil, "big"},
		{"gemini-3-pro-high", map[string][]string{"a": {"gemini-pro-*", "big"}}, ""},
		{"a/gemini-3-pro-high", map[string][]string{"a": {"gemini-pro-*", "big"}}, ""},
		{"mystery", map[string][]string{"a": {"big"}}, ""},
	} {
		l := &listener{has: []string{"gemini-pro-agent", "big"}}
		l.models = l.has
		r := router(t, Options{Targets: []Target{{"a", l}}, Fallback: "big", Offered: c.offered})
		err := say(t, r, c.asked, nil)
		if _, missing := r.Missing(t.Context(), c.asked); c.asked == "mystery" && (missing != nil) != (c.want == "") {
			t.Errorf("%s: missing is %v", c.asked, missing)
		}
		if (err != nil) != (c.want == "") || c.want != "" && !strings.HasPrefix(l.heard[len(l.heard)-1], c.want) {
			t.Errorf("%s: heard %q, %v", c.asked, l.heard, err)
		}
		if err != nil && perigee.AsError(err).Class != perigee.ClassNotFound {
			t.Errorf("%s: %v", c.asked, err)
		}
	}
}

// A model of several upstreams is listed for each, and the aliases are not.
func TestListsNameTheUpstreamsOfSharedModels(t *testing.T) {
	a, b := says("a"), says("b")
	a.models, b.models = []string{"gemini-2.5-pro", "x"}, []string{"y", "gemini-2.5-pro", "gemini-2.5-pro"}
	r := router(t, Options{Targets: []Target{{"a", a}, {"b", b}}, Aliases: map[string]string{"nick": "gemini-2.5-pro"}})
	list, err := r.Models(t.Context())
	var got []string
	for _, m := range list {
		got = append(got, m.ID+"@"+m.Upstream)
	}
	want := []string{"gemini-2.5-pro@a", "x@a", "y@b", "nick@a", "a/gemini-2.5-pro@a", "b/gemini-2.5-pro@b"}
	if !slices.Equal(got, want) || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if name := list[len(list)-1].DisplayName; name != "Gemini 2.5 Pro (b)" {
		t.Errorf("it is shown as %q", name)
	}
	for _, name := range r.known(t.Context(), "") {
		if strings.Contains(name, "/") {
			t.Errorf("%s is proposed", name)
		}
	}
}

// A model with a name that means a model of another upstream, or another model of its own, is listed
// only with its upstream. An exact alias of the name decides what it means.
func TestListsNameTheUpstreamsOfTakenNames(t *testing.T) {
	// A router may still ask for lists when it is not needed any more, so each has upstreams of its own.
	fresh := func() *Router {
		vendor, hub := &listener{has: []string{"m"}}, &listener{has: []string{"vendor/m", "hub/auto", "vendor/own", "x/y"}}
		vendor.models, hub.models = vendor.has, hub.has
		return router(t, Options{Targets: []Target{{"vendor", vendor}, {"hub", hub}},
			Aliases: map[string]string{"vendor/own": "x/y", "nick": "hub/vendor/m"}})
	}
	for _, c := range []struct{ upstream, want string }{
		{"", "m@vendor x/y@hub nick@hub vendor/own@hub hub/vendor/m@hub hub/hub/auto@hub"},
		{"hub", "x/y@hub nick@hub vendor/own@hub hub/vendor/m@hub hub/hub/auto@hub"},
		{"vendor", "m@vendor"},
	} {
		r := fresh()
		list, _, err := r.ModelsOf(t.Context(), c.upstream)
		var got []string
		for _, m := range list {
			got = append(got, m.ID+"@"+m.Upstream)
			if heard, err := ask(r, m.ID); err != nil {
				t.Errorf("%s is listed, but a call fails: %q, %v", m.ID, heard, err)
			}
		}
		if strings.Join(got, " ") != c.want || err != nil {
			t.Errorf("models of %q: got %q, %v, want %q", c.upstream, got, err, c.want)
		}
	}
	r := fresh()
	if known := r.known(t.Context(), "hub"); !slices.Contains(known, "vendor/m") {
		t.Errorf("the names at hub are %q", known)
	}
	if known := r.known(t.Context(), ""); !slices.Contains(known, "hub/vendor/m") || slices.Contains(known, "vendor/m") {
		t.Errorf("the names are %q", known)
	}
}
