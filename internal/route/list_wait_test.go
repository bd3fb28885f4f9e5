package route

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// A hangingLister is an upstream whose list of models does not come.
type hangingLister struct {
	source
	asked atomic.Int32
}

func (s *hangingLister) Models(ctx context.Context) ([]perigee.Model, error) {
	s.asked.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// A slowLister lists its models after a time.
type slowLister struct {
	source
	takes time.Duration
}

// Models returns the list when the time is over. Real time: the time of a bubble, in each test.
func (s *slowLister) Models(ctx context.Context) ([]perigee.Model, error) {
	select {
	case <-time.After(s.takes):
		return s.source.Models(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A list that does not come in time delays one call, and not each one that names an unknown model.
// A client that leaves says nothing about the list, and its request goes on.
func TestHangingListDelaysOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lister := &hangingLister{}
		r := router(t, Options{Targets: []Target{{"a", lister}}, Base: t.Context()})
		ask := func(ctx context.Context) time.Duration {
			began := time.Now()
			if unsure, err := r.Missing(ctx, "unknown"); !unsure || err != nil {
				t.Errorf("unsure %t, %v", unsure, err)
			}
			return time.Since(began)
		}
		gone, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if took := ask(gone); took != time.Second {
			t.Errorf("a client that leaves after a second: %v", took)
		}
		for i, want := range []time.Duration{modelsWait - time.Second, 0, 0} {
			if took := ask(t.Context()); took != want {
				t.Errorf("call %d took %v, want %v", i, took, want)
			}
		}
		for i, want := range []int32{2, 3} {
			time.Sleep(modelsLimit + modelsRetry)
			took := ask(t.Context())
			synctest.Wait()
			if asked := lister.asked.Load(); took != 0 || asked != want {
				t.Errorf("round %d took %v, and the list was asked for %d times", i, took, asked)
			}
		}
	})
}

// A server of its own models that hangs is first in the configuration. A call for a model of the
// table goes to the upstream behind it, which has the model, without a wait for the list of the
// first one beyond listGrace. If the first one lists the model in that time, it answers.
func TestHangingListDelaysNoModelOfTheTable(t *testing.T) {
	const model = "gemini-3-flash"
	slow := func(text string, takes time.Duration, names ...string) *slowLister {
		return &slowLister{source: *lists(text, names...), takes: takes}
	}
	second := func() perigee.Upstream { return slow("b", time.Millisecond, model) }
	for _, c := range []struct {
		name    string
		first   perigee.Upstream
		second  perigee.Upstream
		own     string // the upstreams with models of their own
		answers string
		took    time.Duration
	}{
		{"it hangs", &hangingLister{source: *says("a")}, second(), "a", "b", listGrace},
		{"both are slow", slow("a", time.Second, "x"), slow("b", time.Second, model), "a", "b", listGrace},
		{"it has the model", slow("a", time.Millisecond, model), second(), "a", "a", time.Millisecond},
		{"it has other models", slow("a", 20*time.Millisecond, "x"), second(), "a", "b", 20 * time.Millisecond},
		{"it is the second", second(), &hangingLister{source: *says("b")}, "b", "b", 0},
		{"both have models of their own", &hangingLister{source: *says("a")}, second(), "a b", "b", listGrace},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				own := map[string]bool{}
				for name := range strings.FieldsSeq(c.own) {
					own[name] = true
				}
				r := router(t, Options{Targets: []Target{{"a", c.first}, {"b", c.second}}, Own: own, Base: t.Context()})
				for i, want := range []time.Duration{c.took, 0, 0} {
					began := time.Now()
					heard, err := ask(r, model)
					if took := time.Since(began); took != want || !strings.HasSuffix(heard, c.answers) || err != nil {
						t.Errorf("call %d took %v, want %v; heard %q, %v", i, took, want, heard, err)
					}
				}
			})
		})
	}
}

// No list is requested for a model of the table at upstreams that have no models of their own.
func TestModelsOfTheTableNeedNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &hangingLister{source: *says("a")}, &hangingLister{source: *says("b")}
		r := router(t, Options{Targets: []Target{{"a", a}, {"b", b}}, Base: t.Context()})
		if heard, err := ask(r, "gemini-3-flash"); !strings.HasSuffix(heard, "a") || err != nil {
			t.Errorf("heard %q, %v", heard, err)
		}
		synctest.Wait()
		if a, b := a.asked.Load(), b.asked.Load(); a+b > 0 {
			t.Errorf("lists were requested: %d and %d", a, b)
		}
	})
}

