package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/server/mount"
)

// A pagesRig is pages over an upstream that has some models.
type pagesRig struct {
	systemPages
	call   mount.Call
	models []perigee.Model
}

func newPagesRig(models ...string) *pagesRig {
	rig := &pagesRig{}
	for _, id := range models {
		rig.models = append(rig.models, perigee.Model{ID: id, Upstream: "studio"})
	}
	model := func(name string) string { return strings.TrimSuffix(name, "-alias") }
	rig.systemPages = systemPages{&Options{Upstream: rig, Model: model, Names: func(_ context.Context, name string) []string { return []string{name, model(name)} }}}
	return rig
}

func (r *pagesRig) Stream(context.Context, *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(func(perigee.Event, error) bool) {}
}

func (r *pagesRig) Models(context.Context) ([]perigee.Model, error) { return r.models, nil }

// do makes a request to whichever path matches.
func (r *pagesRig) do(t *testing.T, method, target string, headers ...string) (w *httptest.ResponseRecorder, failed error) {
	t.Helper()
	req := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	req.Host = cmp.Or(req.Header.Get("Host"), req.Host)
	r.call.Fail = func(err error) { failed = err }
	req = req.WithContext(mount.WithCall(req.Context(), &r.call))
	w = httptest.NewRecorder()
	for _, p := range r.Points() {
		if wildcard, ok := mount.MatchPath(p.Path, req.URL.Path); ok {
			mount.SetWildcard(req, wildcard)
			p.Handler.ServeHTTP(w, req)
			return w, failed
		}
	}
	t.Fatalf("no path %s", target)
	return nil, nil
}

func class(err error) perigee.Class {
	if err == nil {
		return ""
	}
	return perigee.AsError(err).Class
}

func TestReady(t *testing.T) {
	reasons := []Unready{{Reason: "no upstream can be asked", Detail: "studio: bad key"}, {Reason: "the store fails"}}
	for _, test := range []struct {
		reasons []Unready
		trusted bool
		status  int
		want    string
	}{
		{nil, false, 200, `{"status":"ready"}`},
		{reasons, false, 503, `{"status":"unready","reasons":["no upstream can be asked","the store fails"]}`},
		{reasons, true, 503, `{"status":"unready","reasons":["no upstream can be asked: studio: bad key","the store fails"]}`},
	} {
		rig := newPagesRig()
		rig.call.Trusted = test.trusted
		rig.Ready = func() []Unready { return test.reasons }
		w, err := rig.do(t, "GET", "/ready")
		if err != nil || w.Code != test.status || w.Body.String() != test.want || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d %s, %v", w.Code, w.Body, err)
		}
		if class := w.Header().Get("X-Perigee-Class"); class != map[int]string{503: "unavailable"}[test.status] {
			t.Errorf("%d: class %q", w.Code, class)
		}
	}
	if w, err := newPagesRig().do(t, "GET", "/ready"); err != nil || w.Code != 200 {
		t.Errorf("without a check: %d, %v", w.Code, err)
	}
	if _, err := newPagesRig().do(t, "POST", "/health"); err == nil || perigee.AsError(err).Status != http.StatusMethodNotAllowed {
		t.Errorf("POST /health: %v", err)
	}
}

