package metrics

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"perigee"
	"perigee/internal/server/mount"
	"perigee/internal/testing/perigeetest/await"
)

// answered is a call that a model has answered.
func answered(model string) *perigee.Call {
	return &perigee.Call{
		ID: "call-1", Dialect: perigee.DialectAnthropic, Upstream: "studio", ModelAsked: model, Model: model,
		Outcome: perigee.OutcomeDone, FirstByte: 700 * time.Millisecond, Duration: 30 * time.Second,
		Usage: perigee.Usage{Input: 100, Cached: 40, Output: 20, Thinking: 5}, Cost: perigee.USD(0.12),
		Attempts: []perigee.Attempt{{Upstream: "gravity", Class: perigee.ClassExhausted}, {Upstream: "studio"}},
	}
}

// failed is a call that ended with an error before anything answered.
func failed(model string, class perigee.Class) *perigee.Call {
	return &perigee.Call{ID: "call-2", Dialect: perigee.DialectOpenAIChat, ModelAsked: model, Outcome: perigee.OutcomeFailed, Class: class,
		Duration: time.Millisecond}
}

// scrape returns the answer to a scrape, and the metrics in it by name.
func scrape(t *testing.T, m *Metrics, accept string) (text string, families map[string]*dto.MetricFamily) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r = r.WithContext(mount.WithCall(r.Context(), &mount.Call{Fail: func(err error) { t.Error(err) }}))
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	m.Point().Handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	text = w.Body.String()
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		return text, nil
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return text, families
}

// value is the value of a metric with these labels, as "name=value" in the order of the family; -1:
// there is none.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	for _, m := range families[name].GetMetric() {
		var got []string
		for _, l := range m.GetLabel() {
			got = append(got, l.GetName()+"="+l.GetValue())
		}
		if strings.Join(got, " ") != strings.Join(labels, " ") {
			continue
		}
		switch families[name].GetType() {
		case dto.MetricType_COUNTER:
			return m.GetCounter().GetValue()
		case dto.MetricType_HISTOGRAM:
			return m.GetHistogram().GetSampleSum()
		}
		return m.GetGauge().GetValue()
	}
	return -1
}

