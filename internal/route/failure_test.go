package route

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"perigee"
)

// attemptSource is an upstream that keeps its own steps.
type attemptSource struct {
	*source
	step perigee.Attempt
}

func (u attemptSource) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	req.Log.AddAttempt(u.step)
	return u.source.Stream(ctx, req)
}

// tried formats attempts: the upstream, the reason, and the outcome.
func tried(log *perigee.CallLog) string {
	var list []string
	for _, s := range log.Attempts() {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s (%s) %s", s.Upstream, s.Why, s.Class)))
	}
	return strings.Join(list, ", ")
}

// What was tried is on record whenever there was more than one try, and only then: up to the one
// that answered, or to the last that did not.
func TestStepsExplainTheResult(t *testing.T) {
	own := attemptSource{fails(perigee.ClassExhausted), perigee.Attempt{Upstream: "b", Why: "its own words", Class: perigee.ClassExhausted}}
	broken := &source{events: []perigee.Event{{Kind: perigee.EventText, Text: "half"}}, err: perigee.Errorf(perigee.ClassUnavailable, "reset")}
	for _, test := range []struct {
		name    string
		targets []perigee.Upstream
		want    string
	}{
		{"the first answers", []perigee.Upstream{says("one"), says("two")}, ""},
		{"the only one fails", []perigee.Upstream{fails(perigee.ClassUnavailable)}, ""},
		{"the request is at fault", []perigee.Upstream{fails(perigee.ClassInvalid), says("two")}, ""},
		{"the second answers", []perigee.Upstream{fails(perigee.ClassCapacity), says("two")}, "a (upstream 1 of 2 for m) capacity, b (upstream 2 of 2 for m)"},
		{"the second breaks off", []perigee.Upstream{fails(perigee.ClassCapacity), broken}, "a (upstream 1 of 2 for m) capacity, b (upstream 2 of 2 for m) unavailable"},
		{"both fail", []perigee.Upstream{fails(perigee.ClassUnavailable), fails(perigee.ClassExhausted)},
			"a (upstream 1 of 2 for m) unavailable, b (upstream 2 of 2 for m) exhausted"},
		{"the second says so itself", []perigee.Upstream{fails(perigee.ClassUnavailable), own}, "a (upstream 1 of 2 for m) unavailable, b (its own words) exhausted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var targets []Target
			for i, u := range test.targets {
				targets = append(targets, Target{string(rune('a' + i)), u})
			}
			req := request("m")
			req.Log = &perigee.CallLog{}
			for range router(t, Options{Targets: targets}).Stream(t.Context(), req) {
			}
			if got := tried(req.Log); got != test.want {
				t.Errorf("tried %q, want %q", got, test.want)
			}
		})
	}
}

// A model that took the place of another was not the first try either.
func TestStepsOfAReplacement(t *testing.T) {
	a := &replacing{}
	req := request("gemini-2.0-flash")
	req.Log = &perigee.CallLog{}
	for _, err := range router(t, Options{Targets: []Target{{"a", a}}}).Stream(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := tried(req.Log)
	if len(a.asked) != 2 || got != "a (upstream 1 of 1 for gemini-2.0-flash) not_found, a (upstream 1 of 1 for "+a.asked[1]+")" {
		t.Errorf("asked %q, tried %q", a.asked, got)
	}
}

// replacing is an upstream that has every model but the first that it is asked for.
type replacing struct{ asked []string }

func (u *replacing) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	u.asked = append(u.asked, req.Model)
	if len(u.asked) == 1 {
		return fails(perigee.ClassNotFound).Stream(ctx, req)
	}
	return says("instead").Stream(ctx, req)
}