// A key sees the models that it may ask, under their own names or through an alias.
func TestListsHaveTheModelsOfTheKey(t *testing.T) {
	rig := newPagesRig("a", "b", "c-alias")
	rig.call.AllowsModel = func(model string) bool { return model == "a" || model == "c" }
	for _, path := range []string{"/v1/models", "/v1beta/models"} {
		w, err := rig.do(t, "GET", path)
		if body := w.Body.String(); err != nil || !strings.Contains(body, `"a"`) && !strings.Contains(body, `models/a"`) ||
			strings.Contains(body, `b"`) ||
			!strings.Contains(body, `c-alias"`) {
			t.Errorf("%s: %s, %v", path, body, err)
		}
	}
	for name, want := range map[string]perigee.Class{"a": "", "b": perigee.ClassNotFound, "a-alias": "",
		"x": perigee.ClassNotFound, "a%00": perigee.ClassInvalid} {
		if _, err := rig.do(t, "GET", "/v1/models/"+name); class(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPagesOfAnthropicsList(t *testing.T) {
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("m%02d", i))
	}
	rig := newPagesRig(names...)
	rig.call.Anthropic = true
	for _, test := range []struct {
		query       string
		first, last string
		more        bool
		class       perigee.Class
	}{
		{"", "m00", "m19", true, ""},
		{"?limit=30", "m00", "m29", false, ""},
		{"?after_id=m19", "m20", "m29", false, ""},
		{"?before_id=m20&limit=5", "m15", "m19", true, ""},
		{"?after_id=m05&before_id=m10", "m06", "m09", false, ""},
		{"?after_id=m10&before_id=m05", "", "", false, ""},
		{"?after_id=m29", "", "", false, ""},
		{"?limit=0", "", "", false, perigee.ClassInvalid},
		{"?limit=1001", "", "", false, perigee.ClassInvalid},
		{"?after_id=gone", "", "", false, perigee.ClassInvalid},
	} {
		w, err := rig.do(t, "GET", "/v1/models"+test.query)
		if class(err) != test.class || err != nil {
			if class(err) != test.class {
				t.Errorf("%s: %v", test.query, err)
			}
			continue
		}
		var page struct {
			FirstID string `json:"first_id"`
			LastID  string `json:"last_id"`
			HasMore bool   `json:"has_more"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page.FirstID != test.first || page.LastID != test.last ||
			page.HasMore != test.more {
			t.Errorf("%s: %+v, %v", test.query, page, err)
		}
	}
}

func TestPagesOfGeminisList(t *testing.T) {
	rig := newPagesRig("a", "b", "c")
	token := func(id string) string { return base64.RawURLEncoding.EncodeToString([]byte(id)) }
	for query, want := range map[string]string{
		"": "a b c", "?pageSize=2": "a b +", "?pageSize=0": "a b c", "?pageSize=5000": "a b c", "?pageSize=2&pageToken=" +
			token("b"): "c",
		"?pageToken=" + token("c"): "", "?pageToken=" + token("gone"): "invalid", "?pageToken=!": "invalid",
		"?pageSize=-1": "invalid", "?pageSize=x": "invalid",
	} {
		w, err := rig.do(t, "GET", "/v1beta/models"+query)
		if err != nil {
			if string(class(err)) != want {
				t.Errorf("%s: %v", query, err)
			}
			continue
		}
		var page struct {
			Models []struct{ Name string }
			Next   string `json:"nextPageToken"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range page.Models {
			got = append(got, strings.TrimPrefix(m.Name, "models/"))
		}
		if page.Next != "" {
			got = append(got, "+")
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %q, want %q", query, text, want)
		}
	}
	if _, err := rig.do(t, "POST", "/v1beta/models/a"); class(err) != perigee.ClassNotFound ||
		!strings.Contains(err.Error(), ":generateContent") {
		t.Errorf("POST without a method: %v", err)
	}
}

// problems is a RoutingControl with an upstream that cannot be asked.
type problems struct{ perigee.RoutingControl }

func (problems) Models(context.Context, string, bool) (perigee.ModelList, error) {
	return perigee.ModelList{Problems: []perigee.Problem{{Upstream: "studio", Why: "bad key"}}}, nil
}

// The owner gets what upstreams cannot say with ?problems=true; other clients get the list as ever.
func TestProblemsAreForTheOwner(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		rig := newPagesRig("a")
		rig.call.Trusted, rig.Control.RoutingControl = trusted, problems{}
		w, err := rig.do(t, "GET", "/v1/models?problems=true")
		if err != nil || trusted != strings.Contains(w.Body.String(), `"problems":[{`) || trusted == strings.Contains(w.Body.String(), `"object":"list"`) {
			t.Errorf("trusted %v: %v, %s", trusted, err, w.Body)
		}
	}
}

func TestHealthShowsLanguageServers(t *testing.T) {
	rig := newPagesRig()
	w, err := rig.do(t, "GET", "/health")
	if err != nil || w.Code != http.StatusOK || w.Body.String() != `{"status":"ok"}` {
		t.Errorf("%d %s, %v", w.Code, w.Body, err)
	}
	rig.Langservers = func() []perigee.LangserverRow {
		return []perigee.LangserverRow{{Upstream: "a", State: "ready", Account: "ada@example.com"}, {Upstream: "b", State: "failed", PID: 7}}
	}
	w, err = rig.do(t, "GET", "/health")
	want := `{"status":"ok","langserver":[{"upstream":"a","state":"ready"},{"upstream":"b","state":"failed"}]}`
	if err != nil || w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("%d %s, %v", w.Code, w.Body, err)
	}
}
