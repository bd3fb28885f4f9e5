package dialect

import (
	"reflect"
	"testing"

	"perigee"
)

func found(query string, urls ...string) *perigee.Grounding {
	g := &perigee.Grounding{Queries: []string{query}}
	for _, url := range urls {
		g.Sources = append(g.Sources, perigee.Source{URL: url})
	}
	return g
}

func TestLaterWordStandsForTheEarlierOne(t *testing.T) {
	var trail Searches
	trail.Add(found("a", "https://1"))
	trail.Add(found("a", "https://1", "https://2"))
	if got := trail.New(); len(got) != 1 || len(got[0].Sources) != 2 {
		t.Errorf("told %v, want one search with two sources", got)
	}
	if got := trail.All(); len(got.Sources) != 2 {
		t.Errorf("all is %v, want two sources", got)
	}
}

func TestTellsOnlyWhatIsNew(t *testing.T) {
	var trail Searches
	trail.Add(found("a", "https://1"))
	trail.New()
	if got := trail.New(); got != nil {
		t.Errorf("told %v twice", got)
	}
	more := found("a", "https://1", "https://2")
	more.Queries = append(more.Queries, "b")
	trail.Add(more)
	want := []perigee.Grounding{{Queries: []string{"b"}, Sources: []perigee.Source{{URL: "https://2"}}}}
	if got := trail.New(); !reflect.DeepEqual(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

func TestSeveralSearchesAreKept(t *testing.T) {
	var trail Searches
	first, second := found("a", "https://1"), found("b", "https://2")
	second.Supports = []perigee.Support{{Text: "x", Sources: []int64{0, 7}}}
	trail.Add(first)
	trail.Add(second)
	if got := trail.New(); len(got) != 2 {
		t.Errorf("told %v, want two searches", got)
	}
	all := trail.All()
	if len(all.Sources) != 2 || !reflect.DeepEqual(all.Supports[0].Sources, []int64{1}) {
		t.Errorf("all is %+v: the support should rest on the second source", all)
	}
	if second.Supports[0].Sources[0] != 0 {
		t.Error("what was added was changed")
	}
}
