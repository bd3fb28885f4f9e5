package antigravity

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
)

// What comes last before something that the client does not see must not wait for it: the client
// would get it only when the search is over.
func TestNothingWaitsForWhatIsHidden(t *testing.T) {
	var last perigee.Event
	u, p, _ := asking(t, func(attempt int, body string) *http.Response {
		switch {
		case attempt == 1:
			return events(`{"response":{"candidates":[{"content":{"role":"model","parts":[{"text":"let me look"},` +
				`{"functionCall":{"name":"google_search","args":{"query":"a"}}}]},"finishReason":"STOP"}]}}`)
		case isSearch(body) && last.More:
			t.Errorf("more was promised to the client before it was searched for, after an event of kind %d", last.Kind)
		}
		return events(saying(`{"text":"found"}`))
	})
	for ev, err := range u.Stream(t.Context(), prompt(t, "gemini-3-flash", canSearch)) {
		if err != nil {
			t.Fatal(err)
		}
		last = ev
	}
	if len(p.bodies) != 3 {
		t.Errorf("%d requests, want the question, the search and the question again", len(p.bodies))
	}
}

// BenchmarkStream is one call with an answer of twenty chunks, which have arrived all at once.
func BenchmarkStream(b *testing.B) {
	var chunks []string
	for i := range 20 {
		chunks = append(chunks, strings.Replace(beginning, "so far", fmt.Sprintf("a few words, number %d", i), 1))
	}
	chunks = append(chunks, saying(`{"text":"done"}`))
	p := &provider{answer: func(int, string) *http.Response { return events(chunks...) }}
	u := New(Options{Name: "gravity", Endpoints: []string{"https://daily.example"}, Accounts: &fakePool{token: perigee.NewSecret("an-access-token")}, Transport: p})
	defer u.Close()
	req, err := dialect.DecodeRequest(perigee.Origin{ID: "call-1", Body: []byte(user("hi"))}, "gemini-3-flash", true)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.bodies = p.bodies[:0]
		for _, err := range u.Stream(b.Context(), req) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