// The list of all models waits for slow upstreams for mergedWait, once. A late list is in the next
// one, and stays in it while it is renewed. The list of one upstream waits for it.
func TestTheListOfAllModelsWaitsForMergedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowLister{source: *lists("a", "x"), takes: 20 * time.Second}
		targets := []Target{{"slow", slow}, {"b", lists("b", "m")}, {"hangs", &hangingLister{}}}
		r := router(t, Options{Targets: targets, Base: t.Context()})
		list := func(upstream, want string, limit time.Duration) {
			t.Helper()
			began := time.Now()
			models, failed, err := r.ModelsOf(t.Context(), upstream)
			var words []string
			for _, m := range models {
				words = append(words, m.ID)
			}
			for _, f := range failed {
				words = append(words, "-"+f.Upstream)
			}
			if got := strings.Join(words, " "); got != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
			if took := time.Since(began); took != limit {
				t.Errorf("%s: took %v, want %v", want, took, limit)
			}
		}
		list("", "m -slow -hangs", mergedWait)
		list("", "m -slow -hangs", 0)
		list("slow", "x", slow.takes-mergedWait)
		list("", "x m -hangs", 0)
		time.Sleep(modelsFresh)
		list("", "x m -hangs", 0)
		time.Sleep(modelsFresh)
		list("", "x m -hangs", 0)
	})
}

// The only upstream is waited for: without its list there is nothing to answer with.
func TestTheListOfTheOnlyUpstreamIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := router(t, Options{Targets: []Target{{"a", &slowLister{source: *lists("a", "x"), takes: 20 * time.Second}}}, Base: t.Context()})
		if models, err := r.Models(t.Context()); len(models) != 1 || err != nil {
			t.Errorf("%v, %v", models, err)
		}
		r = router(t, Options{Targets: []Target{{"a", &hangingLister{}}}, Base: t.Context()})
		began := time.Now()
		models, err := r.Models(t.Context())
		if took := time.Since(began); took != modelsLimit || err == nil {
			t.Errorf("%v, %s after %v", models, fmt.Sprint(err), took)
		}
	})
}

// While no upstream has listed its models, there is nothing to answer with: the first list is waited
// for, but not again for a server that hangs.
func TestTheFirstListIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowLister{source: *lists("a", "x"), takes: 20 * time.Second}
		down := &refuser{class: perigee.ClassUnavailable}
		r := router(t, Options{Targets: []Target{{"hangs", &hangingLister{}}, {"down", down}, {"slow", slow}}, Base: t.Context()})
		began := time.Now()
		models, err := r.Models(t.Context())
		if took := time.Since(began); took != slow.takes || len(models) != 1 || err != nil {
			t.Errorf("%v, %v after %v", models, err, took)
		}
		r = router(t, Options{Targets: []Target{{"hangs", &hangingLister{}}, {"down", down}}, Base: t.Context()})
		for i, want := range []time.Duration{firstWait, 0} {
			began = time.Now()
			models, err = r.Models(t.Context())
			if took := time.Since(began); took != want || err == nil {
				t.Errorf("round %d: %v, %v after %v", i, models, err, took)
			}
			time.Sleep(modelsLimit + modelsRetry)
		}
	})
}

// A canceledLister is a hangingLister with the error of a call that was canceled.
type canceledLister struct{ hangingLister }

func (s *canceledLister) Models(ctx context.Context) ([]perigee.Model, error) {
	_, _ = s.hangingLister.Models(ctx)
	return nil, perigee.Errorf(perigee.ClassCanceled, "the call was canceled")
}

// The error of an upstream that hangs says that it did not answer in time. A list of several
// upstreams says so as well, when its own wait is over and when the request is.
func TestAListThatDoesNotComeIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := router(t, Options{Targets: []Target{{"hangs", &canceledLister{}}, {"b", lists("b", "m")}}, Base: t.Context()})
		late := func(want string, err error) {
			t.Helper()
			if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassUnavailable || !strings.Contains(e.Message, want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		for _, want := range []string{"has not listed its models yet", "did not list its models within 1m0s"} {
			if _, failed, _ := r.ModelsOf(t.Context(), ""); len(failed) != 1 {
				t.Errorf("%v", failed)
			} else {
				late(want, failed[0].Err)
			}
			time.Sleep(modelsLimit)
		}
		_, _, err := r.ModelsOf(t.Context(), "hangs")
		late("did not list its models", err)
		_, _, err = r.FreshModelsOf(t.Context(), "hangs")
		late("did not list its models", err)
	})
}

