package doctor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// want checks a result: its status, words of its detail, and that it has a fix exactly if it is not
// OK.
func want(t *testing.T, r Result, status Status, words ...string) {
	t.Helper()
	if r.Status != status {
		t.Errorf("got %+v, want %s", r, status)
	}
	if (r.Fix != "") != (r.Status != OK) {
		t.Errorf("the fix of a result with status %s is %q", r.Status, r.Fix)
	}
	for _, word := range words {
		if !strings.Contains(r.Detail+"\n"+r.Fix, word) {
			t.Errorf("got %+v, without %q", r, word)
		}
	}
}

func TestResultsKeepTheOrderOfTheirChecks(t *testing.T) {
	first := make(chan struct{})
	checks := []Check{
		{NameConfig, func(ctx context.Context) []Result {
			select {
			case <-first:
			case <-ctx.Done():
			}
			return []Result{ok(NameConfig, "one")}
		}},
		{NameAccount, func(context.Context) []Result {
			return []Result{ok(NameAccount+"b", "two"), ok(NameAccount+"a", "three")}
		}},
		{NameProxy, func(context.Context) []Result { close(first); return nil }},
	}
	var waiting [][]string
	results := runChecks(t.Context(), checks, time.Minute, func(names []string) { waiting = append(waiting, slices.Clone(names)) })
	var details []string
	for _, r := range results {
		details = append(details, r.Detail)
	}
	if got := strings.Join(details, " "); got != "one two three" {
		t.Errorf("got %s", got)
	}
	if len(waiting) != 2 || len(waiting[0]) != 2 || len(waiting[1]) != 1 {
		t.Errorf("waited for %v", waiting)
	}
}

// A check may ignore the end of its context, such as one that waits for a file of a network that is
// gone.
func TestCheckThatDoesNotEndHasAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		results := runChecks(t.Context(), []Check{{NameStore, func(context.Context) []Result { <-over; return nil }}}, time.Millisecond, nil)
		if len(results) != 1 {
			t.Fatalf("got %v", results)
		}
		want(t, results[0], Warn, "did not end within 1ms", "perigee doctor --timeout 30s")
	})
}

func TestSortedHasTheOrderOfTheGroups(t *testing.T) {
	var names, wanted []string
	var results []Result
	for _, g := range Groups {
		for _, name := range g.Names {
			if strings.HasSuffix(name, ":") {
				wanted = append(wanted, name+"b", name+"a")
				continue
			}
			wanted = append(wanted, name)
		}
	}
	for _, name := range wanted {
		results = append(results, ok(name, ""))
	}
	slices.SortStableFunc(results, func(a, b Result) int { return strings.Compare(b.Check, a.Check) })
	for _, r := range Sorted(results) {
		names = append(names, r.Check)
	}
	if !slices.Equal(names, wanted) {
		t.Errorf("got %v, want %v", names, wanted)
	}
}

func TestMergeKeepsWhatIsWorst(t *testing.T) {
	r := merge(NameBridge, []Result{ok(NameBridge, "fine"), warn(NameBridge, "one", "bad"), fail(NameBridge, "two", "worse"), fail(NameBridge, "three", "too")})
	if r != fail(NameBridge, "two", "bad; worse; too") {
		t.Errorf("got %+v", r)
	}
	if r := merge(NameBridge, []Result{ok(NameBridge, "a"), ok(NameBridge, "b")}); r != ok(NameBridge, "a; b") {
		t.Errorf("got %+v", r)
	}
}