func TestCallsAreCounted(t *testing.T) {
	opts := stateOptions()
	opts.Version = "1.2.3"
	m := New(opts)
	m.Observe(answered("gemini-3-flash"))
	m.Observe(answered("gemini-3-flash"))
	unpriced := answered("unpriced")
	unpriced.Cost = perigee.Cost{}
	m.Observe(unpriced)
	m.Observe(failed("", perigee.ClassInvalid))
	m.Refused(perigee.DialectGemini, perigee.ClassUnauthenticated)
	_, got := scrape(t, m, "")
	for _, test := range []struct {
		want   float64
		name   string
		labels string
	}{
		{2, "perigee_requests_total", "class=ok dialect=anthropic model=gemini-3-flash upstream=studio"},
		{1, "perigee_requests_total", "class=invalid dialect=openai-chat model=other upstream=none"},
		{1, "perigee_requests_total", "class=unauthenticated dialect=gemini model=other upstream=none"},
		{3, "perigee_attempts_total", "class=ok upstream=studio"},
		{3, "perigee_attempts_total", "class=exhausted upstream=gravity"},
		{200, "perigee_tokens_total", "kind=input model=gemini-3-flash upstream=studio"},
		{80, "perigee_tokens_total", "kind=cached model=gemini-3-flash upstream=studio"},
		{40, "perigee_tokens_total", "kind=output model=gemini-3-flash upstream=studio"},
		{10, "perigee_tokens_total", "kind=thinking model=gemini-3-flash upstream=studio"},
		{0.24, "perigee_cost_usd_total", "model=gemini-3-flash upstream=studio"},
		{-1, "perigee_cost_usd_total", "model=unpriced upstream=studio"},
		{90, "perigee_request_seconds", "dialect=anthropic upstream=studio"},
		{0.001, "perigee_request_seconds", "dialect=openai-chat upstream=none"},
		{2.1, "perigee_first_byte_seconds", "dialect=anthropic upstream=studio"},
		{-1, "perigee_first_byte_seconds", "dialect=openai-chat upstream=none"},
	} {
		if v := value(got, test.name, strings.Fields(test.labels)...); fmt.Sprintf("%.6f", v) != fmt.Sprintf("%.6f", test.want) {
			t.Errorf("%s{%s} is %v, want %v", test.name, test.labels, v, test.want)
		}
	}
	if info := got["perigee_build_info"].GetMetric(); len(info) != 1 || info[0].GetGauge().GetValue() != 1 || info[0].GetLabel()[1].GetValue() != "1.2.3" {
		t.Errorf("build info: %v", info)
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if got[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
}

// A client can ask for any name. It gets a label only if there is such a model.
func TestLabelsOfModelsAreBounded(t *testing.T) {
	opts := stateOptions()
	opts.Known = func(name string) bool { return name == "known" }
	m := New(opts)
	m.Observe(failed("known", perigee.ClassRateLimited))
	m.Observe(failed("nobody-has-it", perigee.ClassNotFound))
	reached := failed("", perigee.ClassUnavailable)
	reached.Model, reached.Upstream = "never-answered", "studio"
	m.Observe(reached)
	invalid := answered("\xff\xfe")
	m.Observe(invalid)
	_, got := scrape(t, m, "")
	for labels, want := range map[string]float64{
		"class=rate_limited dialect=openai-chat model=known upstream=none":   1,
		"class=not_found dialect=openai-chat model=other upstream=none":      1,
		"class=unavailable dialect=openai-chat model=other upstream=studio":  1,
		"class=ok dialect=anthropic model=? upstream=studio":                 1,
		"class=not_found dialect=openai-chat model=nobody-has-it upstream=…": -1,
	} {
		if v := value(got, "perigee_requests_total", strings.Fields(labels)...); v != want {
			t.Errorf("{%s} is %v, want %v", labels, v, want)
		}
	}
	for i := range 10 * maxModels {
		m.Observe(answered(fmt.Sprintf("model-%d", i)))
	}
	m.Observe(answered("known"))
	_, got = scrape(t, m, "")
	seen := map[string]bool{}
	for _, row := range got["perigee_requests_total"].GetMetric() {
		for _, l := range row.GetLabel() {
			if l.GetName() == "model" {
				seen[l.GetValue()] = true
			}
		}
	}
	if len(seen) != maxModels+1 || !seen["known"] || !seen[otherModel] || !seen["model-0"] {
		t.Errorf("%d models have a label", len(seen))
	}
}

// stateOptions are a daemon with two upstreams that have accounts and one language server.
func stateOptions() Options {
	return Options{
		Known:     func(string) bool { return false },
		Logger:    slog.New(slog.DiscardHandler),
		OpenCalls: func() int { return 3 },
		Accounts: func() []Accounts {
			return []Accounts{
				{Upstream: "gravity", States: map[string]int{"ready": 2, "new_state": 1}, Disabled: 4, Cooling: 1},
				{Upstream: "spare"},
			}
		},
		Langservers: func() []perigee.LangserverRow {
			return []perigee.LangserverRow{{Upstream: "headless", State: "ready"}, {Upstream: "second", State: "unheard_of"}}
		},
		Extserver: func() map[string]map[string]int64 {
			return map[string]map[string]int64{"Heartbeat": {"ok": 7, "403": 1}}
		},
		Memory:  func() (int64, int64) { return 1 << 20, 1 << 30 },
		Skipped: func() int64 { return 5 },
	}
}

// A call that was not repeated has no list of attempts, and is one.
func TestACallWithoutRetriesIsOneAttempt(t *testing.T) {
	m := New(stateOptions())
	call := answered("gemini-3-flash")
	call.Attempts, call.Usage = nil, perigee.Usage{Input: 5}
	m.Observe(call)
	m.Observe(failed("", perigee.ClassInvalid))
	_, got := scrape(t, m, "")
	if n := value(got, "perigee_attempts_total", "class=ok", "upstream=studio"); n != 1 {
		t.Errorf("%v attempts", n)
	}
	if n := value(got, "perigee_attempts_total", "class=invalid", "upstream=none"); n != -1 {
		t.Errorf("%v attempts of a call that reached no upstream", n)
	}
	if n := value(got, "perigee_tokens_total", "kind=thinking", "model=gemini-3-flash", "upstream=studio"); n != 0 {
		t.Errorf("%v thinking tokens", n)
	}
}

func TestStateIsReadAtEachScrape(t *testing.T) {
	_, got := scrape(t, New(stateOptions()), "")
	for _, test := range []struct {
		want   float64
		name   string
		labels string
	}{
		{3, "perigee_open_calls", ""},
		{2, "perigee_accounts", "state=ready upstream=gravity"},
		{0, "perigee_accounts", "state=banned upstream=gravity"},
		{1, "perigee_accounts", "state=new_state upstream=gravity"},
		{4, "perigee_accounts", "state=disabled upstream=gravity"},
		{0, "perigee_accounts", "state=ready upstream=spare"},
		{1, "perigee_accounts_cooling", "upstream=gravity"},
		{1, "perigee_langserver_state", "state=ready upstream=headless"},
		{0, "perigee_langserver_state", "state=failed upstream=headless"},
		{1, "perigee_langserver_state", "state=unheard_of upstream=second"},
		{0, "perigee_langserver_state", "state=ready upstream=second"},
		{7, "perigee_extserver_requests_total", "code=ok method=Heartbeat"},
		{1, "perigee_extserver_requests_total", "code=403 method=Heartbeat"},
		{1 << 20, "perigee_memory_reserved_bytes", ""},
		{1 << 30, "perigee_memory_limit_bytes", ""},
		{5, "perigee_traces_skipped_total", ""},
	} {
		if v := value(got, test.name, strings.Fields(test.labels)...); v != test.want {
			t.Errorf("%s{%s} is %v, want %v", test.name, test.labels, v, test.want)
		}
	}
}

// The linter of Prometheus knows the rules for names, units and help texts.
func TestNamesFollowTheConventions(t *testing.T) {
	opts := stateOptions()
	m := New(opts)
	m.Observe(answered("gemini-3-flash"))
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if n, err := testutil.GatherAndCount(m.registry, "perigee_requests_total", "perigee_accounts", "perigee_langserver_state"); err != nil || n != 1+15+11 {
		t.Errorf("%d metrics, %v", n, err)
	}
}

func TestAcceptChoosesTheFormat(t *testing.T) {
	m := New(stateOptions())
	m.Observe(answered("gemini-3-flash"))
	text, _ := scrape(t, m, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
	for _, want := range []string{"# TYPE perigee_requests counter\n", `# {call_id="call-1"} 30.0 `, "# EOF\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("OpenMetrics has no %q:\n%s", want, text)
		}
	}
	text, _ = scrape(t, m, "text/plain")
	if strings.Contains(text, "call-1") || !strings.Contains(text, "# TYPE perigee_requests_total counter\n") {
		t.Errorf("plain text:\n%s", text)
	}
}

// A part of the daemon that hangs is left out of scrapes, which end in time, and is not asked again
// until it answers.
func TestAStateThatHangsDelaysNoScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		release := make(chan struct{})
		opts := stateOptions()
		opts.Accounts = func() []Accounts {
			asked.Add(1)
			<-release
			return []Accounts{{Upstream: "late"}}
		}
		m := New(opts)
		for range 3 {
			began := time.Now()
			_, got := scrape(t, m, "")
			if took := time.Since(began); took != readTime {
				t.Errorf("a scrape took %v", took)
			}
			if got["perigee_accounts"] != nil || got["perigee_open_calls"] == nil {
				t.Error("accounts are shown, or open calls are not")
			}
		}
		if asked.Load() != 1 {
			t.Errorf("the part was asked %d times", asked.Load())
		}
		close(release)
		synctest.Wait()
		if _, got := scrape(t, m, ""); value(got, "perigee_accounts", "state=ready", "upstream=late") != 0 {
			t.Error("the part is not shown after it has answered")
		}
	})
}