// A list that fails is logged once, and again when it fails in another way or after it came.
func TestFailedListsAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		lister := &refuser{source: *lists("a", "m")}
		r := router(t, Options{Targets: []Target{{"a", lister}}, Base: t.Context(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for i, step := range []struct {
			class perigee.Class
			want  int // lines so far
		}{
			{perigee.ClassForbidden, 1}, {perigee.ClassForbidden, 1}, {perigee.ClassUnavailable, 2}, {"", 2}, {perigee.ClassUnavailable, 3},
		} {
			lister.class = step.class
			if i == 1 {
				r.ForgetModels()
			}
			_, _ = r.Models(t.Context())
			synctest.Wait()
			if got := strings.Count(log.String(), "level=WARN msg=\"model list failed\" upstream=a"); got != step.want {
				t.Errorf("step %d: %d lines\n%s", i, got, log.String())
			}
			time.Sleep(modelsFresh)
		}
	})
}

// A slowListener is a listener that lists its models after a time, or not at all if that is 0.
type slowListener struct {
	listener
	takes time.Duration
}

// Models returns the list when the time is over. Real time: the time of a bubble, in each test.
func (s *slowListener) Models(ctx context.Context) ([]perigee.Model, error) {
	if s.takes == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return (&slowLister{source: s.source, takes: s.takes}).Models(ctx)
}

// Whether a name ends with a thinking suffix is not decided before the lists that tell it have come,
// in the first call as in later ones. Names that need no list do not wait for one.
func TestSuffixesWaitForTheLists(t *testing.T) {
	for _, c := range []struct {
		asked, heard string
		a, b         time.Duration // until the lists come
		names        string        // of b
		took         time.Duration
	}{
		{"b/mine-high", "mine level=high", 0, time.Second, "mine", time.Second},
		{"b/mine-high", "mine-high", 0, time.Second, "mine mine-high", time.Second},
		{"mine-high", "mine level=high", time.Millisecond, time.Second, "mine", time.Second},
		{"mine-high", "mine level=high", 0, 100 * time.Millisecond, "mine", listGrace},
		{"mine-high", "mine-high", 0, time.Second, "mine mine-high", time.Second},
		{"nick-high", "mine level=high", 0, time.Second, "mine", 0},
		{"b/mine-high", "mine-high", 0, 0, "mine", modelsWait},
		{"b/mine", "mine", 0, time.Second, "mine", 0},
		{"b/mine(high)", "mine level=high", 0, time.Second, "mine", 0},
		{"b/gemini-3-flash-high", "gemini-3-flash level=high", 0, time.Second, "gemini-3-flash", 0},
	} {
		t.Run(c.asked, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := &slowListener{takes: c.a}, &slowListener{takes: c.b}
				a.models, b.models = []string{"other"}, strings.Fields(c.names)
				b.has = append(b.models, "mine-high")
				r := router(t, Options{Targets: []Target{{"a", a}, {"b", b}}, Base: t.Context(), Own: map[string]bool{"a": true, "b": true},
					Aliases: map[string]string{"nick": "b/mine"}})
				for i, want := range []time.Duration{c.took, 0} {
					began := time.Now()
					err := say(t, r, c.asked, nil)
					took := time.Since(began)
					if heard := strings.TrimSuffix(b.heard[len(b.heard)-1], " verbatim"); err != nil || heard != c.heard || took != want {
						t.Errorf("call %d: heard %q after %v, %v; want %q after %v", i, heard, took, err, c.heard, want)
					}
				}
				if len(a.heard) > 0 {
					t.Errorf("the other upstream heard %q", a.heard)
				}
			})
		})
	}
}

// The names by which a key allows a model are the same before and after the list has come, and a
// request that is pinned to an upstream uses the lists of all requests.
func TestSuffixesOfOtherRequestsWaitToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &slowListener{listener: listener{has: []string{"mine"}}, takes: time.Second}
		b.models = b.has
		r := router(t, Options{Targets: []Target{{"b", b}}, Base: t.Context()})
		if names := r.Names(t.Context(), "b/mine-high"); strings.Join(names, " ") != "mine" {
			t.Errorf("the names are %q", names)
		}
		began := time.Now()
		req := request("mine-high")
		req.Pinned = "b"
		if heard, err := askFor(r, req); err != nil || b.heard[0] != "mine level=high" || time.Since(began) > 0 {
			t.Errorf("heard %q, %q after %v, %v", heard, b.heard, time.Since(began), err)
		}
	})
}

// A countingLister is a slowLister with an error, if that is set, that counts the requests.
type countingLister struct {
	slowLister
	asked atomic.Int32
	err   error
}

