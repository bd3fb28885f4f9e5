package mount

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"perigee"
)

func TestMatchPath(t *testing.T) {
	for _, test := range []struct {
		pattern, path string
		wildcard      string
		ok            bool
	}{
		{"/v1/models", "/v1/models", "", true},
		{"/v1/models", "/v1/models/", "", false},
		{"/v1/models/*", "/v1/models/a/b", "a/b", true},
		{"/v1/models/*", "/v1/models/", "", false},
		{"/v1/models/*", "/v1/model", "", false},
		{"/m/*:count", "/m/x:count", "x", true},
		{"/m/*:count", "/m/:count", "", true}, // the handler says what is missing
		{"/m/*:count", "/m/x:counted", "x:counted", false},
		{"/m/*:*", "/m/x:y", "x:y", true},
		{"/m/*:*", "/m/x", "x", false},
	} {
		got, ok := MatchPath(test.pattern, test.path)
		if ok != test.ok || ok && got != test.wildcard {
			t.Errorf("%s %s: %q, %v", test.pattern, test.path, got, ok)
		}
	}
}

// answer has a handler answer a request, and returns its error.
func answer(h http.Handler, method string) (w *httptest.ResponseRecorder, failed error) {
	r := httptest.NewRequest(method, "/", nil)
	r = r.WithContext(WithCall(r.Context(), &Call{ID: "c1", Fail: func(err error) { failed = err }}))
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w, failed
}

func TestMethods(t *testing.T) {
	named := func(name string) Handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			_, err := w.Write([]byte(name + " " + CallOf(r).ID))
			return err
		}
	}
	m := Methods{"GET": named("get"), "POST": named("post")}
	for method, want := range map[string]string{"GET": "get c1", "HEAD": "get c1", "POST": "post c1"} {
		if w, err := answer(m, method); err != nil || w.Body.String() != want {
			t.Errorf("%s: %s, %v", method, w.Body, err)
		}
	}
	for _, method := range []string{"DELETE", "OPTIONS", "get", strings.Repeat("X", 5000)} {
		w, err := answer(m, method)
		e := perigee.AsError(err)
		if err == nil || e.Status != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, POST" || len(e.Message) > 200 {
			t.Errorf("%.20s: %v, %v", method, err, w.Header())
		}
	}
	if w, err := answer(Methods{"POST": named("post")}, "HEAD"); err == nil || w.Header().Get("Allow") != "POST" {
		t.Errorf("HEAD without GET: %v", err)
	}
	if p := m.At("/x", Admin); p.Path != "/x" || p.Access != Admin || !slices.Equal(p.Methods, []string{"GET", "POST"}) {
		t.Errorf("%+v", p)
	}
}

func TestValuesAndLists(t *testing.T) {
	failed := errors.New("failed")
	for _, test := range []struct {
		handler Handler
		want    string
		err     error
	}{
		{List(func(*http.Request) ([]int, error) { return nil, nil }), "[]", nil},
		{List(func(*http.Request) ([]int, error) { return []int{1}, nil }), "[1]", nil},
		{List(func(*http.Request) ([]int, error) { return []int{1}, failed }), "", failed},
		{Value(func(*http.Request) (string, error) { return "x", nil }), `"x"`, nil},
		{Value(func(*http.Request) (string, error) { return "x", failed }), "", failed},
	} {
		w, err := answer(test.handler, "GET")
		if !errors.Is(err, test.err) || w.Body.String() != test.want {
			t.Errorf("%s, %v", w.Body, err)
		}
		if err == nil && w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%v", w.Header())
		}
	}
	if _, err := answer(Value(func(*http.Request) (any, error) { return func() {}, nil }), "GET"); err == nil {
		t.Error("what JSON cannot say is no error")
	}
}

func TestHeaderSafe(t *testing.T) {
	for text, want := range map[string]string{"plain": "plain", "a\r\nSet-Cookie: x": "a??Set-Cookie: x", "é\x7f": "???", "": "",
		"tool na…": "tool na..."} {
		if got := HeaderSafe(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got := HeaderSafe(strings.Repeat("x", 5000)); len(got) != 2003 || !strings.HasSuffix(got, "x...") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestCheckQuery(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "a=1&b=2": "", "a=%41": "", "a=1;b=2": "semicolon as %3B", "a=%": "percent sign as %25",
		"key=s%zzecret": "percent sign",
	} {
		err := CheckQuery(query)
		if (err == nil) != (want == "") || err != nil &&
			(!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "ecret")) {
			t.Errorf("%q: %v", query, err)
		}
	}
}

func TestParameters(t *testing.T) {
	query := func(text string) url.Values {
		q, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	for text, want := range map[string]string{
		"": "", "limit=1&key=x": "", "limit=1&limit=2": "is given 2 times", "limt=1": "did you mean limit?",
		"zzzzzzzz=1": "known parameters: limit",
	} {
		if err := KnownParameters(query(text), "limit"); (err == nil) != (want == "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := KnownParameters(query("x=1")); err == nil || !strings.Contains(err.Error(), "no parameters") {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]int{"": 7, "limit=1": 1, "limit=10": 10, "limit=0": -1, "limit=11": -1, "limit=1e1": -1,
		"limit=-3": -1} {
		if got, err := Limit(query(text), 7, 10, "hint"); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]bool{"": true, "since=2026-01-31T00:00:00Z": true, "since=yesterday": false,
		"since=2026-01-31": false} {
		if _, err := TimeParameter(query(text), "since"); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, want := range map[string]string{"": "false", "on=true": "true", "on=0": "false", "on=yes": "error"} {
		on, err := BoolParameter(query(text), "on")
		if (err != nil) != (want == "error") || err == nil && on != (want == "true") {
			t.Errorf("%q: %v, %v", text, on, err)
		}
	}
}

func TestUnusedParameters(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "alt=sse": nil, "key=x&$alt=json&prettyPrint=1": nil, "z=1&a=2&alt=sse": {"a", "z"}, "beta=true&x=1": {"x"},
	} {
		if got := UnusedParameters(&url.URL{RawQuery: text}, []string{"beta"}); !slices.Equal(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}