func TestScrapesAndCallsAtTheSameTime(t *testing.T) {
	m := New(stateOptions())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 200 {
				m.Observe(answered(fmt.Sprintf("model-%d", (i+j)%50)))
				m.Refused(perigee.DialectGemini, perigee.ClassUnauthenticated)
			}
		})
		wg.Go(func() {
			for range 20 {
				r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
				w := httptest.NewRecorder()
				m.Handler().ServeHTTP(w, r)
				_, _ = io.Copy(io.Discard, w.Body)
			}
		})
	}
	await.Return(t, wg.Wait, "the calls")
	_, got := scrape(t, m, "")
	var sum float64
	for _, row := range got["perigee_requests_total"].GetMetric() {
		sum += row.GetCounter().GetValue()
	}
	if sum != 1600 {
		t.Errorf("%v calls were counted, want 1600", sum)
	}
}

func TestOnlyReadingIsAllowed(t *testing.T) {
	p := New(stateOptions()).Point()
	if p.Path != "/metrics" || p.Access != mount.ClientOrOwner {
		t.Errorf("%s with access %v", p.Path, p.Access)
	}
	var err error
	r := httptest.NewRequest(http.MethodPost, "/metrics", nil)
	r = r.WithContext(mount.WithCall(r.Context(), &mount.Call{Fail: func(failed error) { err = failed }}))
	p.Handler.ServeHTTP(httptest.NewRecorder(), r)
	if e := perigee.AsError(err); e == nil || e.Status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v", err)
	}
}

func BenchmarkObserve(b *testing.B) {
	m := New(stateOptions())
	c := answered("gemini-3-flash")
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(c)
	}
}