func (s *countingLister) Models(ctx context.Context) ([]perigee.Model, error) {
	s.asked.Add(1)
	if s.err != nil {
		return nil, s.err
	}
	return s.slowLister.Models(ctx)
}

// A fresh list is requested although there is a cached one, and its failure is reported. Calls and
// lists that are not fresh use the cached list meanwhile, and after it.
func TestFreshListsAreRequested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lister := &countingLister{slowLister: slowLister{source: *lists("a", "x", "y")}}
		r := router(t, Options{Targets: []Target{{"a", lister}}, Base: t.Context()})
		cached := func() {
			t.Helper()
			began, before := time.Now(), lister.asked.Load()
			models, failed, err := r.ModelsOf(t.Context(), "a")
			if len(models) != 2 || len(failed) > 0 || err != nil {
				t.Errorf("%v, %v, %v", models, failed, err)
			}
			if unsure, err := r.Missing(t.Context(), "unknown"); unsure || err == nil {
				t.Errorf("unsure %t, %v", unsure, err)
			}
			if took := time.Since(began); took > 0 || lister.asked.Load() != before {
				t.Errorf("took %v, and made %d requests", took, lister.asked.Load()-before)
			}
		}
		if models, _, err := r.ModelsOf(t.Context(), "a"); len(models) != 2 || err != nil {
			t.Fatalf("%v, %v", models, err)
		}
		if models, failed, err := r.FreshModelsOf(t.Context(), "a"); len(models) != 2 || len(failed) > 0 || err != nil || lister.asked.Load() != 2 {
			t.Errorf("%v, %v, %v after %d requests", models, failed, err, lister.asked.Load())
		}
		lister.takes = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		over := make(chan error)
		go func() {
			_, _, err := r.FreshModelsOf(ctx, "a")
			over <- err
		}()
		synctest.Wait()
		cached()
		if err := <-over; err == nil {
			t.Error("a list that did not come is no error")
		}
		cached()
		lister.err = perigee.Errorf(perigee.ClassUnavailable, "connection refused")
		if models, failed, err := r.FreshModelsOf(t.Context(), "a"); len(models) > 0 || len(failed) != 1 || err == nil {
			t.Errorf("%v, %v, %v", models, failed, err)
		}
		cached()
	})
}

// A namingLister lists its models, but their details do not come.
type namingLister struct{ hangingLister }

func (s *namingLister) Models(ctx context.Context) ([]perigee.Model, error) {
	list, _ := s.source.Models(ctx)
	perigee.ReportNames(ctx, list)
	return s.hangingLister.Models(ctx)
}

// The names of a list count at once, while the upstream still has no details of its models: a call
// goes there without a wait, and not to another upstream.
func TestNamesCountBeforeDetails(t *testing.T) {
	for _, names := range [][]string{{"m"}, {"x", "m:latest"}} {
		synctest.Test(t, func(t *testing.T) {
			first, second := &namingLister{hangingLister{source: *lists("a", names...)}}, lists("b", "y")
			r := router(t, Options{Targets: []Target{{"b", second}, {"a", first}}, Own: map[string]bool{"a": true, "b": true}, Base: t.Context()})
			for i := range 2 {
				began := time.Now()
				heard, err := ask(r, "m")
				if took := time.Since(began); took != 0 || heard != "a/real-a a" || err != nil {
					t.Errorf("call %d took %v; heard %q, %v", i, took, heard, err)
				}
			}
			if list, failed, err := r.ModelsOf(t.Context(), ""); err != nil || len(failed) > 0 || len(list) != len(names)+1 {
				t.Errorf("got %v, %v, %v", list, failed, err)
			}
			time.Sleep(modelsLimit) // the details fail
			synctest.Wait()
			if heard, err := ask(r, "m"); heard != "a/real-a a" || err != nil || first.asked.Load() != 1 || len(second.asked) > 0 {
				t.Errorf("without details: heard %q, %v; the list was asked for %d times", heard, err, first.asked.Load())
			}
		})
	}
}

// A name without a tag is not missing where the list has it with the tag latest.
func TestNameWithoutTagIsNotMissing(t *testing.T) {
	r := router(t, Options{Targets: []Target{{"a", lists("a", "m:latest")}, {"b", lists("b", "y")}}})
	if unsure, err := r.Missing(t.Context(), "m"); unsure || err != nil {
		t.Errorf("unsure %t, %v", unsure, err)
	}
	if _, err := r.Missing(t.Context(), "n"); err == nil {
		t.Error("a name in no list is not missing")
	}
}