func TestStepsOfACount(t *testing.T) {
	req := request("m")
	req.Log = &perigee.CallLog{}
	if _, err := router(t, Options{Targets: []Target{{"a", &source{}}}}).CountTokens(t.Context(), req); err != nil || len(req.Log.Attempts()) != 0 {
		t.Errorf("%v, tried %s", err, tried(req.Log))
	}
	if _, err := router(t, Options{Targets: []Target{{"a", fails(perigee.ClassCapacity)}, {"b", &source{}}}}).CountTokens(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if got, want := tried(req.Log), "a (upstream 1 of 2 for m) capacity, b (upstream 2 of 2 for m)"; got != want {
		t.Errorf("tried %q, want %q", got, want)
	}
}

// The error for a call that no upstream answers names each of them, briefly.
func TestTheErrorNamesAllWhoFailed(t *testing.T) {
	fails := func(class perigee.Class, text string) *source { return &source{err: perigee.Errorf(class, "%s", text)} }
	hidden := &perigee.Error{Class: perigee.ClassUnavailable, Message: "the file /x is gone", Public: "our own trouble"}
	for _, test := range []struct {
		name    string
		targets []Target
		want    string
		told    string // to clients, when that is something else
	}{
		{"one", []Target{{"s1", fails(perigee.ClassUnavailable, "upstream s1 cannot be reached")}}, "upstream s1 cannot be reached", ""},
		{"both are dead", []Target{{"s1", fails(perigee.ClassUnavailable, "upstream s1 cannot be reached: refused")}, {"s2", fails(perigee.ClassUnavailable, "upstream s2 cannot be reached: refused")}},
			"upstream s1 cannot be reached: refused; then s2: cannot be reached: refused", ""},
		{"each in its own words", []Target{{"s1", fails(perigee.ClassExhausted, "no quota.")}, {"s2", fails(perigee.ClassUnauthenticated, "upstream s2: the key is refused.")}},
			"s1: no quota; then s2: the key is refused", ""},
		{"one has not got the model", []Target{{"s1", fails(perigee.ClassExhausted, "no quota")}, {"s2", fails(perigee.ClassNotFound, "no m")}}, "no quota", ""},
		{"a long story", []Target{{"s1", fails(perigee.ClassExhausted, "no quota")}, {"s2", fails(perigee.ClassUnavailable, strings.Repeat("x", 5000))}},
			"s1: no quota; then s2: " + strings.Repeat("x", maxWords-len("…")) + "…", ""},
		{"many", []Target{{"s1", fails(perigee.ClassCapacity, "full")}, {"s2", fails(perigee.ClassCapacity, "full")}, {"s3", fails(perigee.ClassCapacity, "full")},
			{"s4", fails(perigee.ClassCapacity, "full")}, {"s5", fails(perigee.ClassCapacity, "full")}}, "s1: full; then s2: full; then s3: full; then s4: full; and 1 more", ""},
		{"the first is our own business", []Target{{"s1", &source{err: hidden}}, {"s2", fails(perigee.ClassCapacity, "full")}}, "s1: the file /x is gone; then s2: full", "our own trouble; then s2: full"},
		{"the second is our own business", []Target{{"s1", fails(perigee.ClassCapacity, "full")}, {"s2", &source{err: hidden}}}, "s1: full; then s2: our own trouble", ""},
	} {
		_, err := ask(router(t, Options{Targets: test.targets}), "m")
		e := perigee.AsError(err)
		if e.Message != test.want || e.Public != test.told {
			t.Errorf("%s: %q (%q)\nwant %q (%q)", test.name, e.Message, e.Public, test.want, test.told)
		}
		if first := test.targets[0].Upstream.(*source).err; !errors.Is(err, first) || e.Class != perigee.AsError(first).Class {
			t.Errorf("%s: the first error is lost in %+v", test.name, e)
		}
	}
}

// A forwardingSource gets the client's own bytes.
type forwardingSource struct{ *source }

func (forwardingSource) Forwards(*perigee.Request) bool { return true }
func (forwardingSource) ReadsURLs() bool                { return true }

// That an upstream lacks the model is not lost where the next one would need a translation of a request
// that perigee does not understand.
func TestMissingModelBesideAnUnreadableRequest(t *testing.T) {
	lacking := forwardingSource{&source{err: perigee.Errorf(perigee.ClassNotFound, "model not found")}}
	dead := forwardingSource{&source{err: perigee.Errorf(perigee.ClassUnavailable, "connection refused")}}
	for name, c := range map[string]struct {
		targets []Target
		want    string
	}{
		"the first lacks it":        {[]Target{{"s1", lacking}, {"s2", says("x")}}, "not_found s1: model not found; then s2: unknown part"},
		"another one is in trouble": {[]Target{{"s1", lacking}, {"s2", dead}, {"s3", says("x")}}, "unavailable s2: connection refused; then s3: unknown part"},
		"no upstream reads it":      {[]Target{{"s1", says("x")}}, "invalid unknown part"},
	} {
		req := perigee.NewRequest(perigee.Origin{Log: &perigee.CallLog{}}, "m", false, func() (*perigee.Prompt, error) {
			return nil, perigee.Errorf(perigee.ClassInvalid, "unknown part")
		})
		_, err := askFor(router(t, Options{Targets: c.targets}), req)
		if e := perigee.AsError(err); e == nil || string(e.Class)+" "+e.Message != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// A name that the client did not write is told together with the one that it wrote.
func TestNobodyHasWhatAnAliasStandsFor(t *testing.T) {
	for asked, want := range map[string]string{
		"gemini-3-flsh": `no model "gemini-3-flsh" at s; the nearest names are gemini-3-flash`,
		"gpt-4o":        `no model "gemini-3-flsh" (asked as gpt-4o) at s; the nearest names are gemini-3-flash`,
		"":              `no model "gemini-3-flsh" (models.default, as the request names none) at s; the nearest names are gemini-3-flash`,
	} {
		s := fails(perigee.ClassNotFound)
		s.models = []string{"gemini-3-flash"}
		r := router(t, Options{Targets: []Target{{"s", s}}, Default: "gpt-4o", Aliases: map[string]string{"gpt-4o": "gemini-3-flsh"}})
		if _, err := ask(r, asked); err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", asked, err, want)
		}
		if _, err := r.Missing(t.Context(), asked); err == nil || err.Error() != want {
			t.Errorf("%q is missing: %v\nwant %s", asked, err, want)
		}
	}
}

// BenchmarkStream is the ordinary call: the first upstream answers.
func BenchmarkStream(b *testing.B) {
	r, err := New(Options{Targets: []Target{{"a", quiet{}}, {"b", quiet{}}}})
	if err != nil {
		b.Fatal(err)
	}
	req := request("m")
	req.Log = &perigee.CallLog{}
	b.ReportAllocs()
	for b.Loop() {
		for range r.Stream(b.Context(), req) {
		}
	}
	if len(req.Log.Attempts()) > 0 {
		b.Error("there are steps")
	}
}

// quiet is an upstream that answers without remembering.
type quiet struct{}

var quietEvents = says("yes").events

func (quiet) Stream(context.Context, *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		for _, ev := range quietEvents {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// A call that all upstreams refuse for their limits can succeed when the first of the limits ends.
func TestTheLimitThatEndsFirstCounts(t *testing.T) {
	limit := func(class perigee.Class, retry time.Duration) *source {
		return &source{err: &perigee.Error{Class: class, Message: "for " + retry.String(), Hint: "wait " + retry.String(), Retry: retry}, models: []string{}}
	}
	const day = 24 * time.Hour
	used, busy, down := perigee.ClassExhausted, perigee.ClassRateLimited, fails(perigee.ClassUnavailable)
	for _, test := range []struct {
		name    string
		sources []*source
		want    string
	}{
		{"the second", []*source{limit(used, day), limit(busy, time.Minute)}, "rate_limited 1m0s: a: for 24h0m0s; then b: for 1m0s; wait 1m0s"},
		{"the first", []*source{limit(busy, time.Minute), limit(used, day)}, "rate_limited 1m0s: a: for 1m0s; then b: for 24h0m0s; wait 1m0s"},
		{"the third", []*source{limit(used, day), limit(used, 2*day), limit(used, time.Hour)},
			"exhausted 1h0m0s: a: for 24h0m0s; then b: for 48h0m0s; then c: for 1h0m0s; wait 1h0m0s"},
		{"not one without a time", []*source{limit(used, day), limit(busy, 0), down},
			"exhausted 24h0m0s: a: for 24h0m0s; then b: for 0s; then c: it is unavailable; wait 24h0m0s"},
		{"trouble comes first", []*source{down, limit(busy, time.Minute)}, "unavailable 0s: a: it is unavailable; then b: for 1m0s"},
	} {
		var targets []Target
		for i, s := range test.sources {
			targets = append(targets, Target{string(rune('a' + i)), s})
		}
		for _, err := range router(t, Options{Targets: targets}).Stream(t.Context(), request("m")) {
			e := perigee.AsError(err)
			if got := fmt.Sprintf("%s %s: %s", e.Class, e.Retry, e.Error()); got != test.want {
				t.Errorf("%s: %s, want %s", test.name, got, test.want)
			}
		}
	}
}

// An upstream without a usable account says nothing about a model. Its list does, unless the model
// is one that providers have without listing it.
func TestAModelThatIsMissingIsNotWaitedFor(t *testing.T) {
	none := func(models ...string) *source {
		return &source{err: &perigee.Error{Class: perigee.ClassExhausted, Message: "no account", Retry: time.Hour, Cause: perigee.ErrNotAsked}, models: models}
	}
	asked := func(models ...string) *source {
		s := none(models...)
		perigee.AsError(s.err).Cause = nil
		return s
	}
	missing := func() *source {
		return &source{err: perigee.Errorf(perigee.ClassNotFound, "none"), models: []string{"x"}}
	}
	for _, test := range []struct {
		name     string
		targets  []Target
		fallback string
		model    string
		want     perigee.Class
		answered string
	}{
		{"it is listed", []Target{{"a", missing()}, {"b", none("m")}}, "", "m", perigee.ClassExhausted, ""},
		{"it is not listed", []Target{{"a", missing()}, {"b", none("x")}}, "", "m", perigee.ClassNotFound, ""},
		{"no list", []Target{{"a", missing()}, {"b", none()}}, "", "m", perigee.ClassExhausted, ""},
		{"the provider was asked", []Target{{"a", missing()}, {"b", asked("x")}}, "", "m", perigee.ClassExhausted, ""},
		{"it is in the table", []Target{{"a", missing()}, {"b", none("x")}}, "", "gemini-3-flash", perigee.ClassExhausted, ""},
		{"a fallback", []Target{{"b", none("x")}, {"c", &replacing{}}}, "f", "m", "", "real-instead"},
	} {
		var class perigee.Class
		answered := ""
		for ev, err := range router(t, Options{Targets: test.targets, Fallback: test.fallback}).Stream(t.Context(), request(test.model)) {
			if err != nil {
				class = perigee.AsError(err).Class
			}
			if ev.Kind == perigee.EventStart {
				answered = ev.Model
			}
		}
		if class != test.want || answered != test.answered {
			t.Errorf("%s: class %q, answered by %q", test.name, class, answered)
		}
	}
}

// An upstream that does not answer requests of that sort says nothing about the model.
func TestMissingModelBesideAnUpstreamThatIsUnable(t *testing.T) {
	for _, classes := range [][]perigee.Class{{perigee.ClassNotFound, perigee.ClassUnimplemented}, {perigee.ClassUnimplemented, perigee.ClassNotFound}} {
		r := router(t, Options{Targets: []Target{{"a", fails(classes[0])}, {"b", fails(classes[1])}}})
		if _, err := ask(r, "x"); perigee.AsError(err).Class != perigee.ClassNotFound || !strings.Contains(err.Error(), `no model "x"`) {
			t.Errorf("%v: %v", classes, err)
		}
	}
	r := router(t, Options{Targets: []Target{{"a", fails(perigee.ClassUnimplemented)}, {"b", fails(perigee.ClassUnimplemented)}}})
	if _, err := ask(r, "x"); perigee.AsError(err).Class != perigee.ClassUnimplemented {
		t.Error(err)
	}
}

// Neither an alias nor the fallback applies to a name with its upstream.
func TestAdviceForNamesWithAnUpstream(t *testing.T) {
	r := router(t, Options{Targets: []Target{{"a", fails(perigee.ClassNotFound)}}})
	for name, want := range map[string]bool{"x": true, "a/x": false} {
		if _, err := ask(r, name); strings.Contains(err.Error(), "models.fallback") != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A call that the client leaves is canceled at the upstream that was asked then.
func TestACanceledCallIsOfTheLastUpstream(t *testing.T) {
	r := router(t, Options{Targets: []Target{{"a", fails(perigee.ClassUnavailable)}, {"b", fails(perigee.ClassCanceled)}}})
	if _, err := ask(r, "x"); perigee.AsError(err).Class != perigee.ClassCanceled || perigee.AsError(err).Upstream != "b" {
		t.Errorf("%v, %+v", err, perigee.AsError(err))
	}
}
